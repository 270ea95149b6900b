// Numbers from explanations: how strongly a region answers a word, and contributions for display.
import type { ExplanationAnswer, PictureHit } from "./openapi";
import { nameOf, offered, type Part, partsOf, sumsOf } from "./parts";

export const FAINTEST = 0.08; // share of the strongest; weaker regions are not lit
const COMPARED = 24; // results to compare with: the first page, even if more are shown

/** Whether it explains single words, so that a word can light its regions. */
export function tellsWordsApart(explanation: ExplanationAnswer): boolean {
  return explanation.kind !== "text" && !!(explanation.shares ?? explanation.attention);
}

/** How strongly each region answers a word: their share of the score, or what an excluded word took from it, or else
 * the attention. */
export function strengths(explanation: ExplanationAnswer, word: number): number[] {
  const shares = explanation.shares?.[word];
  const sign = explanation.words[word]?.excluded ? -1 : 1;
  return shares?.map((share) => sign * share) ?? explanation.attention?.[word] ?? [];
}

/** How strongly each word answers a region. */
export function wordStrengths(explanation: ExplanationAnswer, region: number): number[] {
  return explanation.words.map((_, word) => strengths(explanation, word)[region] ?? 0);
}

export function strongest(explanations: ExplanationAnswer[], word: number): number {
  return Math.max(0, ...explanations.flatMap((one) => strengths(one, word)));
}

/** A text with the words that light regions of this result, compared with `all` results; none if there are none. */
export function litWords(one: ExplanationAnswer, all: ExplanationAnswer[]): string[] {
  const isLit = (word: number) => strongest([one], word) / strongest(all, word) >= FAINTEST;
  const words = offered(one.words)
    .filter(isLit)
    .map((word) => nameOf(one.words[word]!));
  return words.length ? [`regions for ${words.join(", ")}`] : [];
}

/**
 * The contribution of each part of the question to a result's score minus its mean over `num` other results. `total` is
 * their sum, `most` the largest absolute value among all these results.
 */
export interface Compared {
  parts: Part[];
  contributions: number[];
  total: number;
  num: number;
  most: number;
}

/**
 * The contributions to a result compared with the best other results, if any. Null if the model's score is not a sum
 * over words.
 *
 * The zero of scores has no meaning: a word that fits well may contribute negative amounts to all results.
 */
export function aboveOthers(hit: PictureHit, results: PictureHit[]): Compared | null {
  if (hit.score === null || !hit.explanation?.contributions) return null;
  const summed = results.slice(0, COMPARED).filter((one) => one.score !== null && one.explanation?.contributions);
  const parts = partsOf(hit.explanation.words);
  const { contributions, total, num } = lessOthers(hit, summed, parts);
  const all = [contributions, ...summed.map((one) => lessOthers(one, summed, parts).contributions)];
  return { parts, contributions, total, num, most: Math.max(0, ...all.flat().map(Math.abs)) };
}

function lessOthers(hit: PictureHit, results: PictureHit[], parts: Part[]): Omit<Compared, "parts" | "most"> {
  const others = results.filter((one) => one.image_id !== hit.image_id);
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  const added = (one: PictureHit) => sumsOf(parts, one.explanation!.contributions!);
  const beside = others.map(added);
  const contributions = added(hit).map((value, n) => value - mean(beside.map((one) => one[n]!)));
  return { contributions, total: hit.score! - mean(others.map((one) => one.score!)), num: others.length };
}

/** Values rounded so that those shown add up to the total shown. */
export function roundedToSum(values: number[], total: number, digits: number): number[] {
  const unit = 10 ** digits;
  const rounded = values.map((value) => Math.floor(value * unit));
  let missing = Math.round(total * unit) - rounded.reduce((sum, value) => sum + value, 0);
  const order = values.map((value, n) => ({ n, left: value * unit - rounded[n]! })).sort((a, b) => b.left - a.left);
  for (let turn = 0; missing > 0 && order.length; turn++, missing--) rounded[order[turn % order.length]!.n]!++;
  return rounded.map((value) => value / unit);
}
