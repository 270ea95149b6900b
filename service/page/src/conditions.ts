// Conditions on tags, in the notation of the page and in that of the service.
type Value = string | number;
interface Range {
  gte?: Value;
  lte?: Value;
}
export interface Condition {
  name: string;
  is: Value | Range;
}

const RELATED = /^\s*(:|>=|<=|=)(.+)$/su; // the part of a condition after the tag's name
const QUOTED = /^"((?:[^"]|"")*)"$/su; // a literal value, with each quotation mark inside doubled
const ENDS = /^("(?:[^"]|"")*"|.*?)\s*\.\.\s*(.*)$/su;

/**
 * Parses `name: value`, `name: from..to` with one or both ends, `name>=from` or `name<=to`; null for other texts. A
 * value in quotation marks is literal, even if it is empty or `"1..2"`.
 *
 * The name is a known tag's, which may contain a colon, or else the text before the first colon or relation.
 */
export function condition(text: string, known: string[] = []): Condition | null {
  const written = text.trim();
  const named = known.filter((one) => RELATED.test(written.slice(one.length)) && written.startsWith(one));
  const longest = Math.max(0, ...named.map((one) => one.length)) || written.search(/[:=<>]/u);
  const found = RELATED.exec(written.slice(longest));
  if (longest <= 0 || !found) return null;
  const [name, relation, rest] = [written.slice(0, longest).trim(), found[1]!, found[2]!.trim()];
  if (!name || !rest) return null;
  if (relation === ">=") return { name, is: { gte: meant(rest) } };
  if (relation === "<=") return { name, is: { lte: meant(rest) } };
  return conditionOn(name, rest);
}

/** Parses the text after a tag's name and colon; null for an empty text. */
export function conditionOn(name: string, said: string): Condition | null {
  const rest = said.trim();
  if (!rest) return null;
  const ends = QUOTED.test(rest) ? null : ENDS.exec(rest);
  if (!ends || !(ends[1] || ends[2])) return { name, is: meant(rest) };
  return { name, is: { ...(ends[1] && { gte: meant(ends[1]) }), ...(ends[2] && { lte: meant(ends[2]) }) } };
}

/** The text of a condition after its name and colon, with quotation marks where parsing would otherwise differ. */
export function asWritten(one: Condition): string {
  const plain = joined(one, String);
  const read = conditionOn(one.name, plain);
  return read && isSame(read, one) ? plain : joined(one, quoted);
}

/** The whole text of a condition. */
export function inFull(one: Condition): string {
  return `${one.name}: ${asWritten(one)}`;
}

/** Whether two conditions select the same pictures: the service treats a number and its text alike. */
export function isSame(one: Condition, other: Condition): boolean {
  const texts = ({ is }: Condition) =>
    typeof is === "object" ? [is.gte, is.lte].map((end) => end?.toString()) : String(is);
  return one.name === other.name && JSON.stringify(texts(one)) === JSON.stringify(texts(other));
}

function joined({ is }: Condition, write: (value: Value) => string): string {
  const end = (value?: Value) => (value === undefined ? "" : write(value));
  return typeof is === "object" ? `${end(is.gte)}..${end(is.lte)}` : write(is);
}

function quoted(value: Value): string {
  return `"${String(value).replaceAll('"', '""')}"`;
}

/** Parses a value: literally if it is quoted, otherwise as in the editor. */
function meant(written: string): Value {
  const inside = QUOTED.exec(written)?.[1];
  return inside === undefined ? value(written) : inside.replaceAll('""', '"');
}

/** All conditions as a filter for the service; values of one name are alternatives. Error for incompatible ones. */
export function together(conditions: Condition[]): Record<string, Value[] | Range> {
  const filter: Record<string, Value[] | Range> = Object.create(null); // a tag may be called `constructor`
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

/** A finite number if the text is one in its usual notation, otherwise the text. */
export function value(written: string): string | number {
  const text = written.trim();
  const number = Number(text);
  return text !== "" && Number.isFinite(number) && String(number) === text ? number : text;
}
