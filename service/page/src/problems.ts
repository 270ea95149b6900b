// Problem messages in the page's words: its fields have other names than those of requests.
import type { ProblemAnswer } from "./openapi";

const KEY_NEEDED = "urn:regard:problem:no-key"; // its message is written for programs

const TIMEZONES = /, or a date and time with its timezone.*$/s; // the page's fields do not accept these

const NAMES: [RegExp, string][] = [
  [/^(?:filter\.)?taken_at\.gte$/, "From"],
  [/^(?:filter\.)?taken_at\.lte$/, "To"],
  [/^(?:filter\.)?taken_at$/, "Date"],
  [/^(?:filter\.)?tags\.(.+)$/s, "Tag “$1”"],
  [/^captions\b.*$/s, "Captions"],
  [/^min_(?:score|probability)$/, "At least"],
  [/^(?:query|model|filter)$/, ""],
];

/** The errors of all fields, with their labels on the page, or else the detail; undefined if there is none. */
export function inWords(problem: Partial<ProblemAnswer> & { needed?: unknown }): string | undefined {
  if (problem.needed) return `This wants a key that may ${problem.needed}.`;
  if (problem.type === KEY_NEEDED) return "This service wants a key.";
  const faults = (problem.errors ?? []).map(({ field, problem }) => {
    const [pattern, name] = NAMES.find(([pattern]) => pattern.test(field)) ?? [/^.*$/s, "$&"];
    const shown = field.replace(pattern, name);
    const told = problem.replace(TIMEZONES, "");
    return shown ? `${shown}: ${sentence(told)}` : sentence(told[0]!.toUpperCase() + told.slice(1));
  });
  return faults.length ? faults.join(" ") : problem.detail;
}

function sentence(text: string): string {
  return text.endsWith(".") ? text : `${text}.`;
}
