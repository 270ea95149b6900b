import assert from "node:assert/strict";
import { test } from "node:test";
import { periodsOf } from "../src/browse";

const months = (...names: string[]) => names.map((month, n) => ({ month, pictures: n + 1 }));

test("years sum their months, and only the chosen one's months are told", () => {
  const listed = months("2024-05", "2024-01", "2023-12", "1969-07");
  const years = [
    { month: "2024", pictures: 3 },
    { month: "2023", pictures: 3 },
    { month: "1969", pictures: 4 },
  ];
  assert.deepEqual(periodsOf(listed, ""), { years, months: [] });
  assert.deepEqual(periodsOf(listed, "2024"), { years, months: listed.slice(0, 2) });
});

test("of a single year the months are told at once", () => {
  const listed = months("2024-05", "2024-01");
  assert.deepEqual(periodsOf(listed, "").months, listed);
  assert.deepEqual(periodsOf([], ""), { years: [], months: [] });
});
