// The filter by tags: conditions are written one at a time, and each stands as a button that takes it away again.
import { button, el, type Child } from "./dom";
import { value } from "./editing";

type Value = string | number;
interface Range {
  gte?: Value;
  lte?: Value;
}
interface Condition {
  name: string;
  is: Value | Range;
}

/** What is written as `name: value`, `name: from..to` with one end or both, `name>=from` or `name<=to`; null else. */
export function condition(text: string): Condition | null {
  const found = /^([^:=<>]+)(:|>=|<=|=)(.+)$/su.exec(text.trim());
  if (!found) return null;
  const [name, relation, rest] = [found[1]!.trim(), found[2]!, found[3]!.trim()];
  if (!name || !rest) return null;
  if (relation === ">=") return { name, is: { gte: plain(rest) } };
  if (relation === "<=") return { name, is: { lte: plain(rest) } };
  const ends = /^(.*?)\s*\.\.\s*(.*)$/su.exec(rest);
  if (!ends || !(ends[1] || ends[2])) return { name, is: plain(rest) };
  return { name, is: { ...(ends[1] && { gte: plain(ends[1]) }), ...(ends[2] && { lte: plain(ends[2]) }) } };
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

function plain(text: string): Value {
  return value(text);
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
  private written: string[] = [];

  /** `onchange` hears that a condition was taken away; of one that comes the input's own event tells. */
  constructor(private readonly onchange: () => void) {
    this.input.addEventListener("change", () => this.take());
  }

  /** What stands beside the input. */
  get elements(): Child[] {
    return [this.chips, this.fault];
  }

  /** The conditions as the service takes them; null for none. */
  get filter(): Record<string, unknown> | null {
    return this.written.length ? together(this.written.map((text) => condition(text)!)) : null;
  }

  private take(): void {
    const text = this.input.value.trim();
    this.fault.textContent = "";
    if (!text || this.written.includes(text)) return;
    try {
      const one = condition(text);
      if (!one) throw new Error("Write name: value, or name: 2020..2024 for a range.");
      together([...this.written.map((other) => condition(other)!), one]);
    } catch (fault) {
      this.fault.textContent = (fault as Error).message;
      return;
    }
    this.written.push(text);
    this.input.value = "";
    this.show();
  }

  private remove(text: string): void {
    this.written = this.written.filter((one) => one !== text);
    this.fault.textContent = "";
    this.show();
    this.input.focus();
    this.onchange();
  }

  private show(): void {
    const chip = (text: string) =>
      button(`${text} ×`, () => this.remove(text), { class: "chip", "aria-label": `Take away: ${text}` });
    this.chips.replaceChildren(...this.written.map(chip));
  }
}
