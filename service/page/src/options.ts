// How to search: model and second model, order, dates, tags, a least score. `onchange` hears of every change, and whether it is
// of what is being typed.
import { ask } from "./api";
import { inFull } from "./conditions";
import { type CutOff, readCutOff, Unreadable } from "./cutoff";
import { dayMeant, readDate, whyNoDate } from "./dates";
import { button, el, find, mark } from "./dom";
import type { Chosen, Question } from "./history";
import { Latest } from "./latest";
import type { ModelListed, ModelsAnswer, TagsAnswer } from "./openapi";
import { tabStorage } from "./tab";
import { TagFilter } from "./tags";
import { readNumber } from "./text";

type Control = HTMLInputElement | HTMLSelectElement;

/** Options by their names in an address, as the page calls them. */
const SHOWN: Record<string, string> = {
  model: "Model",
  beside: "beside",
  sort: "Sort by",
  look: "Look at",
  alike: "Show near duplicates as one",
  least: "At least",
};
/** Options that mean nothing to what is asked, by what that is. */
const MEANT_FOR_OTHERS: Record<Question["kind"] | "library", string[]> = {
  library: ["model", "beside", "look", "alike", "least"],
  text: [],
  pictures: ["look"],
  sentences: ["beside", "sort", "look", "alike"],
};

const OPEN = "regard-options"; // by which it is kept for this tab whether they are to be seen

const MOST_TAGS = 50;
const TAG = "tag."; // before the name of a tag, in an address
const TYPING_MS = 200; // a pause after which what was typed is looked up

export class SearchOptions {
  readonly #model = el("select", {});
  readonly #second = el("select", { title: "A second model" });
  readonly #usual = el("option", { value: "relevance", selected: true }, "relevance");
  readonly #sort = el("select", {}, this.#usual, el("option", { value: "date" }, "date"));
  readonly #from = el("input", { type: "text", placeholder: "2023", size: 10, title: "The earliest date" });
  readonly #until = el("input", { type: "text", placeholder: "2024-05", size: 10, title: "The latest date" });
  readonly #meant = el("span", { class: "quiet", "aria-live": "polite" }); // which days those are read as
  readonly #tags: TagFilter;
  readonly #suggesting = new Latest();
  #looking = 0; // the pause after which it is looked up which tags may be meant
  #typing = 0; // the pause after which it is told what was typed
  readonly #least = el("input", { type: "text", class: "few", placeholder: "any" });
  readonly #unit = el(
    "select",
    { "aria-label": "in percent or score" },
    el("option", { value: "min_probability", selected: true }, "% likely"),
    el("option", { value: "min_score" }, "score"),
  );
  readonly #looked = el(
    "select",
    {},
    el("option", { value: "both", selected: true }, "pictures and text"),
    el("option", { value: "pictures" }, "pictures alone"),
    el("option", { value: "text" }, "text alone"),
  );
  readonly #grouped = el("input", { type: "checkbox" });
  readonly #known = el("datalist", { id: "tags" });
  readonly #shows = button("Options", () => this.#press(), { id: "show-options", "aria-controls": "panel" });
  readonly #panel = el("div", { id: "panel" });
  /** By their names in an address. */
  readonly #controls: Record<string, Control> = {
    model: this.#model,
    beside: this.#second,
    sort: this.#sort,
    from: this.#from,
    to: this.#until,
    look: this.#looked,
    least: this.#least,
    in: this.#unit,
  };

  constructor(onchange: (isTyped: boolean) => void) {
    const changed = (isTyped: boolean) => {
      this.#count();
      onchange(isTyped);
    };
    this.#tags = new TagFilter(
      () => changed(false),
      () => this.#suggest(),
    );
    this.#fill();
    find("options").append(this.#shows, this.#tags.chips, this.#panel);
    this.#unfold(!!tabStorage()[OPEN]);
    this.#listen(changed);
    this.#tags.input.addEventListener("input", () => {
      clearTimeout(this.#looking);
      this.#looking = setTimeout(() => void this.#suggest().catch(() => {}), TYPING_MS); // those of before stay
    });
  }

  #fill(): void {
    // What is filtered by goes on together where the line is too short for all.
    const filters = [labelled("From", this.#from), labelled("to", this.#until), labelled("Tag", this.#tags.input)];
    this.#panel.append(
      el(
        "div",
        { class: "line" },
        el("div", { class: "group" }, ...filters, this.#meant, this.#tags.fault),
        labelled("Sort by", this.#sort),
        labelled("Show near duplicates as one", this.#grouped),
      ),
      el("h2", {}, "Models and cut-off"),
      el(
        "div",
        { class: "line" },
        labelled("Model", this.#model),
        labelled("beside", this.#second),
        labelled("Look at", this.#looked),
        labelled("At least", this.#least),
        labelled("in", this.#unit),
      ),
      this.#known,
    );
  }

  #press(): void {
    this.#unfold(!!this.#panel.hidden);
    tabStorage()[OPEN] = this.#panel.hidden ? "" : "open";
  }

  /** Shows all of them, or none but the conditions on tags. */
  #unfold(isOpen: boolean): void {
    this.#panel.hidden = !isOpen;
    this.#shows.ariaExpanded = String(isOpen);
  }

  /** Has changes told: of what is typed once it may be complete, and of all else once it is chosen. */
  #listen(changed: (isTyped: boolean) => void): void {
    const isDate = (text: string) => readDate(text) !== null;
    const isNumber = (text: string) => !text || readNumber(text) !== null;
    const typed = [
      [this.#from, isDate],
      [this.#until, isDate],
      [this.#least, isNumber],
    ] as const;
    let told: HTMLInputElement | null = null; // whose value was told while it was typed
    for (const [input, isComplete] of typed)
      input.addEventListener("input", () => {
        clearTimeout(this.#typing);
        told = null;
        if (!isComplete(input.value.trim())) return;
        this.#typing = setTimeout(() => {
          told = input;
          changed(true);
        }, TYPING_MS);
      });
    find("options").addEventListener("change", ({ target }) => {
      if (target === this.#tags.input) return; // which tells of it by itself
      clearTimeout(this.#typing);
      if (told === null || target !== told) changed(false);
      told = null;
    });
  }

  /** Fills in the models that can be asked, and has the tags in use come. */
  async load(): Promise<void> {
    const { models } = await ask<ModelsAnswer>("/models");
    const ready = models.filter((one) => one.state !== "not built");
    const [first, second] = [this.#model.value, this.#second.value]; // of an address
    this.#model.replaceChildren(...ready.map((one) => choice(one)));
    this.#second.replaceChildren(
      el("option", { value: "" }, "no other"),
      ...ready.map((one) => choice({ ...one, default: false })),
    );
    this.#second.parentElement!.hidden = ready.length < 2;
    if (first) choose(this.#model, first);
    if (second) choose(this.#second, second);
    void this.#suggest().catch(() => {}); // nothing waits for them, and they are looked up again with what is written
  }

  /** Offers the tags that fit what is written. */
  async #suggest(): Promise<void> {
    clearTimeout(this.#looking);
    const search = this.#tags.input.value.split(":").at(-1)!.trim().replace(/^"|"$/g, "");
    const address = `/tags?${new URLSearchParams({ search, limit: "20", values: "10" })}`;
    await this.#suggesting.run(
      (signal) => ask<TagsAnswer>(address, { signal }),
      ({ tags }) => {
        const found = tags.flatMap(({ name, values }) => values.map(({ value }) => ({ name, is: value })));
        this.#tags.know(
          tags.map((tag) => tag.name),
          found,
        );
        this.#known.replaceChildren(...found.slice(0, MOST_TAGS).map((one) => el("option", { value: inFull(one) })));
      },
    );
    await this.#suggesting.settled(); // a later look-up that this one was given up for
  }

  /** Has pictures of a tag alone found, too; false where that is so already, or cannot be. */
  addTag(name: string, value: string | number): boolean {
    const isNew = this.#tags.put(name, value);
    if (this.#tags.input.ariaInvalid) this.#unfold(true); // why is told there
    return isNew;
  }

  /** What is not as it was at first. */
  get chosen(): Chosen {
    const controls = Object.entries(this.#controls).filter(([, one]) => one.value.trim() !== initial(one));
    return [
      ...controls
        .filter(([name]) => name !== "in" || this.#least.value.trim())
        .map(([name, one]): [string, string] => [name, one.value.trim()]),
      ...(this.groups ? [["alike", "one"] as [string, string]] : []),
      ...this.#tags.conditions.map(([name, said]): [string, string] => [`${TAG}${name}`, said]),
    ];
  }

  /** Chooses what an address says, which is to be seen, and all else as it was at first. */
  restore(said: URLSearchParams): void {
    const before = `${this.chosen}`;
    clearTimeout(this.#typing); // which is of what was left
    for (const [name, one] of Object.entries(this.#controls)) choose(one, said.get(name) ?? initial(one));
    this.#grouped.checked = said.has("alike");
    const conditions = [...said].filter(([name]) => name.startsWith(TAG));
    this.#tags.replace(conditions.map(([name, value]) => [name.slice(TAG.length), value]));
    this.#count();
    if (this.chosen.length && `${this.chosen}` !== before) this.#unfold(true);
  }

  /** Names the order of what is looked at: nothing in the library answers a question. */
  lookAt(asked: Question["kind"] | "library"): void {
    this.#usual.textContent = asked === "library" ? "last added" : "relevance";
  }

  /** Says how many are not as they were at first, what is meant by a date that could be another one, and what cannot be read. */
  #count(): void {
    const days = [
      ["from", dayMeant(this.#from.value)],
      ["to", dayMeant(this.#until.value)],
    ].filter(([, day]) => day);
    this.#meant.textContent = days.length ? `read as ${days.flat().join(" ")}` : "";
    for (const one of [this.#from, this.#until]) mark(one, readDate(one.value) === null, "status");
    mark(this.#least, !this.#isLeastRead, "status");
    this.#least.inputMode = this.#unit.value === "min_score" ? "text" : "decimal"; // which has no minus on some phones
    const num = this.chosen.filter(([name]) => name !== "in").length;
    this.#shows.textContent = num ? `Options (${num})` : "Options";
  }

  /** The model asked, and the one shown beside it, null for none. */
  get models(): [string | null, string | null] {
    const first = this.#model.value || null;
    return [first, this.#second.value && this.#second.value !== first ? this.#second.value : null];
  }

  get order(): "relevance" | "date" {
    return this.#sort.value as "relevance" | "date";
  }

  /** What a sentence is compared with. */
  get match(): "both" | "pictures" | "text" {
    return this.#looked.value as "both" | "pictures" | "text";
  }

  /** Whether pictures that look the same are shown as one. */
  get groups(): boolean {
    return this.#grouped.checked;
  }

  /** The limit that results have to reach, as the service takes it; none where nothing is written. Unreadable for no limit. */
  get cutOff(): CutOff {
    return readCutOff(this.#least.value, this.#unit.value === "min_score");
  }

  get #isLeastRead(): boolean {
    try {
      return !!this.cutOff;
    } catch {
      return false;
    }
  }

  /** Takes a limit of the score away, which means nothing to scores of another scale; false where none is set. */
  forgetLeastScore(): boolean {
    if (this.#unit.value !== "min_score" || !this.#least.value) return false;
    this.#least.value = "";
    this.#count();
    return true;
  }

  /** The names of options that are set and mean nothing to what is asked. */
  idleFor(asked: Question["kind"] | "library"): string[] {
    const set = new Set(this.chosen.map(([name]) => name));
    return MEANT_FOR_OTHERS[asked].filter((name) => set.has(name)).map((name) => SHOWN[name]!);
  }

  /** The filter as the service takes it; null for none. Unreadable where a date is none. */
  get filter(): Record<string, unknown> | null {
    const [gte, lte, tags] = [dateOf("From", this.#from), dateOf("To", this.#until), this.#tags.filter];
    const filter = {
      ...((gte || lte) && { taken_at: { ...(gte && { gte }), ...(lte && { lte }) } }),
      ...(tags && { tags }),
    };
    return Object.keys(filter).length ? filter : null;
  }
}

/** What is chosen at first. */
function initial(control: Control): string {
  if (control instanceof HTMLInputElement) return "";
  return [...control.options].find((one) => one.defaultSelected)?.value ?? "";
}

/** Chooses a value; one that is not offered becomes an option, so that the service tells what is wrong with it. */
function choose(control: Control, value: string): void {
  const isOffered = control instanceof HTMLInputElement || [...control.options].some((one) => one.value === value);
  if (!isOffered) control.append(el("option", { value }, value));
  control.value = value;
}

function dateOf(name: string, { value }: HTMLInputElement): string {
  const date = readDate(value);
  if (date === null) throw new Unreadable(`${name}: ${whyNoDate(value)}`);
  return date;
}

function labelled(text: string, control: HTMLElement): HTMLElement {
  return el("label", {}, `${text} `, control);
}

function choice(model: ModelListed): HTMLElement {
  return el("option", { value: model.name, selected: model.default }, model.name);
}
