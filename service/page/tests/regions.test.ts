import assert from "node:assert/strict";
import { test } from "node:test";
import type { ExplanationAnswer } from "../src/openapi";
import { regionNames, whereAnswered } from "../src/regions";

const WORDS = ["a", "dog", "snow"].map((text) => ({ text, special: false, content: text !== "a" }));
const SIZE = { width: 300, height: 200 };

type Regions = [box: number[] | null, shares: number[]][];

/** Regions by their boxes, and what each of WORDS added with them. */
function explained(regions: Regions): ExplanationAnswer {
  return {
    words: WORDS,
    regions: regions.map(([box]) => ({ box, label: "region" })),
    shares: WORDS.map((_, n) => regions.map(([, shares]) => shares[n])),
  } as unknown as ExplanationAnswer;
}

function named(regions: Regions): string[] {
  return regionNames(
    SIZE,
    explained(regions),
    regions.map((_, n) => n),
  );
}

test("a region is named by the content word that it answered most and by where it lies", () => {
  const dog = [9, 2, 1];
  assert.deepEqual(
    named([
      [[0, 0, 60, 40], dog],
      [[250, 90, 300, 110], dog],
      [
        [0, 150, 300, 200],
        [0, 1, 2],
      ],
      [[0, 0, 300, 200], dog],
      [[140, 90, 160, 110], dog],
    ]),
    ["dog · upper left", "dog · right", "snow · lower part", "dog · all of it", "dog · middle"],
  );
});

test("a region is not named by a word that the question rules out, which is said to be", () => {
  const box = [0, 0, 60, 40];
  const why = explained([[box, [0, 1, -9]]]);
  const ruledOut = { ...why, words: [WORDS[0]!, WORDS[1]!, { ...WORDS[2]!, excluded: true }] };
  assert.deepEqual(regionNames(SIZE, ruledOut, [0]), ["dog · upper left"]);
  assert.match(whereAnswered(SIZE, ruledOut, [ruledOut], [1, 2]), /“snow” \(ruled out\)/);
});

test("equal names are told apart by numbers, and what answered no word is named by the rest", () => {
  const box = [0, 0, 60, 40];
  assert.deepEqual(
    named([
      [box, [0, 1, 0]],
      [box, [0, 0, 1]],
      [box, [0, 2, 0]],
    ]),
    ["dog · upper left 1", "snow · upper left", "dog · upper left 2"],
  );
  assert.deepEqual(named([[null, [1, 0, -1]]]), ["the rest"]);
});

test("a sentence tells where each word was answered, and which one hardly was beside other results", () => {
  const [corner, below, all] = [
    [0, 0, 60, 40],
    [0, 150, 300, 200],
    [0, 0, 300, 200],
  ];
  const told = (regions: Regions, others: Regions[] = []) => {
    const why = explained(regions);
    return whereAnswered(SIZE, why, [why, ...others.map(explained)], [1, 2]);
  };
  assert.equal(
    told([
      [corner, [9, 2, 1]],
      [below, [9, 1, 3]],
    ]),
    "“dog” fits best at the upper left, “snow” in the lower part.",
  );
  assert.equal(told([[all, [0, 2, 1]]]), "“dog” and “snow” fit best all over it.");
  assert.equal(
    told([[corner, [0, 1, 5]]], [[[corner, [0, 99, 0]]]]),
    "“snow” fits best at the upper left, “dog” hardly anywhere.",
  );
  assert.equal(told([[corner, [1, 0, -1]]]), "“dog” and “snow” fit hardly anywhere.");
  assert.equal(told([[null, [0, 1, 1]]]), "“dog” and “snow” fit best in a part of it.");
  const looked = {
    ...explained([[corner, []]]),
    shares: null,
    attention: [[0], [1], [0]],
  } as unknown as ExplanationAnswer;
  assert.equal(whereAnswered(SIZE, looked, [looked], [1]), "“dog” was looked for most at the upper left.");
});
