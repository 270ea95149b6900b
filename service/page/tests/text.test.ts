import assert from "node:assert/strict";
import { test } from "node:test";
import type { ImageAnswer, PictureHit, TextAnswer } from "../src/openapi";
import {
  alike,
  asTaken,
  counted,
  inLibrary,
  isolated,
  loadedFirst,
  messageOf,
  movement,
  percent,
  period,
  readNumber,
  said,
  spoken,
  titleOf,
  withExplanations,
  withoutMisleadingProbabilities,
  withSimilarities,
} from "../src/text";

function hit(parts: object): PictureHit {
  return { score: 0.51234, probability: null, found_by: ["picture"], ...parts } as unknown as PictureHit;
}

test("a probability is whole percent, and never nothing where there is some", () => {
  assert.deepEqual([0, 0.004, 0.01, 0.456, 1].map(percent), ["0 %", "under 1 %", "1 %", "46 %", "100 %"]);
});

test("a number is read with a point or a comma, also of percent", () => {
  assert.deepEqual(["2,5", " 2.5 ", "30 %", "-3", "1e1"].map(readNumber), [2.5, 2.5, 30, -3, 10]);
  for (const one of ["3x", "1,2,3", "%", "1e999", "0x1"]) assert.equal(readNumber(one), null, one);
});

test("a period is told by its ends, or as a whole", () => {
  assert.equal(period({ gte: "2023-05", lte: "2023-05" }), "2023-05");
  assert.equal(period({ gte: "2019", lte: "2021" }), "from 2019 until 2021");
  assert.equal(period({ gte: null, lte: "2019" }), "until 2019");
});

test("a result says by what it was found", () => {
  assert.equal(said(hit({})), "");
  assert.equal(said(hit({ probability: 0.5 })), "50 %");
  assert.equal(said(hit({ found_by: ["picture", "text"], probability: 0.5 })), "by its text; 50 % by the picture");
  assert.equal(said(hit({ score: null, found_by: ["text"] })), "by its text");
  assert.equal(said(hit({ found_by: ["picture", "text"] })), "by its text");
  assert.equal(alike(hit({ near_duplicates: ["a", "b"] })), "and 2 alike");
  assert.equal(alike(hit({})), "");
});

test("pictures of one title are called by what tells them apart", () => {
  const called = ([image_id, filename]: string) =>
    spoken({ image_id: image_id!, captions: ["dogs"], filename: filename!, taken_at: null });
  assert.deepEqual(["1a", "2b", "3b", "4b", "1a"].map(called), ["dogs", "dogs, b", "dogs, no date", "dogs, 4", "dogs"]);
});

test("a probability is shown where it is told that a picture matches, and nowhere else", () => {
  const left = (parts: object) =>
    withoutMisleadingProbabilities({ results: [hit({ probability: 0.2 })], ...parts } as unknown as TextAnswer)
      .results[0]!.probability;
  assert.deepEqual(
    [true, null, false].map((matched_by_pictures) => left({ matched_by_pictures })),
    [0.2, null, null],
  );
  assert.equal(left({ matched: true, matched_by_pictures: null }), null); // by their text alone
});

test("how alike pictures are is told, but not where words were asked for besides", () => {
  const told = (query?: string) =>
    withSimilarities({ query, results: [hit({})] } as unknown as ImageAnswer).results.map(said);
  assert.deepEqual([told(), told("snow")], [["similarity 0.51"], [""]]);
});

test("a picture of an album is called without the folder that the album is named by", () => {
  const called = (filename: string, album?: string) =>
    titleOf({ captions: [], filename, tags: album === undefined ? {} : { album } });
  assert.equal(called("Dogs 2019/x.jpg", "Dogs 2019"), "x.jpg");
  assert.equal(called("all/Dogs 2019/x.jpg", "Dogs 2019"), "x.jpg");
  assert.equal(called("Dogs/x.jpg"), "Dogs/x.jpg");
  assert.equal(called("Old Dogs/x.jpg", "Dogs"), "Old Dogs/x.jpg");
});

test("text from right to left is kept from turning what stands around it", () => {
  assert.equal(isolated("Berlin"), "Berlin");
  assert.equal(isolated("שלום"), "\u2068שלום\u2069");
  assert.equal(isolated("a\u202eb"), "\u2068a\u202eb\u2069");
});

test("a question is cut between letters to what the service takes", () => {
  assert.equal(asTaken(` ${"😀".repeat(600)}`), "😀".repeat(512));
  assert.equal(asTaken(`${"a".repeat(511)} b`), "a".repeat(511));
});

test("one is counted as one", () => {
  assert.deepEqual([counted(0, "picture"), counted(1, "picture")], ["0 pictures", "1 picture"]);
  assert.equal(counted(2, "city", "cities"), "2 cities");
});

test("a library says how much is in it, and what is not done yet", () => {
  assert.equal(inLibrary({ total: 1240, queued: 0 }, false), "1,240 pictures.");
  assert.equal(inLibrary({ total: 3, queued: 2 }, false), "3 pictures; 2 of them cannot be found yet.");
  assert.equal(inLibrary({ total: 1, queued: 1 }, true), "1 picture passes the filter; 1 of them cannot be found yet.");
  assert.equal(inLibrary({ total: 2, queued: 0 }, true), "2 pictures pass the filter.");
  assert.equal(inLibrary({ total: 0, queued: 0 }, true), "No picture passes the filter.");
  assert.equal(inLibrary({ total: 0, queued: 0 }, false), "");
});

test("an answer that waited for its model says so", () => {
  assert.equal(loadedFirst({ model: "sman", timings_ms: { load: 1234 } }), "sman was loaded first, in 1.2 s.");
  assert.equal(loadedFirst({ model: "sman", timings_ms: {} }), "");
});

test("a picture that another model does not show is beyond the best that were asked for, where it gave as many", () => {
  const other = { model: "camp", results: [1, 2, 3] };
  assert.equal(movement(2, undefined, other, 3), "beyond the best 3 of camp");
  assert.equal(movement(2, undefined, other, 24), "not among those of camp");
  assert.deepEqual(
    [1, 2, 4].map((there) => movement(2, there, other, 3)),
    ["1 place lower than by camp", "the same place", "2 places higher than by camp"],
  );
});

test("whatever was thrown has words", () => {
  assert.deepEqual([messageOf(new Error("no")), messageOf("gone")], ["no", "gone"]);
});

test("explanations are those of the answer that has them", () => {
  const found = (image_id: string, explanation: string | null) => ({ image_id, explanation }) as unknown as PictureHit;
  const answer = (...results: PictureHit[]) => ({ results }) as unknown as TextAnswer;
  const all = answer(found("b", null), found("a", null), found("c", null));
  const { results } = withExplanations(all, answer(found("a", "why a"), found("b", "why b")));
  assert.deepEqual(results, [found("b", "why b"), found("a", "why a"), found("c", null)]);
});
