import assert from "node:assert/strict";
import { test } from "node:test";
import type { ExplanationAnswer } from "../src/openapi";
import { regionNames } from "../src/regions";

const WORDS = ["a", "dog", "snow"].map((text) => ({ text, special: false, content: text !== "a" }));
const SIZE = { width: 300, height: 200 };

/** Names of regions of a picture by their boxes, and what each of WORDS added with them. */
function named(regions: [box: number[] | null, shares: number[]][]): string[] {
  const why = {
    words: WORDS,
    regions: regions.map(([box]) => ({ box, label: "region" })),
    shares: WORDS.map((_, n) => regions.map(([, shares]) => shares[n])),
  } as unknown as ExplanationAnswer;
  return regionNames(SIZE, why, regions.map((_, n) => n));
}

test("a region is named by the content word that it answered most and by where it lies", () => {
  const dog = [9, 2, 1];
  assert.deepEqual(
    named([[[0, 0, 60, 40], dog], [[250, 90, 300, 110], dog], [[0, 150, 300, 200], [0, 1, 2]], [[0, 0, 300, 200], dog], [[140, 90, 160, 110], dog]]),
    ["dog · upper left", "dog · right", "snow · lower part", "dog · all of it", "dog · middle"],
  );
});

test("equal names are told apart by numbers, and what answered no word is named by the rest", () => {
  const box = [0, 0, 60, 40];
  assert.deepEqual(named([[box, [0, 1, 0]], [box, [0, 0, 1]], [box, [0, 2, 0]]]), ["dog · upper left 1", "snow · upper left", "dog · upper left 2"]);
  assert.deepEqual(named([[null, [1, 0, -1]]]), ["the rest"]);
});
