// The parts of a question that are told of: each content word, and all that stands between them as one. A function word's
// vector means what the sentence around it means, so what it adds is often much, and nothing that can be pointed at.
import type { ExplanationAnswer } from "./openapi";

/** Words of a question that are told of together, by their numbers. */
export interface Part {
  text: string;
  words: number[];
  /** Whether it is what stands between content words, with the marks of the question's start and end. */
  isRest: boolean;
}

type Word = ExplanationAnswer["words"][number];

/** The content words in their order, then the rest; where there is no content word, each word instead. */
export function partsOf(words: Word[]): Part[] {
  const isOwn = (word: Word) => (words.some((one) => one.content) ? word.content : !word.special);
  const own: Part[] = words.flatMap((word, n) => (isOwn(word) ? [{ text: word.text, words: [n], isRest: false }] : []));
  const rest = words.flatMap((word, n) => (isOwn(word) ? [] : [n]));
  return rest.length ? [...own, { text: "the rest", words: rest, isRest: true }] : own;
}

/** Sums of values of words over the words of each part. */
export function sumsOf(parts: Part[], values: number[]): number[] {
  return parts.map((one) => one.words.reduce((sum, n) => sum + values[n]!, 0));
}
