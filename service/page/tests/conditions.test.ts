import assert from "node:assert/strict";
import { test } from "node:test";
import { asWritten, type Condition, condition, conditionOn, inFull, isSame, together } from "../src/conditions";

const CASES: [written: string, name: string, is: unknown][] = [
  ["place: Berlin", "place", "Berlin"],
  ["  place :  Berlin  ", "place", "Berlin"],
  ["year: 2024", "year", 2024],
  ["year=2024", "year", 2024],
  ["year: 2020..2024", "year", { gte: 2020, lte: 2024 }],
  ["year: 2020 ..", "year", { gte: 2020 }],
  ["year: .. 2024", "year", { lte: 2024 }],
  ["year>=2020", "year", { gte: 2020 }],
  ["year <= 2024", "year", { lte: 2024 }],
  ["note: ..", "note", ".."],
  ["time: 12:30", "time", "12:30"],
  ['note: ""', "note", ""],
  ['note: "1..2"', "note", "1..2"],
  ['note: " 5 "', "note", " 5 "],
  ['note: """so"""', "note", '"so"'],
  ['note: "so" or not', "note", '"so" or not'],
  ['note: "a..b"..', "note", { gte: "a..b" }],
  ['note>="1"', "note", { gte: "1" }],
];

for (const [written, name, is] of CASES)
  test(`“${written}” is a condition`, () => assert.deepEqual(condition(written), { name, is }));

for (const written of ["", "place", "place:", ": Berlin", "place:  "])
  test(`“${written}” is none`, () => assert.equal(condition(written), null));

test("the longest known name that a condition begins with is its tag's", () => {
  const known = ["camera", "camera: lens"];
  assert.deepEqual(condition("camera: lens: 50", known), { name: "camera: lens", is: 50 });
  assert.deepEqual(condition("camera: Leica", known), { name: "camera", is: "Leica" });
});

const VALUES = [
  "",
  " ",
  "..",
  "1..2",
  "a .. ",
  "\u00a0x",
  "a\nb",
  '"',
  '""',
  '"a"',
  '"a".."b"',
  "a: b",
  ">=3",
  "=",
  "007",
  "1e3",
  "é\u0301\u{1f333}",
  "x".repeat(512),
  5,
  -0.5,
  1e21,
];
const CONDITIONS: Condition[] = VALUES.flatMap((one) => [
  { name: "a", is: one },
  { name: " a: b", is: one },
  { name: "a", is: { gte: one } },
  { name: "a", is: { lte: one } },
  ...VALUES.map((other) => ({ name: "a", is: { gte: one, lte: other } })),
]);

test("what a condition is written as is read as the same", () => {
  for (const one of CONDITIONS) {
    const read = conditionOn(one.name, asWritten(one));
    assert(read && isSame(read, one), JSON.stringify([one, read]));
  }
});

test("quotation marks stand only where something else would be read without them", () => {
  const written = ["Oslo", 2024, "2024", "12:30", "", "1..2"].map((is) => inFull({ name: "a", is }));
  assert.deepEqual(written, ["a: Oslo", "a: 2024", "a: 2024", "a: 12:30", 'a: ""', 'a: "1..2"']);
  assert.equal(inFull({ name: "a", is: { gte: 2020 } }), "a: 2020..");
});

test("values of a tag are alternatives, ends of a range are joined", () => {
  const given = ["place: Rome", "place: Berlin", "year>=2020", "year<=2024"].map((text) => condition(text)!);
  assert.deepEqual({ ...together(given) }, { place: ["Rome", "Berlin"], year: { gte: 2020, lte: 2024 } });
});

test("a value and a range of one tag, or two of one end, cannot be joined", () => {
  const both = (...texts: string[]) => together(texts.map((text) => condition(text)!));
  assert.throws(() => both("year: 2020", "year>=2020"), /a value and a range/);
  assert.throws(() => both("year>=2020", "year>=2021"), /such an end/);
});

for (const name of ["constructor", "toString", "__proto__"])
  test(`a tag may be called ${name}`, () =>
    assert.equal(JSON.stringify(together([{ name, is: "x" }])), `{"${name}":["x"]}`));
