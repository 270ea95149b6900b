// The filter by tags: conditions are written one at a time, and each stands as a button that takes it away again.
import { asWritten, type Condition, condition, conditionOn, inFull, isSame, together } from "./conditions";
import { button, el, find, refill } from "./dom";
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
  /** The conditions, which stay in sight where the input is not. */
  readonly chips = el("span", { class: "chips", role: "group", "aria-label": "Conditions" });
  readonly fault = el("span", { id: "tag-fault", class: "fault", role: "alert" });
  readonly #known = new Set<string>();
  #written: Condition[] = [];
  #offered: Condition[] = [];
  #replaced = 0; // times that all conditions were

  /** `onchange` hears of conditions that were put or taken away; `lookUp` has those offered that fit what is written. */
  constructor(
    private readonly onchange: () => void,
    private readonly lookUp: () => Promise<void>,
  ) {
    this.input.addEventListener("change", () => void this.#take());
    this.input.addEventListener("input", (event) => {
      const isChosen = (event as InputEvent).inputType === "insertReplacementText"; // with no change after it, in Firefox
      if (isChosen && this.#offered.some((one) => inFull(one) === this.input.value)) void this.#take();
    });
  }

  /**
   * Hears of names that there are: one may hold a colon, which tells it from its value only where it is known. `offered`
   * are conditions that may be meant: what differs from one by capitals and accents alone means that.
   */
  know(names: string[], offered: Condition[]): void {
    for (const name of names) this.#known.add(name);
    this.#offered = offered;
  }

  /** The conditions, each by its name and what stands behind its colon. */
  get conditions(): [name: string, said: string][] {
    return this.#written.map((one) => [one.name, asWritten(one)]);
  }

  /** The conditions as the service takes them; null for none. */
  get filter(): Record<string, unknown> | null {
    return this.#written.length ? together(this.#written) : null;
  }

  /** Has these conditions in the place of those that there are. */
  replace(conditions: [name: string, said: string][]): void {
    this.#replaced++;
    this.#written = [];
    this.#tell("");
    for (const [name, said] of conditions) this.#add(conditionOn(name, said));
    this.#show();
  }

  /**
   * Takes what is written, once it is known what may be meant by it, or cannot be. What is written meanwhile is taken
   * beside it; all conditions that were replaced meanwhile hold.
   */
  async #take(): Promise<void> {
    const typed = this.input.value.trim();
    const before = this.#replaced;
    this.#tell("");
    if (!typed) return;
    if (!this.#offered.some((one) => inFull(one) === typed)) await this.lookUp().catch(() => {});
    const one = this.#meantBy(typed);
    const stands = this.input.value.trim() === typed;
    if (before !== this.#replaced || (one ? this.#has(one) : !stands)) return; // what is none may have been put right since
    if (!this.#add(one)) return;
    if (stands) {
      this.input.value = "";
      void this.lookUp().catch(() => {}); // what is offered was narrowed to it
    }
    this.#show();
    this.onchange();
  }

  /** The condition offered that is written so, or differs by capitals and accents alone, or the one that is written. */
  #meantBy(typed: string): Condition | null {
    const exact = this.#offered.find((one) => inFull(one) === typed);
    const alike = exact ?? this.#offered.find((one) => folded(inFull(one)) === folded(typed));
    return alike ?? condition(typed, [...this.#known]) ?? this.#withValue(typed);
  }

  /** The one condition offered that has a value which is written without its name; null where there are none or more. */
  #withValue(typed: string): Condition | null {
    const found = this.#offered.filter((one) => folded(asWritten(one)) === folded(typed));
    return found.length === 1 ? found[0]! : null;
  }

  /** Adds the condition that a tag has a value; false where that is asked for already, or cannot be. */
  put(name: string, value: string | number): boolean {
    const one = { name, is: value };
    this.#tell("");
    if (this.#has(one) || !this.#add(one)) return false;
    this.#show();
    this.onchange();
    return true;
  }

  /** Says why what is written is no condition; "" that it is one. */
  #tell(why: string): void {
    this.fault.textContent = why;
    this.input.ariaInvalid = why ? "true" : null;
  }

  #has(one: Condition): boolean {
    return this.#written.some((other) => isSame(one, other));
  }

  /** Adds a condition; false, with the reason beside the input, where it is none or cannot be joined to the others. */
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
    for (const one of [find("show-options"), this.input]) one.focus(); // which is out of sight where they are folded away
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

/** A condition by which it is looked up: spaces about colons tell it from no other. */
function folded(text: string): string {
  return withoutAccents(text).replace(/\s*:\s*/g, ":");
}
