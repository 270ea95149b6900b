// Captions and tags as lines of the editor, and the changes made to them.
import { value } from "./conditions";
import type { ImageListed } from "./openapi";

type Tags = ImageListed["tags"];

/** The edited captions. Unchanged lines give the original captions, including line breaks that a line cannot show. */
export function changedCaptions(before: readonly (readonly [string, string])[], text: string): string[] {
  const original = new Map(before);
  return lines(text).map((line) => original.get(line) ?? line);
}

/** Each tag with the line that shows it. */
export function tagLines(tags: Tags): [line: string, name: string][] {
  return Object.entries(tags).map(([name, value]) => [oneLine(`${name}: ${value}`), name]);
}

/**
 * The changes of the tags as a merge patch: null for removed ones. Numbers are recognized by their notation.
 *
 * A tag whose line is unchanged is left alone, even if its name contains a colon.
 */
export function changedTags(before: Tags, text: string): Record<string, string | number | null> {
  const written = [...new Set(lines(text))];
  const untouched = tagLines(before).filter(([line]) => written.includes(line)); // two tags may have the same line
  const isTouched = (line: string) => !untouched.some(([one]) => one === line);
  const changed = written.filter(isTouched).map((line) => tagOf(line, Object.keys(before)));
  const names = [...untouched.map(([, name]) => name), ...changed.map(([one]) => one)];
  const twice = names.find((one, n) => names.indexOf(one) < n);
  if (twice !== undefined) throw new Error(`“${twice}” stands on two lines; a tag has one value.`);
  const now = new Set(names);
  const gone = Object.keys(before).filter((one) => !now.has(one));
  return Object.fromEntries([...gone.map((one) => [one, null] as const), ...changed]);
}

/**
 * The name and value of a line. The name is a known tag's, if the line begins with one, or else the text before the
 * first colon. Error without a colon.
 */
function tagOf(line: string, known: string[]): [name: string, value: string | number] {
  const named = known
    .filter((one) => line.startsWith(`${oneLine(one)}:`))
    .sort((one, other) => other.length - one.length)[0];
  const end = named === undefined ? line.indexOf(":") : oneLine(named).length;
  if (end < 0) throw new Error(`Write each tag as name: value on a line of its own; “${line}” has no colon.`);
  return [named ?? line.slice(0, end).trim(), value(line.slice(end + 1))];
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

export function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
