// Answers to questions: requested from each selected model, and shown with notes.
import { ask, isMissing, Unreachable } from "./api";
import { askedPicture, type LikePicture } from "./asked";
import { infoOf, isWhole } from "./changes";
import { type Ranking, sideBySide } from "./comparing";
import type { Further, Shown } from "./detail";
import { button, find, refill, workButton } from "./dom";
import { current, noteSeen, type PictureQuestion, type Question, seen } from "./history";
import { Latest } from "./latest";
import { type HowAsked, noteOfPictures, noteOfSentences, noteOfText } from "./notes";
import type { CaptionHit, ImageAnswer, TextAnswer } from "./openapi";
import type { SearchOptions } from "./options";
import { MOST_EXPLAINED, pictureForm, textRequest } from "./requests";
import { type Actions, resultGrid, sentenceList, showWords } from "./results";
import { Selection } from "./selection";
import { mayChange } from "./session";
import { asTaken, period, withExplanations, withoutMisleadingProbabilities, withSimilarities } from "./text";
import { tried } from "./trying";
import { checkThere } from "./uploads";

const RESULTS = [24, MOST_EXPLAINED, 1000]; // results wanted after 0, 1 and 2 steps; 1000 is the service's limit

const query = find<HTMLInputElement>("query");
const main = find("main");
const status = find("status");

/** Actions on shown results. */
export interface Uses {
  open(pictures: Shown[], place: number, further: Further | null): void;
  like(hit: Shown): void;
  ask(question: Question): void;
  again(): void;
}

export class Answers {
  readonly searches = new Latest();
  /** The shown pictures that can be enlarged. */
  found: Shown[] = [];
  /** The question that was asked last. */
  latest: Question | null = null;
  /** A question for which the previous question's minimum score was removed. */
  unlimited: Question | null = null;
  #answered: Question | null = null; // whose answer is shown
  /** How often further results were requested. */
  steps = 0;
  readonly #actions: Actions;
  // Results stay in place after changes, so that nothing moves; if others are shown by now, they may need an update.
  readonly #selection = new Selection((changed) => {
    if (changed.some(({ element }) => !element.isConnected)) this.uses.again();
  });

  constructor(
    private readonly options: SearchOptions,
    private readonly likePicture: LikePicture,
    private readonly uses: Uses,
  ) {
    this.#actions = {
      open: (hits, place) => uses.open(hits, place, hits === this.found ? this.further() : null),
      like: (hit) => uses.like(hit),
    };
  }

  /** Whether the previous question's minimum score was removed for the latest question. */
  get isUnlimited(): boolean {
    return this.latest !== null && this.latest === this.unlimited;
  }

  get #k(): number {
    return RESULTS[this.steps]!;
  }

  /** Begins with a question, with few results at first. */
  begin(question: Question): void {
    this.steps = seen().steps ?? 0;
    if (question !== this.latest) this.#selection.end();
    this.latest = question;
  }

  /** Forgets which question the shown results answer. */
  forget(): void {
    this.#answered = null;
  }

  /** Does the work for the latest question. `show` shows its outcome, and returns the pictures that can be enlarged. */
  async run<T>(work: (signal: AbortSignal) => Promise<T>, show: (outcome: T) => Shown[]): Promise<void> {
    await this.searches.run(work, (outcome) => {
      this.#answered = this.latest;
      this.found = show(outcome);
    });
  }

  /** Answers a question with the current options. Error if that fails; it says if the question's picture is missing. */
  async ask(question: Question): Promise<void> {
    if (question.kind === "text") return this.#searchText(question.text);
    const { asked } = question;
    try {
      await (question.kind === "pictures" ? this.#searchPicture(question) : this.#searchSentences(question));
    } catch (fault) {
      // With a clearer error:
      if ("image_id" in asked && (isMissing(fault) || !isWhole(asked.image_id))) await infoOf(asked.image_id);
      if (fault instanceof Unreachable && "image" in asked) await checkThere(asked.image);
      throw fault;
    }
  }

  /** Access to further results of the answered question. */
  further(): Further {
    const load = async () => {
      await this.#loadMore();
      return this.found;
    };
    const question = this.#answered; // the results belong to it even after another one is asked
    const isCurrent = () => question === this.latest && question === this.#answered;
    return { hasMore: () => isCurrent() && this.#mayHaveMore(this.found.length), load };
  }

  #mayHaveMore(shown: number): boolean {
    return this.steps + 1 < RESULTS.length && shown >= this.#k;
  }

  /** Requests further results. After an Error the shown ones stay. */
  async #loadMore(): Promise<void> {
    const [question, before] = [this.latest!, this.steps];
    this.steps++;
    try {
      await this.ask(question);
    } catch (fault) {
      if (question === this.latest) this.steps = before;
      throw fault;
    }
    if (question === this.latest) noteSeen({ steps: this.steps });
  }

  /** A button for further results; none if there are no more. */
  #more(shown: number): HTMLElement[] {
    if (!this.#mayHaveMore(shown)) return [];
    const load = async () => {
      await tried(
        () => this.#loadMore(),
        "Searching…",
        () => {},
        () => void load(),
      );
      const next = main.querySelectorAll("li")[shown];
      if (next && [document.body, main].includes(document.activeElement as HTMLElement))
        (next.querySelector("button") ?? main).focus({ preventScroll: !next.querySelector("button") });
    };
    return [workButton("Show more", load, { class: "more" })];
  }

  #show([first, second]: Ranking[], note: string, byDate: HTMLElement | "", ...above: HTMLElement[]): Shown[] {
    status.replaceChildren(note, " ", byDate);
    const { results } = first!;
    if (second) {
      showWords(null);
      const shown = Math.max(results.length, second.results.length);
      refill(main, ...above, sideBySide(first!, second, this.#k, this.#actions), ...this.#more(shown));
    } else {
      const { grid, words, cards } = resultGrid(results, this.#actions);
      showWords(words, results.length ? this.#selection.begin : null);
      this.#selection.over(grid, () => cards);
      refill(main, ...above, ...(results.length ? [this.#selection.element] : []), grid, ...this.#more(results.length));
    }
    return results;
  }

  /** A button that filters by a question's date, and asks for its other words; "" without a suggestion. */
  #byDate({ suggestion }: TextAnswer | ImageAnswer, question: (words: string) => Question): HTMLElement | "" {
    if (!suggestion) return "";
    const narrow = () => {
      this.options.setPeriod(suggestion.taken_at);
      this.uses.ask(question(suggestion.query));
    };
    return button(`Only ${period(suggestion.taken_at)}`, narrow);
  }

  async #searchText(text: string): Promise<void> {
    const [how, k] = [this.#howAsked(), this.#k];
    const answer = (model: string | null, signal: AbortSignal, most: number) =>
      ask<TextAnswer>("/search/text", { json: { ...textRequest(text, this.options, most), model }, signal });
    await this.run(
      (signal) =>
        this.#byEachModel(async (model) => {
          const explained = await answer(model, signal, Math.min(k, MOST_EXPLAINED));
          return k > MOST_EXPLAINED ? withExplanations(await answer(model, signal, k), explained) : explained;
        }),
      (answers) => {
        const ofEach = answers.map((one) => noteOfText(one, how));
        const notes = answers.length > 1 ? answers.map((one, place) => `${one.model}: ${ofEach[place]}`) : ofEach;
        const byDate = this.#byDate(answers[0]!, (words) => ({ kind: "text", text: words }));
        return this.#show(answers.map(withoutMisleadingProbabilities), notes.join(" "), byDate);
      },
    );
  }

  async #searchPicture(question: PictureQuestion): Promise<void> {
    const how = this.#howAsked();
    const form = (model: string | null) => pictureForm(question, model, this.options, this.#k);
    await this.run(
      (signal) => this.#byEachModel((model) => ask<ImageAnswer>("/search/image", { form: form(model), signal })),
      (answers) => {
        const note = noteOfPictures(answers, question.title, how);
        const byDate = this.#byDate(answers[0]!, (words) => ({ ...question, words }));
        return this.#show(answers.map(withSimilarities), note, byDate, this.likePicture.above(question));
      },
    );
  }

  /** Shows the stored captions that best describe a picture, or why there are none. */
  async #searchSentences(question: PictureQuestion): Promise<void> {
    const { asked, title } = question;
    const [how, form] = [this.#howAsked(), pictureForm(question, this.options.models[0], this.options, this.#k)];
    await this.run(
      (signal) => ask<ImageAnswer>("/search/image", { form, signal }),
      (answer) => {
        const hits = answer.results as CaptionHit[];
        status.textContent = noteOfSentences(answer, title, how);
        showWords(null);
        const pictures = button("Pictures like it", () => this.uses.ask({ kind: "pictures", asked, title }));
        refill(main, askedPicture(asked, title, pictures), sentenceList(hits), ...this.#more(hits.length));
        return [];
      },
    );
  }

  /** The answers of the selected models, one or two. */
  async #byEachModel<T>(request: (model: string | null) => Promise<T>): Promise<T[]> {
    const [first, second] = this.options.models;
    const answer = await request(first);
    return second ? [answer, await request(second)] : [answer];
  }

  /** The current options that notes depend on. Error if an option has an invalid value. */
  #howAsked(): HowAsked {
    const { match, filter, cutOff } = this.options;
    return {
      k: this.#k,
      match,
      isShortened: query.value.trim() !== asTaken(query.value),
      isFiltered: filter !== null,
      cutOff,
      isCutOffGone: this.isUnlimited,
      idle: this.options.idleFor(current().kind),
      mayChange: mayChange(),
    };
  }
}
