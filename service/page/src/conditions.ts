// Conditions on tags, as they are written and as the service takes them.
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
const QUOTED = /^"((?:[^"]|"")*)"$/su; // as it stands, with each quotation mark inside written twice
const ENDS = /^("(?:[^"]|"")*"|.*?)\s*\.\.\s*(.*)$/su;

/**
 * What is written as `name: value`, `name: from..to` with one end or both, `name>=from` or `name<=to`; null else. A value
 * in quotation marks is meant as it stands, were it empty or `"1..2"`.
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
  if (relation === ">=") return { name, is: { gte: meant(rest) } };
  if (relation === "<=") return { name, is: { lte: meant(rest) } };
  return conditionOn(name, rest);
}

/** The condition on a tag that is written behind its name and a colon; null for none. */
export function conditionOn(name: string, said: string): Condition | null {
  const rest = said.trim();
  if (!rest) return null;
  const ends = QUOTED.test(rest) ? null : ENDS.exec(rest);
  if (!ends || !(ends[1] || ends[2])) return { name, is: meant(rest) };
  return { name, is: { ...(ends[1] && { gte: meant(ends[1]) }), ...(ends[2] && { lte: meant(ends[2]) }) } };
}

/** What stands behind the name and the colon of a condition, so that it is read as the same: in quotation marks if need be. */
export function asWritten(one: Condition): string {
  const plain = joined(one, String);
  const read = conditionOn(one.name, plain);
  return read && isSame(read, one) ? plain : joined(one, quoted);
}

/** A condition as people write it. */
export function inFull(one: Condition): string {
  return `${one.name}: ${asWritten(one)}`;
}

/** Whether two conditions let the same pictures through: a number and its text are the same to the service. */
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

/** The value that is written: what stands in quotation marks as it is, all else as in the editor. */
function meant(written: string): Value {
  const inside = QUOTED.exec(written)?.[1];
  return inside === undefined ? value(written) : inside.replaceAll('""', '"');
}

/** All conditions as the service takes them; values of one name are alternatives. Error where two cannot be joined. */
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

/** What is written as a number is one, but for what only programs call numbers, as NaN. */
export function value(written: string): string | number {
  const text = written.trim();
  const number = Number(text);
  return text !== "" && Number.isFinite(number) && String(number) === text ? number : text;
}
