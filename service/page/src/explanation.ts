// What an explanation says, in numbers: how strongly a region answers a word, and contributions as they are shown.
import type { ExplanationAnswer } from "./openapi";

export const FAINTEST = 0.08; // of the strongest: what is weaker is not lit

/** Whether it says what each word did, so that a word can light its regions. */
export function tellsWordsApart(explanation: ExplanationAnswer): boolean {
  return explanation.kind !== "text" && !!(explanation.shares ?? explanation.attention);
}

/** How strongly each region answers a word: by what both added to the score, or else by where the model looked. */
export function strengths(explanation: ExplanationAnswer, word: number): number[] {
  return explanation.shares?.[word] ?? explanation.attention?.[word] ?? [];
}

/** How strongly each word answers a region. */
export function wordStrengths(explanation: ExplanationAnswer, region: number): number[] {
  return explanation.words.map((_, word) => strengths(explanation, word)[region] ?? 0);
}

export function strongest(explanations: ExplanationAnswer[], word: number): number {
  return Math.max(0, ...explanations.flatMap((one) => strengths(one, word)));
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
