// The search options: models, order, dates, tags, cut-off. `onchange` is called after each change, with whether it is
// being typed.
import { ask } from "./api";
import { inFull } from "./conditions";
import { type CutOff, readCutOff, Unreadable } from "./cutoff";
import { dayMeant, readDate, whyNoDate } from "./dates";
import { button, el, find, mark } from "./dom";
import type { Chosen, Question } from "./history";
import { Latest } from "./latest";
import type { ModelListed, ModelsAnswer, Period, TagsAnswer } from "./openapi";
import { tabStorage } from "./tab";
import { TagFilter } from "./tags";
import { period, readNumber } from "./text";

type Control = HTMLInputElement | HTMLSelectElement;

/** Option names in an address -> their labels on the page. */
const SHOWN: Record<string, string> = {
  model: "Model",
  beside: "beside",
  sort: "Sort by",
  look: "Look at",
  alike: "Show near duplicates as one",
  least: "At least",
};
/** Kind of question -> options that have no effect on it. */
const MEANT_FOR_OTHERS: Record<Question["kind"] | "library", string[]> = {
  library: ["model", "beside", "look", "alike", "least"],
  text: [],
  pictures: ["look"],
  sentences: ["beside", "sort", "look", "alike"],
};

const OPEN = "regard-options"; // key in the tab's storage for whether the options are shown

const MOST_TAGS = 50;
const TAG = "tag."; // prefix of a tag's name in an address
const TYPING_MS = 200; // pause in typing before the text is used

export class SearchOptions {
  readonly #model = el("select", {});
  readonly #second = el("select", { title: "A second model" });
  readonly #usual = el("option", { value: "relevance", selected: true }, "relevance");
  readonly #sort = el("select", {}, this.#usual, el("option", { value: "date" }, "date"));
  readonly #from = el("input", { type: "text", placeholder: "2023", size: 10, title: "The earliest date" });
  readonly #until = el("input", { type: "text", placeholder: "2024-05", size: 10, title: "The latest date" });
  readonly #meant = el("span", { class: "quiet", "aria-live": "polite" }); // how ambiguous dates are read
  readonly #dates = el("span", { class: "chips", role: "group", "aria-label": "Dates" }); // while their fields are hidden
  readonly #tags: TagFilter;
  readonly #suggesting = new Latest();
  #looking = 0; // timer for looking up matching tags
  #typing = 0; // timer for reporting what was typed
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

  constructor(private readonly onchange: (isTyped: boolean) => void) {
    this.#tags = new TagFilter(
      () => this.#changed(false),
      () => this.#suggest(),
    );
    this.#fill();
    find("options").append(this.#shows, this.#dates, this.#tags.chips, this.#panel);
    this.#unfold(!!tabStorage()[OPEN]);
    this.#listen((isTyped) => this.#changed(isTyped));
    this.#tags.input.addEventListener("input", () => {
      clearTimeout(this.#looking);
      this.#looking = setTimeout(() => void this.#suggest().catch(() => {}), TYPING_MS); // after an error the previous ones stay
    });
  }

  #changed(isTyped: boolean): void {
    this.#count();
    this.onchange(isTyped);
  }

  #fill(): void {
    // The fields of the filter wrap to a new line together.
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

  /** Shows all options, or only the conditions on dates and tags. */
  #unfold(isOpen: boolean): void {
    this.#panel.hidden = !isOpen;
    this.#shows.ariaExpanded = String(isOpen);
    this.#showDates();
  }

  /** Shows the dates of the filter, while their fields are hidden, as a button that removes them. */
  #showDates(): void {
    const [gte, lte] = [this.#from.value.trim(), this.#until.value.trim()];
    const dates = period({ gte: gte || null, lte: lte || null });
    const chip = () =>
      button(`${dates} ×`, () => this.#removeDates(), { class: "chip", "aria-label": `Take away: ${dates}` });
    this.#dates.replaceChildren(...((gte || lte) && this.#panel.hidden ? [chip()] : []));
  }

  #removeDates(): void {
    this.#shows.focus(); // the button is removed
    this.choosePeriod("");
  }

  /** Reports changes: of typed values once they may be complete, of all others at once. */
  #listen(changed: (isTyped: boolean) => void): void {
    const isDate = (text: string) => readDate(text) !== null;
    const isNumber = (text: string) => !text || readNumber(text) !== null;
    const typed = [
      [this.#from, isDate],
      [this.#until, isDate],
      [this.#least, isNumber],
    ] as const;
    let told: HTMLInputElement | null = null; // the field whose value was already reported while typing
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
      if (target === this.#tags.input) return; // it reports changes itself
      clearTimeout(this.#typing);
      if (told === null || target !== told) changed(false);
      told = null;
    });
  }

  /** Loads the models that can be used, and starts loading the tags in use. */
  async load(): Promise<void> {
    const { models } = await ask<ModelsAnswer>("/models");
    const ready = models.filter((one) => one.state !== "not built");
    const [first, second] = [this.#model.value, this.#second.value]; // from the address
    this.#model.replaceChildren(...ready.map((one) => choice(one)));
    this.#second.replaceChildren(
      el("option", { value: "" }, "no other"),
      ...ready.map((one) => choice({ ...one, default: false })),
    );
    this.#second.parentElement!.hidden = ready.length < 2;
    if (first) choose(this.#model, first);
    if (second) choose(this.#second, second);
    void this.#suggest().catch(() => {}); // not needed yet, and loaded again when a tag is typed
  }

  /** Suggests tags that match the typed text. */
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
    await this.#suggesting.settled(); // also for a later look-up that replaced this one
  }

  /** Adds a condition that pictures have this tag; false if it exists already or is not possible. */
  addTag(name: string, value: string | number): boolean {
    const isNew = this.#tags.put(name, value);
    if (this.#tags.input.ariaInvalid) this.#unfold(true); // to show the reason
    return isNew;
  }

  /** Sets the dates of the filter, which are then shown. */
  setPeriod({ gte, lte }: Period): void {
    this.#from.value = gte ?? "";
    this.#until.value = lte ?? "";
    this.#count();
    if (isWide()) this.#unfold(true);
  }

  /** Asks for pictures of a year or month alone, or no longer if that is chosen. */
  choosePeriod(period: string): void {
    const chosen = this.period === period ? "" : period;
    for (const one of [this.#from, this.#until]) one.value = chosen;
    this.#changed(false);
  }

  /** The year or month that is asked for alone; "" for none. */
  get period(): string {
    const [from, until] = [readDate(this.#from.value), readDate(this.#until.value)];
    return from === until && /^\d{4}(-\d\d)?$/.test(from ?? "") ? from! : "";
  }

  /** The options that differ from their defaults. */
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

  /** Sets the options of an address, which are then shown, and resets the others. */
  restore(said: URLSearchParams): void {
    const before = `${this.#unseen}`;
    clearTimeout(this.#typing); // of the previous question
    for (const [name, one] of Object.entries(this.#controls)) choose(one, said.get(name) ?? initial(one));
    this.#grouped.checked = said.has("alike");
    const conditions = [...said].filter(([name]) => name.startsWith(TAG));
    this.#tags.replace(conditions.map(([name, value]) => [name.slice(TAG.length), value]));
    this.#count();
    if (this.#unseen.length && `${this.#unseen}` !== before) this.#unfold(true);
  }

  /** The chosen options that show only unfolded; on a telephone, dates and tags are seen as buttons. */
  get #unseen(): Chosen {
    const isSeen = (name: string) => !isWide() && (name === "from" || name === "to" || name.startsWith(TAG));
    return this.chosen.filter(([name]) => !isSeen(name));
  }

  /** Labels the default order: in the library there is no relevance. */
  lookAt(asked: Question["kind"] | "library"): void {
    this.#usual.textContent = asked === "library" ? "last added" : "relevance";
  }

  /** Shows the number of changed options, the meaning of ambiguous dates, and which values are invalid. */
  #count(): void {
    const days = [
      ["from", dayMeant(this.#from.value)],
      ["to", dayMeant(this.#until.value)],
    ].filter(([, day]) => day);
    this.#meant.textContent = days.length ? `read as ${days.flat().join(" ")}` : "";
    for (const one of [this.#from, this.#until]) mark(one, readDate(one.value) === null, "status");
    this.#showDates();
    mark(this.#least, !this.#isLeastRead, "status");
    this.#least.inputMode = this.#unit.value === "min_score" ? "text" : "decimal"; // "decimal" has no minus on some phones
    const num = this.chosen.filter(([name]) => name !== "in").length;
    this.#shows.textContent = num ? `Options (${num})` : "Options";
  }

  /** The selected model, and the one to compare it with; null for the default and for none. */
  get models(): [string | null, string | null] {
    const first = this.#model.value || null;
    return [first, this.#second.value && this.#second.value !== first ? this.#second.value : null];
  }

  get order(): "relevance" | "date" {
    return this.#sort.value as "relevance" | "date";
  }

  /** What a sentence is matched with. */
  get match(): "both" | "pictures" | "text" {
    return this.#looked.value as "both" | "pictures" | "text";
  }

  /** Whether near duplicates are shown as one result. */
  get groups(): boolean {
    return this.#grouped.checked;
  }

  /** The cut-off as fields of a request; empty without one. Throws Unreadable for an invalid value. */
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

  /** Removes a minimum score, which is meaningless for scores of another scale; false if none is set. */
  forgetLeastScore(): boolean {
    if (this.#unit.value !== "min_score" || !this.#least.value) return false;
    this.#least.value = "";
    this.#count();
    return true;
  }

  /** The labels of options that are set but have no effect on this kind of question. */
  idleFor(asked: Question["kind"] | "library"): string[] {
    const set = new Set(this.chosen.map(([name]) => name));
    return MEANT_FOR_OTHERS[asked].filter((name) => set.has(name)).map((name) => SHOWN[name]!);
  }

  /** The filter of a request; null for none. Throws Unreadable for an invalid date. */
  get filter(): Record<string, unknown> | null {
    const [gte, lte, tags] = [dateOf("From", this.#from), dateOf("To", this.#until), this.#tags.filter];
    const filter = {
      ...((gte || lte) && { taken_at: { ...(gte && { gte }), ...(lte && { lte }) } }),
      ...(tags && { tags }),
    };
    return Object.keys(filter).length ? filter : null;
  }
}

/** Whether the unfolded options leave room for the answer, as they do not on a telephone. */
function isWide(): boolean {
  return matchMedia("(min-width: 30rem)").matches;
}

/** The default value of a control. */
function initial(control: Control): string {
  if (control instanceof HTMLInputElement) return "";
  return [...control.options].find((one) => one.defaultSelected)?.value ?? "";
}

/** Sets a value. An unknown one becomes an option, so that the service reports what is wrong with it. */
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
