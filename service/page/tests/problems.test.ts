import assert from "node:assert/strict";
import { test } from "node:test";
import { inWords } from "../src/problems";

const CASES: [field: string, problem: string, said: string][] = [
  [
    "filter.taken_at.gte",
    "write a date as 2024, or a date and time with its timezone, as 2024..",
    "From: write a date as 2024.",
  ],
  ["filter.taken_at.lte", "no date.", "To: no date."],
  ["taken_at", "no date", "Date: no date."],
  ["filter.tags.my.tag", "give a string", "Tag “my.tag”: give a string."],
  ["captions.3.0", "is too long", "Captions: is too long."],
  ["min_probability", "must be at most 1", "At least: must be at most 1."],
  ["query", "is blank", "Is blank."],
  ["k", "must be an integer", "k: must be an integer."],
];

for (const [field, problem, said] of CASES)
  test(`a fault of ${field} is told in the page's words`, () =>
    assert.equal(inWords({ errors: [{ field, problem }] }), said));

test("several faults follow each other", () => {
  const errors = [
    { field: "query", problem: "is blank" },
    { field: "tags.a", problem: "is too long" },
  ];
  assert.equal(inWords({ errors }), "Is blank. Tag “a”: is too long.");
});

test("without faults of fields the detail is told, and a missing key by what it must allow", () => {
  assert.equal(inWords({ detail: "Nothing works." }), "Nothing works.");
  assert.equal(inWords({}), undefined);
  assert.equal(inWords({ detail: "..", needed: "write" }), "This wants a key that may write.");
  assert.equal(inWords({ detail: "..", type: "urn:regard:problem:no-key" }), "This service wants a key.");
});
