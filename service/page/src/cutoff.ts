// The cut-off of results: a minimum score, or a minimum probability in percent.
import { readNumber } from "./text";

/** An option has an invalid value, so that no request was made. */
export class Unreadable extends Error {}

/** The cut-off as fields of a request; empty without one. */
export interface CutOff {
  min_score?: number;
  min_probability?: number;
}

/** Parses a minimum score, or a percentage; no cut-off for "". Throws Unreadable for other texts. */
export function readCutOff(text: string, isScore: boolean): CutOff {
  const written = text.trim();
  if (!written) return {};
  const least = readNumber(written);
  if (least === null || (isScore && written.endsWith("%"))) throw new Unreadable("At least: write a number.");
  if (isScore) return { min_score: least };
  if (least < 0 || least > 100) throw new Unreadable("At least: write a percentage from 0 to 100, or choose “score”.");
  return { min_probability: least / 100 };
}
