// The answer to a question: asked for of each of the models chosen, and shown with what is said of it.
import { ask, isMissing, Unreachable } from "./api";
import { askedPicture, type LikePicture } from "./asked";
import { infoOf } from "./changes";
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
import { mayChange } from "./session";
import { asTaken, withExplanations, withoutMisleadingProbabilities, withSimilarities } from "./text";
import { tried } from "./trying";
import { checkThere } from "./uploads";

const RESULTS = [24, MOST_EXPLAINED, 1000]; // that are asked for at first, and once and twice more; as the service gives

const query = find<HTMLInputElement>("query");
const main = find("main");
const status = find("status");

/** What is done with what is shown. */
export interface Uses {
  open(pictures: Shown[], place: number, further: Further | null): void;
  like(hit: Shown): void;
  ask(question: Question): void;
}

export class Answers {
  readonly searches = new Latest();
  /** What can be shown large. */
  found: Shown[] = [];
  /** The question that was asked last. */
  latest: Question | null = null;
  /** One that was asked without the limit of the score which the one before had. */
  unlimited: Question | null = null;
  #answered: Question | null = null; // by what is shown
  /** How often further results were asked for. */
  steps = 0;
  readonly #actions: Actions;

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

  /** Whether the question was asked without the limit of the score that the one before had. */
  get isUnlimited(): boolean {
    return this.latest !== null && this.latest === this.unlimited;
  }

  get #k(): number {
    return RESULTS[this.steps]!;
  }

  /** Begins with a question, of which few results are asked for at first. */
  begin(question: Question): void {
    this.steps = seen().steps ?? 0;
    this.latest = question;
  }

  /** Lets go of what is shown, which answers nothing any more. */
  forget(): void {
    this.#answered = null;
  }

  /** Does the work for the latest question; `show` shows its outcome, and gives what can be shown large of it. */
  async run<T>(work: (signal: AbortSignal) => Promise<T>, show: (outcome: T) => Shown[]): Promise<void> {
    await this.searches.run(work, (outcome) => {
      this.#answered = this.latest;
      this.found = show(outcome);
    });
  }

  /** Answers a question with the options as they are. Error where that cannot be, with what became of its picture. */
  async ask(question: Question): Promise<void> {
    if (question.kind === "text") return this.#searchText(question.text);
    const { asked } = question;
    try {
      await (question.kind === "pictures" ? this.#searchPicture(question) : this.#searchSentences(question));
    } catch (fault) {
      if (isMissing(fault) && "image_id" in asked) await infoOf(asked.image_id); // which says so where it was deleted
      if (fault instanceof Unreachable && "image" in asked) await checkThere(asked.image);
      throw fault;
    }
  }

  /** The results that follow those that are shown. */
  further(): Further {
    const load = async () => {
      await this.#loadMore();
      return this.found;
    };
    const question = this.#answered; // to which these belong, also once another one is asked
    const isCurrent = () => question === this.latest && question === this.#answered;
    return { hasMore: () => isCurrent() && this.#mayHaveMore(this.found.length), load };
  }

  #mayHaveMore(shown: number): boolean {
    return this.steps + 1 < RESULTS.length && shown >= this.#k;
  }

  /** Asks for further results. Error where they cannot be had: those that are shown stay. */
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

  /** A button for further results, where there may be some. */
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

  #show([first, second]: Ranking[], note: string, ...above: HTMLElement[]): Shown[] {
    status.textContent = note;
    const { results } = first!;
    if (second) {
      showWords(null);
      const shown = Math.max(results.length, second.results.length);
      refill(main, ...above, sideBySide(first!, second, this.#k, this.#actions), ...this.#more(shown));
    } else {
      const { grid, words } = resultGrid(results, this.#actions);
      showWords(words);
      refill(main, ...above, grid, ...this.#more(results.length));
    }
    return results;
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
        return this.#show(answers.map(withoutMisleadingProbabilities), notes.join(" "));
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
        return this.#show(answers.map(withSimilarities), note, this.likePicture.above(question));
      },
    );
  }

  /** Shows the stored captions that describe a picture best, or why there are none. */
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

  /** One request, or two of different models: each of the models chosen answers. */
  async #byEachModel<T>(request: (model: string | null) => Promise<T>): Promise<T[]> {
    const [first, second] = this.options.models;
    const answer = await request(first);
    return second ? [answer, await request(second)] : [answer];
  }

  /** How a question is asked just now. Error where an option has a value that is none. */
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
