import assert from "node:assert/strict";
import { test } from "node:test";
import { readDate, written } from "../src/dates";

const DAY = "2020-08-21";

test("a day is read as people write it, in numbers or words", () => {
  const forms = "2020-8-21|2020/08/21|21.08.2020|21/8/2020|08/21/2020|21 August 2020|21st of Aug 2020|Aug 21, 2020|august 21 2020| 2020-08-21 ";
  for (const one of forms.split("|")) assert.equal(readDate(one), DAY, one);
  assert.deepEqual(["5/6/2020", "1. May 2020", "Sept 3, 2020"].map(readDate), ["2020-06-05", "2020-05-01", "2020-09-03"]);
});

test("a year, a month and a moment are read, too", () => {
  const said = ["", "2020", "2020-08", "8/2020", "August 2020", "2020-08-21 9:46", "21.08.2020 10:00:05", "2020-08-21T10:00:00+02:00"];
  const read = ["", "2020", "2020-08", "2020-08", "2020-08", `${DAY}T09:46:00Z`, `${DAY}T10:00:05Z`, `${DAY}T10:00:00+02:00`];
  assert.deepEqual(said.map(readDate), read);
});

test("what the calendar does not have is no date", () => {
  const none = "last summer|2020-13|2020-02-30|31.04.2020|32/13/2020|Maybe 3, 2020|13 Juni 2020|2020 10:00|2020-08-21 25:00|21.08.20";
  for (const one of none.split("|")) assert.equal(readDate(one), null, one);
});

test("a moment is shown as one may write it", () => {
  const moments = [null, `${DAY}T00:00:00Z`, `${DAY}T09:46:12Z`, `${DAY}T09:46:12.5+02:00`];
  assert.deepEqual(moments.map(written), ["", DAY, `${DAY} 09:46`, `${DAY} 07:46`]);
});
