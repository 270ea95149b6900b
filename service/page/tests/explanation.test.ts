import assert from "node:assert/strict";
import { test } from "node:test";
import { aboveOthers, roundedToSum, strengths, strongest, wordStrengths } from "../src/explanation";
import type { ExplanationAnswer, PictureHit } from "../src/openapi";

const WORDS = [
  { text: "red", content: true },
  { text: "bus", content: true },
];

function explained(parts: object): ExplanationAnswer {
  return { kind: "regions", words: WORDS, ...parts } as unknown as ExplanationAnswer;
}

function hit(image_id: string, contributions: number[] | null): PictureHit {
  const score = contributions?.reduce((sum, value) => sum + value, 0) ?? null;
  return { image_id, score, explanation: contributions && explained({ contributions }) } as unknown as PictureHit;
}

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);

test("regions answer a word by their shares, or else by the attention", () => {
  const both = explained({
    shares: [
      [1, 2],
      [3, 4],
    ],
    attention: [
      [5, 6],
      [7, 8],
    ],
  });
  const attention = explained({
    attention: [
      [5, 6],
      [7, 8],
    ],
  });
  assert.deepEqual([strengths(both, 1), strengths(attention, 1), strengths(explained({}), 1)], [[3, 4], [7, 8], []]);
  assert.deepEqual(wordStrengths(both, 0), [1, 3]);
  const ruledOut = { ...both, words: [both.words[0]!, { ...both.words[1]!, excluded: true }] };
  assert.deepEqual(strengths(ruledOut, 1), [-3, -4]); // what a region took from the score
  assert.equal(strongest([both, attention], 0), 6);
  assert.equal(strongest([explained({ shares: [[-1, -2]] })], 0), 0);
});

test("what a word added is compared with the mean of the other results", () => {
  const results = [hit("a", [3, 1]), hit("b", [1, 1]), hit("c", [0, 3]), hit("d", null)];
  const compared = aboveOthers(results[0]!, results)!;
  assert.deepEqual(compared.contributions, [2.5, -1]);
  assert.equal(compared.total, 1.5);
  assert.equal(compared.num, 2);
  assert.equal(compared.most, 2.5);
});

test("words that name nothing are told of together, and their bar has the scale of the others", () => {
  const words = [{ text: "<start>", special: true }, { text: "a" }, { text: "bus", content: true }];
  const explanation = explained({ words, contributions: [1, -9, 4] });
  const alone = { image_id: "a", score: -4, explanation } as unknown as PictureHit;
  const compared = aboveOthers(alone, [alone])!;
  assert.deepEqual(
    compared.parts.map((one) => one.text),
    ["bus", "the rest"],
  );
  assert.deepEqual([compared.contributions, compared.total, compared.most], [[4, -8], -4, 8]);
});

test("a result alone is compared with nothing, one that its text alone found is not compared", () => {
  const alone = hit("a", [3, 1]);
  const parts = ["red", "bus"].map((text, n) => ({ text, words: [n], isRest: false }));
  assert.deepEqual(aboveOthers(alone, [alone]), { parts, contributions: [3, 1], total: 4, num: 0, most: 3 });
  assert.equal(aboveOthers(hit("d", null), [alone]), null);
});

test("rounded values add up to the rounded total, each within one unit", () => {
  let seed = 1;
  const random = () => {
    seed = (seed * 48271) % 2147483647;
    return seed / 2147483647 - 0.5;
  };
  for (let round = 0; round < 500; round++) {
    const values = Array.from({ length: 1 + (round % 9) }, random);
    const rounded = roundedToSum(values, sum(values), 3);
    assert.ok(Math.abs(1000 * sum(rounded) - Math.round(1000 * sum(values))) < 1e-6);
    for (const [n, value] of values.entries())
      assert.ok(Math.abs(rounded[n]! - value) <= 0.001 + 1e-12, `${value} ${rounded[n]}`);
  }
});
