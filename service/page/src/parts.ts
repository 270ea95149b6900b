// The parts of a question that are told of: each content word, and all that stands between them as one. A function word's
// vector means what the sentence around it means, so what it adds is often much, and nothing that can be pointed at.
import type { ExplanationAnswer } from "./openapi";

export const REST = "the rest"; // of a question: what names nothing

/** Words of a question that are told of together, by their numbers. */
export interface Part {
  text: string;
  words: number[];
  /** Whether it is what stands between content words, with the marks of the question's start and end. */
  isRest: boolean;
}

type Word = ExplanationAnswer["words"][number];

/** Whether a word is told of by itself: as a content word; where there is none, as any word. */
function isTold(word: Word, words: Word[]): boolean {
  return words.some((one) => one.content) ? word.content : !word.special;
}

/** The words that can be looked at, by their numbers. `byText`: numbers were looked up in names and dates, and are left out. */
export function offered(words: Word[], byText = false): number[] {
  const told = words.flatMap((word, n) => (isTold(word, words) ? [n] : []));
  const shown = byText ? told.filter((n) => !/^\d+$/.test(words[n]!.text)) : told;
  return shown.length ? shown : told;
}

/** The content words in their order, then the rest; where there is no content word, each word instead. */
export function partsOf(words: Word[]): Part[] {
  const isOwn = (word: Word) => isTold(word, words);
  const own: Part[] = words.flatMap((word, n) => (isOwn(word) ? [{ text: word.text, words: [n], isRest: false }] : []));
  const rest = words.flatMap((word, n) => (isOwn(word) ? [] : [n]));
  return rest.length ? [...own, { text: REST, words: rest, isRest: true }] : own;
}

/** Sums of values of words over the words of each part. */
export function sumsOf(parts: Part[], values: number[]): number[] {
  return parts.map((one) => one.words.reduce((sum, n) => sum + values[n]!, 0));
}
