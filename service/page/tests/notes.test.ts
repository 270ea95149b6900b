import assert from "node:assert/strict";
import { test } from "node:test";
import { type HowAsked, noteOfIdle, noteOfPictures, noteOfSentences, noteOfText } from "../src/notes";
import type { ImageAnswer, TextAnswer } from "../src/openapi";

const HOW: HowAsked = {
  k: 2,
  match: "both",
  isFiltered: false,
  isShortened: false,
  cutOff: {},
  isCutOffGone: false,
  idle: [],
  mayChange: true,
};
const HIT = { found_by: ["pictures"] };
const FILTERED = { ...HOW, isFiltered: true };

function text(parts: object): TextAnswer {
  return {
    model: "m",
    results: [],
    unknown_words: [],
    left_out: 0,
    matched: true,
    note: null,
    timings_ms: {},
    ...parts,
  } as unknown as TextAnswer;
}

function image(parts: object): ImageAnswer {
  return { model: "m", results: [], left_out: 0, timings_ms: {}, ...parts } as unknown as ImageAnswer;
}

test("what a sentence found is counted, and called the best where there may be more", () => {
  assert.equal(noteOfText(text({ results: [HIT] }), HOW), "1 picture.");
  assert.equal(noteOfText(text({ results: [HIT, HIT] }), HOW), "The best 2 pictures.");
});

test("where it cannot be told whether anything matches, pictures are the nearest", () => {
  const told = (num: number) => noteOfText(text({ matched: null, results: Array(num).fill(HIT) }), HOW);
  assert.equal(told(2), "The 2 nearest pictures, which may not show this.");
  assert.equal(told(1), "The nearest picture, which may not show this.");
});

test("a sentence that found nothing is told why", () => {
  assert.equal(noteOfText(text({}), HOW), "No picture can be found yet.");
  assert.equal(
    noteOfText(text({ matched: false }), { ...HOW, match: "text" }),
    "No picture has these words in its text.",
  );
  assert.equal(noteOfText(text({}), FILTERED), "Nothing was found that passes the filter.");
  assert.equal(noteOfText(text({ left_out: 3 }), FILTERED), "Nothing reaches “At least”, which leaves 3 out.");
  assert.equal(noteOfText(text({ left_out: 3, results: [HIT] }), HOW), "“At least” leaves 3 more out. 1 picture.");
  assert.equal(noteOfText(text({ matched: false, results: [HIT] }), HOW), "Nothing matches well. These come nearest:");
});

test("a cut-off that was taken away is told of, whatever was asked", () => {
  const how = { ...HOW, isCutOffGone: true };
  const notes = [
    noteOfText(text({}), how),
    noteOfPictures([image({})], "a", how),
    noteOfSentences(image({}), "a", how),
  ];
  for (const note of notes) assert.match(note, /“At least” was a score of another kind, and was taken away\./);
});

test("what was made of a sentence comes before what it found", () => {
  const read = text({
    results: [HIT],
    unknown_words: ["qxz", "wvk"],
    read_as: { bycicle: "bicycle" },
    note: "It seems to be German.",
    timings_ms: { load: 2500 },
  });
  assert.equal(
    noteOfText(read, HOW),
    "m was loaded first, in 2.5 s. Not understood: qxz, wvk. “bycicle” was read as “bicycle”. It seems to be German. 1 picture.",
  );
  assert.equal(
    noteOfText(text({ results: [HIT], read_as: { hund: "dog", schnee: "snow", see: "lake" } }), HOW),
    "“hund” was read as “dog”, “schnee” as “snow”, “see” as “lake”. 1 picture.",
  );
  const translated = {
    results: [HIT],
    read_as: { hund: "dog", shcnee: "snow", bll: "ball" },
    note: "Read as “dog in snow”.",
  };
  assert.equal(noteOfText(text(translated), HOW), "“bll” was read as “ball”. Read as “dog in snow”. 1 picture.");
});

test("words that the text of some picture has are not said to be unknown", () => {
  const read = text({ results: [{ found_by: ["pictures", "text"] }], unknown_words: ["img"] });
  assert.equal(noteOfText(read, HOW), "1 picture.");
});

test("why pictures below the cut-off are shown is told, where there are some", () => {
  const hits = [0.1, 0.3, 0.5].map((probability) => ({
    found_by: ["pictures", "text"],
    score: 10 * probability,
    probability,
  }));
  const note = (cutOff: object, results: object[] = hits) => noteOfText(text({ results }), { ...HOW, k: 9, cutOff });
  assert.equal(
    note({ min_probability: 0.2 }),
    "1 picture below “At least” was found by its text and is shown anyway. 3 pictures.",
  );
  assert.equal(
    note({ min_score: 4 }),
    "2 pictures below “At least” were found by their text and are shown anyway. 3 pictures.",
  );
  assert.equal(note({ min_score: 1 }), "3 pictures.");
  assert.equal(note({ min_score: 1 }, [{ found_by: ["text"], score: null, probability: null }]), "1 picture.");
});

test("a question that was too long is told of", () => {
  assert.equal(
    noteOfText(text({ results: [HIT] }), { ...HOW, isShortened: true }),
    "The question is long: its beginning alone was asked. 1 picture.",
  );
});

test("what is found beside the pictures whose text has the words is told apart where it matches nothing", () => {
  const results = [{ found_by: ["text"] }, HIT];
  const told = "1 picture by its text. Nothing matches well by what it shows; the others come nearest.";
  assert.equal(noteOfText(text({ matched: true, matched_by_pictures: false, results }), HOW), told);
  assert.equal(noteOfText(text({ matched: true, matched_by_pictures: null, results }), HOW), "The best 2 pictures.");
  assert.equal(
    noteOfText(text({ matched: true, matched_by_pictures: false, results: results.slice(0, 1) }), HOW),
    "1 picture.",
  );
});

test("pictures like one are told by its title, and what was left out", () => {
  assert.equal(noteOfPictures([image({ results: [{}] })], "A dog.", HOW), "Pictures like A dog.");
  assert.equal(noteOfPictures([image({})], "b.jpg", HOW), "Pictures like b.jpg. No other picture can be found.");
  assert.equal(
    noteOfPictures([image({})], "b", FILTERED),
    "Pictures like b. Nothing was found that passes the filter.",
  );
  assert.equal(
    noteOfPictures([image({ left_out: 1 })], "b", { ...HOW, cutOff: { min_probability: 0.1 } }),
    "Pictures like b. Nothing reaches “At least”, which leaves 1 out. How alike pictures are is no percentage: for “At least” choose “score”.",
  );
  const words = { query: "in snow", unknown_words: ["qxz"], read_as: { teh: "the" }, note: "A note." };
  assert.equal(
    noteOfPictures([image({ ...words, results: [{}] })], "b", HOW),
    "Pictures like b that show “in snow”. Not understood: qxz. “teh” was read as “the”. A note.",
  );
  const second = image({ model: "sman", timings_ms: { load: 1000 } });
  assert.equal(
    noteOfPictures([image({ results: [{}] }), second], "b", HOW),
    "Pictures like b. sman was loaded first, in 1.0 s.",
  );
});

test("sentences for a picture are told by its title, or why there are none", () => {
  assert.equal(
    noteOfSentences(image({ matched: false, results: [{}] }), "b", HOW),
    "Sentences for b. Nothing matches well. These come nearest:",
  );
  assert.equal(noteOfSentences(image({ results: [{}] }), "b", HOW), "Sentences for b.");
  assert.equal(noteOfSentences(image({}), "b", HOW), "No sentences were found.");
  assert.equal(noteOfSentences(image({ left_out: 2 }), "b", HOW), "Nothing reaches “At least”, which leaves 2 out.");
  const none = image({ note: "None (PATCH /images/{image_id}, `regard edit --caption`)." });
  assert.equal(
    noteOfSentences(none, "b", HOW),
    "No captions are stored that could describe it. Write captions with “Edit”.",
  );
  assert.equal(
    noteOfSentences(none, "b", { ...HOW, mayChange: false }),
    "No captions are stored that could describe it.",
  );
});

test("options that are set and mean nothing to what is asked are told of", () => {
  const how = { ...HOW, idle: ["Look at", "Sort by"] };
  const told = "Here these options change nothing: “Look at”, “Sort by”.";
  assert.equal(noteOfPictures([image({ results: [{}] })], "b", how), `Pictures like b. ${told}`);
  assert.equal(noteOfSentences(image({ results: [{}] }), "b", how), `Sentences for b. ${told}`);
  assert.equal(noteOfIdle(["Model"], true), "Until something is asked these options change nothing: “Model”.");
  assert.equal(noteOfIdle([], true), "");
});
