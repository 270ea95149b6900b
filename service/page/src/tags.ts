// The filter by tags: conditions are written one at a time, and each stands as a button that takes it away again.
import { asWritten, condition, together, type Condition } from "./conditions";
import { button, el, type Child } from "./dom";
import { isolated, messageOf } from "./text";

export class TagFilter {
  readonly input = el("input", {
    type: "text",
    placeholder: "name: value",
    list: "tags",
    size: 16,
    title: "name: value, or name: 2020..2024 for a range",
    "aria-describedby": "tag-fault",
  });
  private readonly chips = el("span", { class: "chips", role: "group", "aria-label": "Conditions" });
  private readonly fault = el("span", { id: "tag-fault", class: "fault", role: "alert" });
  private readonly written = new Map<string, Condition>();
  private readonly known = new Set<string>();
  private offered: string[] = [];

  /** `onchange` hears of a condition that was put or taken away; of one that is written the input's own event tells. */
  constructor(private readonly onchange: () => void) {
    this.input.addEventListener("change", () => this.take());
  }

  /** What stands beside the input. */
  get elements(): Child[] {
    return [this.chips, this.fault];
  }

  /**
   * Hears of names that there are: one may hold a colon, which tells it from its value only where it is known. `written`
   * are conditions that are offered: what differs from one by capitals and accents alone means that.
   */
  know(names: string[], written: string[]): void {
    for (const name of names) this.known.add(name);
    this.offered = written;
  }

  /** The conditions, each by its name and what stands behind its colon. */
  get conditions(): [name: string, said: string][] {
    return [...this.written.values()].map((one) => [one.name, asWritten(one)]);
  }

  /** The conditions as the service takes them; null for none. */
  get filter(): Record<string, unknown> | null {
    return this.written.size ? together([...this.written.values()]) : null;
  }

  /** Has these conditions in the place of those that there are. */
  replace(conditions: [name: string, said: string][]): void {
    this.written.clear();
    this.fault.textContent = "";
    for (const [name, said] of conditions) this.add(`${name}: ${said}`, [name]);
    this.show();
  }

  private take(): void {
    const typed = this.input.value.trim();
    const meant = this.offered.includes(typed) ? typed : this.offered.find((one) => folded(one) === folded(typed)) ?? this.withValue(typed);
    const text = meant ?? typed;
    this.fault.textContent = "";
    if (!text || this.written.has(text) || !this.add(text, [...this.known])) return;
    this.input.value = "";
    this.show();
  }

  /** The one condition offered that has a value which is written without its name; undefined where there are none or more. */
  private withValue(typed: string): string | undefined {
    const known = [...this.known];
    if (condition(typed, known)) return undefined;
    const found = this.offered.filter((one) => folded(asWritten(condition(one, known)!)) === folded(typed));
    return found.length === 1 ? found[0] : undefined;
  }

  /** Adds the condition that a tag has a value; false where that is asked for already, or cannot be. */
  put(name: string, value: string | number): boolean {
    const text = `${name}: ${value}`;
    this.fault.textContent = "";
    if (this.written.has(text) || !this.add(text, [name])) return false;
    this.show();
    this.onchange();
    return true;
  }

  /** Adds a condition; false, with the reason beside the input, where it is none or cannot be joined to the others. */
  private add(text: string, known: string[]): boolean {
    try {
      const one = condition(text, known);
      if (!one) throw new Error("Write name: value, or name: 2020..2024 for a range.");
      together([...this.written.values(), one]);
      this.written.set(text, one);
      return true;
    } catch (fault) {
      this.fault.textContent = messageOf(fault);
      return false;
    }
  }

  private remove(text: string): void {
    this.written.delete(text);
    this.fault.textContent = "";
    this.show();
    this.input.focus();
    this.onchange();
  }

  private show(): void {
    const chip = (text: string) =>
      button(`${isolated(text)} ×`, () => this.remove(text), { class: "chip", "aria-label": `Take away: ${text}` });
    this.chips.replaceChildren(...[...this.written.keys()].map(chip));
  }
}

/** A condition in small letters, without accents and spaces about its colon. */
function folded(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/\s*:\s*/, ":");
}
