// The filter by tags: conditions are typed one at a time; each becomes a button that removes it.
import { asWritten, type Condition, condition, conditionOn, inFull, isSame, together } from "./conditions";
import { button, el, find, onEnterInList, refill } from "./dom";
import { isolated, messageOf, withoutAccents } from "./text";

export class TagFilter {
  readonly input = el("input", {
    type: "text",
    placeholder: "album: Rome",
    list: "tags",
    size: 16,
    title: "name: value, or name: 2020..2024 for a range",
    "aria-describedby": "tag-fault",
    autocapitalize: "none",
  });
  /** The conditions, which are visible even if the input is hidden. */
  readonly chips = el("span", { class: "chips", role: "group", "aria-label": "Conditions" });
  readonly fault = el("span", { id: "tag-fault", class: "fault", role: "alert" });
  readonly #known = new Set<string>();
  #written: Condition[] = [];
  #offered: Condition[] = [];
  #replaced = 0; // how often all conditions were replaced

  /** `onchange` is called after conditions change; `lookUp` loads suggestions for the typed text. */
  constructor(
    private readonly onchange: () => void,
    private readonly lookUp: () => Promise<void>,
  ) {
    this.input.addEventListener("change", () => void this.#take());
    onEnterInList(this.input, () => void this.#take());
    this.input.addEventListener("input", (event) => {
      const isChosen = (event as InputEvent).inputType === "insertReplacementText"; // Firefox sends no change event for it
      if (isChosen && this.#offered.some((one) => inFull(one) === this.input.value)) void this.#take();
    });
  }

  /**
   * Sets known names, needed to parse names that contain a colon, and suggested conditions: a text that differs from
   * one only by case and accents means that condition.
   */
  know(names: string[], offered: Condition[]): void {
    for (const name of names) this.#known.add(name);
    this.#offered = offered;
  }

  /** The conditions, each as its name and the text after the colon. */
  get conditions(): [name: string, said: string][] {
    return this.#written.map((one) => [one.name, asWritten(one)]);
  }

  /** The conditions as a filter for the service; null for none. */
  get filter(): Record<string, unknown> | null {
    return this.#written.length ? together(this.#written) : null;
  }

  /** Replaces all conditions. */
  replace(conditions: [name: string, said: string][]): void {
    this.#replaced++;
    this.#written = [];
    this.#tell("");
    for (const [name, said] of conditions) this.#add(conditionOn(name, said));
    this.#show();
  }

  /**
   * Adds the typed condition, after looking up what it may mean. Text typed meanwhile is kept; if all conditions were
   * replaced meanwhile, it is dropped.
   */
  async #take(): Promise<void> {
    const typed = this.input.value.trim();
    const before = this.#replaced;
    this.#tell("");
    if (!typed) return;
    if (!this.#offered.some((one) => inFull(one) === typed)) await this.lookUp().catch(() => {});
    const one = this.#meantBy(typed);
    const stands = this.input.value.trim() === typed;
    if (before !== this.#replaced || (one ? this.#has(one) : !stands)) return; // an invalid text may have been corrected since
    if (!this.#add(one)) return;
    if (stands) {
      this.input.value = "";
      void this.lookUp().catch(() => {}); // the suggestions were narrowed to it
    }
    this.#show();
    this.onchange();
  }

  /** The suggested condition with this text, ignoring case and accents if need be, or else the parsed one. */
  #meantBy(typed: string): Condition | null {
    const exact = this.#offered.find((one) => inFull(one) === typed);
    const alike = exact ?? this.#offered.find((one) => folded(inFull(one)) === folded(typed));
    return alike ?? condition(typed, [...this.#known]) ?? this.#withValue(typed);
  }

  /** The only suggested condition with this value, typed without its name; null if there is none or several. */
  #withValue(typed: string): Condition | null {
    const found = this.#offered.filter((one) => folded(asWritten(one)) === folded(typed));
    return found.length === 1 ? found[0]! : null;
  }

  /** Adds the condition that a tag has a value; false if it exists already or is not possible. */
  put(name: string, value: string | number): boolean {
    const one = { name, is: value };
    this.#tell("");
    if (this.#has(one) || !this.#add(one)) return false;
    this.#show();
    this.onchange();
    return true;
  }

  /** Shows why the typed text is no condition; "" if it is one. */
  #tell(why: string): void {
    this.fault.textContent = why;
    this.input.ariaInvalid = why ? "true" : null;
  }

  #has(one: Condition): boolean {
    return this.#written.some((other) => isSame(one, other));
  }

  /** Adds a condition; false, with the reason beside the input, if it is invalid or incompatible with the others. */
  #add(one: Condition | null): boolean {
    try {
      if (!one) throw new Error("Write name: value, or name: 2020..2024 for a range.");
      together([...this.#written, one]);
      this.#written.push(one);
      return true;
    } catch (fault) {
      this.#tell(messageOf(fault));
      return false;
    }
  }

  #remove(one: Condition): void {
    this.#written = this.#written.filter((other) => !isSame(other, one));
    this.#tell("");
    this.#show();
    for (const one of [find("show-options"), this.input]) one.focus(); // the input is hidden if the options are
    this.onchange();
  }

  #show(): void {
    const chip = (one: Condition) => {
      const [text, label] = [inFull(one), `Take away: ${inFull(one)}`];
      const before = [...this.chips.children].find((other) => other.ariaLabel === label);
      return before ?? button(`${isolated(text)} ×`, () => this.#remove(one), { class: "chip", "aria-label": label });
    };
    refill(this.chips, ...this.#written.map(chip));
  }
}

/** The text of a condition for comparison, without case, accents, and spaces around colons. */
function folded(text: string): string {
  return withoutAccents(text).replace(/\s*:\s*/g, ":");
}
