// Names of regions: the word that each answered most, and where it lies in the picture.
import { wordStrengths } from "./explanation";
import type { Box, ExplanationAnswer } from "./openapi";
import { offered, REST } from "./parts";

interface Size {
  width: number | null;
  height: number | null;
}

const MOST = 0.8; // of a side of the picture, from which on a region lies nowhere on it more than elsewhere

/** A name for each of the regions by their numbers: "dog · upper left"; those that would be equal are numbered. */
export function regionNames(size: Size, why: ExplanationAnswer, numbers: number[]): string[] {
  const names = numbers.map((n) => [answered(why, n), placeOf(why.regions[n]!, size)].filter(Boolean).join(" · "));
  return names.map((name, n) => {
    const isAlone = names.every((one, other) => one !== name || other === n);
    return isAlone ? name : `${name} ${names.slice(0, n + 1).filter((one) => one === name).length}`;
  });
}

/** The word that a region answered most; where it answered none, all that it added is the rest's. */
function answered(why: ExplanationAnswer, region: number): string {
  const strengths = wordStrengths(why, region);
  const best = offered(why.words).sort((one, other) => strengths[other]! - strengths[one]!)[0];
  return best !== undefined && strengths[best]! > 0 ? why.words[best]!.text : REST;
}

/** Where a region lies, by the third of the picture that its middle is in; "" where that is not known. */
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
