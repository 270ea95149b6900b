import assert from "node:assert/strict";
import { test } from "node:test";
import { readCutOff, Unreadable } from "../src/cutoff";

test("a limit is a score as it is written, or a percentage, with its sign or without", () => {
  assert.deepEqual(readCutOff(" -0,5 ", true), { min_score: -0.5 });
  for (const written of ["70", "70 %", "70%"]) assert.deepEqual(readCutOff(written, false), { min_probability: 0.7 });
  assert.deepEqual(
    [readCutOff("0", false), readCutOff("100", false)],
    [{ min_probability: 0 }, { min_probability: 1 }],
  );
  assert.deepEqual([readCutOff(" ", true), readCutOff("", false)], [{}, {}]);
});

test("what is no number, a score in percent, and what no probability reaches cannot be read", () => {
  for (const [written, isScore] of [
    ["much", true],
    ["much", false],
    ["5 %", true],
    ["101", false],
    ["-1", false],
  ] as const)
    assert.throws(() => readCutOff(written, isScore), Unreadable, written);
});
