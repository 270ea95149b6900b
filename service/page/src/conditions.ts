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
export function asWritten({ is }: Condition): string {
  return typeof is === "object" ? `${is.gte ?? ""}..${is.lte ?? ""}` : String(is);
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
