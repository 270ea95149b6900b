import assert from "node:assert/strict";
import { test } from "node:test";
import { changedCaptions, changedTags, oneLine, tagLines } from "../src/lines";

const TAGS = { place: "Berlin", year: 2024, "camera: lens": "50 mm" };
const WRITTEN = tagLines(TAGS).map(([line]) => line);

function changed(...lines: string[]): object {
  return changedTags(TAGS, lines.join("\n"));
}

test("tags that nobody touched are left alone", () => assert.deepEqual(changed(...WRITTEN), {}));

test("a tag that is written anew, added or taken away is told, and no other", () => {
  assert.deepEqual(changed("place: Rome", ...WRITTEN.slice(1)), { place: "Rome" });
  assert.deepEqual(changed(...WRITTEN, "", "  seen : 3  "), { seen: 3 });
  assert.deepEqual(changed(...WRITTEN.slice(1)), { place: null });
});

test("a name with a colon is known by its tag, another ends at its first colon", () => {
  assert.deepEqual(changed(WRITTEN[0]!, WRITTEN[1]!, "camera: lens: 35 mm"), { "camera: lens": "35 mm" });
  assert.deepEqual(changed(...WRITTEN, "time: 12:30"), { time: "12:30" });
});

test("of two tags that one line shows none is taken away", () => {
  const alike = { camera: "lens: 50 mm", "camera: lens": "50 mm", year: 2024 };
  const lines = tagLines(alike).map(([line]) => line);
  assert.equal(lines[0], lines[1]);
  assert.deepEqual(changedTags(alike, [...lines, "place: Rome"].join("\n")), { place: "Rome" });
  assert.deepEqual(changedTags(alike, lines[2]!), { camera: null, "camera: lens": null });
});

test("numbers are what is written as numbers, and nothing else that programs take for one", () => {
  const said = changed(...WRITTEN, "a: 1.5", "b: 007", "c: NaN", "d: 1e3", "e: -2");
  assert.deepEqual(said, { a: 1.5, b: "007", c: "NaN", d: "1e3", e: -2 });
});

test("a line without a colon, and a tag on two lines, are refused", () => {
  assert.throws(() => changed(...WRITTEN, "holiday"), /“holiday” has no colon/);
  assert.throws(() => changed(...WRITTEN, "place: Rome"), /“place” stands on two lines/);
});

test("a caption whose line was not touched keeps what no line can show", () => {
  const before = ["a dog\nruns", "a cat"].map((caption) => [oneLine(caption), caption] as const);
  assert.deepEqual(changedCaptions(before, "a dog runs\n\na bird"), ["a dog\nruns", "a bird"]);
});
