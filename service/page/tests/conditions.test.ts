import assert from "node:assert/strict";
import { test } from "node:test";
import { condition, together } from "../src/conditions";

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
