// The limit that results have to reach: a least score, or a least probability in percent.
import { readNumber } from "./text";

/** An option has a value that cannot be read, so that nothing could be asked. */
export class Unreadable extends Error {}

/** As the service takes it; of no limit nothing. */
export interface CutOff {
  min_score?: number;
  min_probability?: number;
}

/** The limit that is written, of the score or in percent; none for "". Unreadable for what is no such number. */
export function readCutOff(text: string, isScore: boolean): CutOff {
  const written = text.trim();
  if (!written) return {};
  const least = readNumber(written);
  if (least === null || (isScore && written.endsWith("%"))) throw new Unreadable("At least: write a number.");
  if (isScore) return { min_score: least };
  if (least < 0 || least > 100) throw new Unreadable("At least: write a percentage from 0 to 100, or choose “score”.");
  return { min_probability: least / 100 };
}
