// Names of regions: the word that each answers most, and its position in the picture.
import { FAINTEST, strengths, strongest, wordStrengths } from "./explanation";
import type { Box, ExplanationAnswer } from "./openapi";
import { offered, REST } from "./parts";
import { isolated } from "./text";

interface Size {
  width: number | null;
  height: number | null;
}

const MOST = 0.8; // share of the picture's side from which on a region has no position along it

/** A name for each region, such as "dog · upper left"; equal names get a number. */
export function regionNames(size: Size, why: ExplanationAnswer, numbers: number[]): string[] {
  const names = numbers.map((n) => [answered(why, n), placeOf(why.regions[n]!, size)].filter(Boolean).join(" · "));
  return names.map((name, n) => {
    const isAlone = names.every((one, other) => one !== name || other === n);
    return isAlone ? name : `${name} ${names.slice(0, n + 1).filter((one) => one === name).length}`;
  });
}

/** A sentence on where words were answered: "hardly anywhere" for regions too weak to be lit compared with `all`. */
export function whereAnswered(size: Size, why: ExplanationAnswer, all: ExplanationAnswer[], words: number[]): string {
  const [fits, fit, best] = why.shares ? ["fits", "fit", "best "] : ["was looked for", "were looked for", "most "];
  const places: Record<string, Set<string>> = {};
  for (const word of words) {
    const most = strongest([why], word);
    const isFaint = most <= 0 || most < FAINTEST * strongest(all, word);
    const place = isFaint ? "" : inside(placeOf(why.regions[strengths(why, word).indexOf(most)]!, size));
    places[place] ??= new Set();
    const { text, excluded } = why.words[word]!;
    places[place].add(`“${isolated(text)}”${excluded ? " (ruled out)" : ""}`);
  }
  const ordered = Object.entries(places).sort(([one], [other]) => Number(!one) - Number(!other));
  const parts = ordered.map(([place, names], n) => {
    const verb = n ? "" : `${names.size > 1 ? fit : fits} ${place && best}`;
    return `${new Intl.ListFormat("en").format(names)} ${verb}${place || "hardly anywhere"}`;
  });
  return parts.length ? `${parts.join(", ")}.` : "";
}

/** The phrase for a region's position in a sentence. */
function inside(place: string): string {
  if (!place) return "in a part of it";
  if (place === "all of it") return "all over it";
  return /part|middle/.test(place) ? `in the ${place}` : `at the ${place}`;
}

/** The word that a region answers most, or REST if it answers none. */
function answered(why: ExplanationAnswer, region: number): string {
  const strengths = wordStrengths(why, region);
  const wanted = offered(why.words).filter((word) => !why.words[word]!.excluded);
  const best = wanted.sort((one, other) => strengths[other]! - strengths[one]!)[0];
  return best !== undefined && strengths[best]! > 0 ? why.words[best]!.text : REST;
}

/** The position of a region, by the thirds of the picture that its centre lies in; "" if unknown. */
function placeOf({ box }: Box, { width, height }: Size): string {
  if (!box || !width || !height) return "";
  const [left, top, right, bottom] = box;
  const across = third((right - left) / width, (left + right) / 2 / width, ["left", "", "right"]);
  const down = third((bottom - top) / height, (top + bottom) / 2 / height, ["upper", "", "lower"]);
  if (!across && !down) return right - left > MOST * width && bottom - top > MOST * height ? "all of it" : "middle";
  return across && down ? `${down} ${across}` : across || `${down} part`;
}

function third(extent: number, middle: number, [first, second, last]: [string, string, string]): string {
  if (extent > MOST) return second;
  return middle < 1 / 3 ? first : middle > 2 / 3 ? last : second;
}
