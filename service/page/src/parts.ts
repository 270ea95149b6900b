// The parts of a question in explanations: each content word, and all other words as one part. The vector of a function
// word represents the sentence around it, so it often contributes much, but nothing that can be located.
import type { ExplanationAnswer } from "./openapi";

export const REST = "the rest"; // label of the words that name nothing

/** Words of a question, by number, that are explained together. */
export interface Part {
  text: string;
  words: number[];
  /** Whether it consists of the words between content words, and the start and end tokens. */
  isRest: boolean;
}

type Word = ExplanationAnswer["words"][number];

/** A word as it is shown: "no cars" for one that the question rules out. */
export function nameOf(word: Word): string {
  return word.excluded ? `no ${word.text}` : word.text;
}

/** Whether a word is explained by itself: a content word, or any word if there is none. */
function isTold(word: Word, words: Word[]): boolean {
  return words.some((one) => one.content) ? word.content : !word.special;
}

/** The numbers of the words to show. `byText`: without numerals, which were looked up in names and dates. */
export function offered(words: Word[], byText = false): number[] {
  const told = words.flatMap((word, n) => (isTold(word, words) ? [n] : []));
  const shown = byText ? told.filter((n) => !/^\d+$/.test(words[n]!.text)) : told;
  return shown.length ? shown : told;
}

/** The content words (all words if there are none) in order, then the rest. */
export function partsOf(words: Word[]): Part[] {
  const isOwn = (word: Word) => isTold(word, words);
  const own: Part[] = words.flatMap((word, n) =>
    isOwn(word) ? [{ text: nameOf(word), words: [n], isRest: false }] : [],
  );
  const rest = words.flatMap((word, n) => (isOwn(word) ? [] : [n]));
  return rest.length ? [...own, { text: REST, words: rest, isRest: true }] : own;
}

/** The sums of word values over each part. */
export function sumsOf(parts: Part[], values: number[]): number[] {
  return parts.map((one) => one.words.reduce((sum, n) => sum + values[n]!, 0));
}
