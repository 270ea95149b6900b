// The filter by tags: conditions are written one at a time, and each stands as a button that takes it away again.
import { button, el, type Child } from "./dom";
import { value } from "./editing";
import { isolated, messageOf } from "./text";

type Value = string | number;
interface Range {
  gte?: Value;
  lte?: Value;
}
export interface Condition {
  name: string;
  is: Value | Range;
}

const RELATED = /^\s*(:|>=|<=|=)(.+)$/su; // what a condition says of its tag

/**
 * What is written as `name: value`, `name: from..to` with one end or both, `name>=from` or `name<=to`; null else.
 *
 * What it begins with is the name of a known tag, also where that holds a colon, or else what stands before the first one.
 */
export function condition(text: string, known: string[] = []): Condition | null {
  const written = text.trim();
  const named = known.filter((one) => RELATED.test(written.slice(one.length)) && written.startsWith(one));
  const longest = Math.max(0, ...named.map((one) => one.length)) || written.search(/[:=<>]/u);
  const found = RELATED.exec(written.slice(longest));
  if (longest <= 0 || !found) return null;
  const [name, relation, rest] = [written.slice(0, longest).trim(), found[1]!, found[2]!.trim()];
  if (!name || !rest) return null;
  if (relation === ">=") return { name, is: { gte: value(rest) } };
  if (relation === "<=") return { name, is: { lte: value(rest) } };
  const ends = /^(.*?)\s*\.\.\s*(.*)$/su.exec(rest);
  if (!ends || !(ends[1] || ends[2])) return { name, is: value(rest) };
  return { name, is: { ...(ends[1] && { gte: value(ends[1]) }), ...(ends[2] && { lte: value(ends[2]) }) } };
}

/** What stands behind the name and the colon of a condition. */
function asWritten({ is }: Condition): string {
  return typeof is === "object" ? `${is.gte ?? ""}..${is.lte ?? ""}` : String(is);
}

/** All conditions as the service takes them; values of one name are alternatives. Error where two cannot be joined. */
export function together(conditions: Condition[]): Record<string, Value[] | Range> {
  const filter: Record<string, Value[] | Range> = {};
  for (const { name, is } of conditions) {
    const before = filter[name];
    const ranged = typeof is === "object";
    if (before && Array.isArray(before) === ranged)
      throw new Error(`“${name}” cannot have both a value and a range: take one away.`);
    if (before && ranged && Object.keys(is).some((end) => end in before))
      throw new Error(`“${name}” has such an end already: take that away first.`);
    filter[name] = ranged ? { ...(before as Range), ...is } : [...((before as Value[]) ?? []), is];
  }
  return filter;
}

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

  /** `onchange` hears that a condition was taken away; of one that comes the input's own event tells. */
  constructor(private readonly onchange: () => void) {
    this.input.addEventListener("change", () => this.take());
  }

  /** What stands beside the input. */
  get elements(): Child[] {
    return [this.chips, this.fault];
  }

  /** Hears of names that there are: one may hold a colon, which tells it from its value only where it is known. */
  know(names: string[]): void {
    for (const name of names) this.known.add(name);
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
    const text = this.input.value.trim();
    this.fault.textContent = "";
    if (!text || this.written.has(text) || !this.add(text, [...this.known])) return;
    this.input.value = "";
    this.show();
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
