import assert from "node:assert/strict";
import { test } from "node:test";
import { offered, partsOf, sumsOf } from "../src/parts";

/** Words as an answer has them; those in capitals are content words. */
function words(sentence: string) {
  return ["<start>", ...sentence.split(" "), "<end>"].map((text) => ({
    text,
    special: text.startsWith("<"),
    content: text !== text.toLowerCase(),
  }));
}

function told(sentence: string): string[] {
  return partsOf(words(sentence)).map((one) => one.text);
}

test("content words are told of one by one, the rest as one", () => {
  assert.deepEqual(told("a BLACK DOG on GRASS ."), ["BLACK", "DOG", "GRASS", "the rest"]);
  assert.deepEqual(partsOf(words("a DOG")).at(-1), { text: "the rest", words: [0, 1, 3], isRest: true });
});

test("a word that the question rules out is told of as such", () => {
  const [dog, cat] = words("DOG CAT").slice(1);
  assert.deepEqual(
    partsOf([dog!, { ...cat!, excluded: true }]).map((one) => one.text),
    ["DOG", "no CAT"],
  );
});

test("where no word is a content word, each is told of", () => {
  assert.deepEqual(told("what is it ?"), ["what", "is", "it", "?", "the rest"]);
});

test("content words can be looked at, and numbers where nothing was found by its text", () => {
  const looked = (sentence: string, byText = false) =>
    offered(words(sentence), byText).map((n) => words(sentence)[n]!.text);
  assert.deepEqual(looked("IMG _ DOG / ."), ["IMG", "DOG"]);
  assert.deepEqual(looked("what is it"), ["what", "is", "it"]);
  assert.deepEqual(
    ["a DOG", "the 2 ,"].map((one) => looked(one, true)),
    [["DOG"], ["the", ","]],
  );
  assert.deepEqual([looked("the 2"), looked("2", true)], [["the", "2"], ["2"]]);
});

test("nothing is left where a model marks neither start nor end", () => {
  const dog = { text: "dog", special: false, content: true };
  assert.deepEqual(partsOf([dog]), [{ text: "dog", words: [0], isRest: false }]);
});

test("every word is in one part, so that sums over parts are sums over words", () => {
  for (const sentence of ["a BLACK DOG .", "the", "of the", "DOG 's", "! ?", "a B 's with the"]) {
    const all = words(sentence);
    const parts = partsOf(all);
    assert.deepEqual(
      parts.flatMap((one) => one.words).sort((a, b) => a - b),
      all.map((_, n) => n),
      sentence,
    );
    const values = all.map((_, n) => 2 ** n);
    assert.equal(
      sumsOf(parts, values).reduce((sum, value) => sum + value, 0),
      2 ** all.length - 1,
    );
  }
});
