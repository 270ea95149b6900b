import assert from "node:assert/strict";
import { test } from "node:test";
import type { SearchOptions } from "../src/options";
import { pictureForm, textRequest } from "../src/requests";

const options = (chosen: object) =>
  ({ order: "date", filter: null, match: "both", groups: true, cutOff: {}, ...chosen }) as unknown as SearchOptions;

const HALF = { min_probability: 0.5 };

test("a sentence is asked with all options", () => {
  const request = { query: "dogs", k: 24, explain: true, sort: "date", filter: null, match: "both", ...HALF };
  assert.deepEqual(textRequest("dogs", options({ cutOff: HALF }), 24), { ...request, group_near_duplicates: true });
});

test("pictures like a stored one are asked for, with words besides where there are some, never with a percentage", () => {
  const question = { kind: "pictures", asked: { image_id: "a" }, title: "" } as const;
  const chosen = options({ cutOff: HALF, filter: { tags: {} } });
  const form = { image_id: "a", target: "images", k: "9", sort: "date", group_near_duplicates: "true" };
  const sent = pictureForm(question, null, chosen, 9);
  assert.deepEqual(Object.fromEntries(sent.entries()), { ...form, filter: '{"tags":{}}' });
  assert.equal(pictureForm({ ...question, words: "snow" }, null, chosen, 9).get("query"), "snow");
});

test("sentences for a file are asked for with the limit alone", () => {
  const image = new File(["x"], "a.png");
  const question = { kind: "sentences", asked: { image }, title: "" } as const;
  const { image: sent, ...rest } = Object.fromEntries(
    pictureForm(question, "scan", options({ cutOff: HALF }), 9).entries(),
  );
  assert.equal((sent as File).name, "a.png");
  assert.deepEqual(rest, { target: "captions", model: "scan", k: "9", min_probability: "0.5" });
});
