import assert from "node:assert/strict";
import { test } from "node:test";
import { dayMeant, EXPECTED, readDate, whyNoDate, written } from "../src/dates";

const DAY = "2020-08-21";

test("a day is read as people write it, in numbers or words", () => {
  const forms =
    "2020-8-21|2020/08/21|21.08.2020|21/8/2020|08/21/2020|21 August 2020|21st of Aug 2020|Aug 21, 2020|august 21 2020| 2020-08-21 ";
  for (const one of forms.split("|")) assert.equal(readDate(one), DAY, one);
  assert.deepEqual(["5/6/2020", "1. May 2020", "Sept 3, 2020"].map(readDate), [
    "2020-06-05",
    "2020-05-01",
    "2020-09-03",
  ]);
});

test("a day that could be another one elsewhere is told in words", () => {
  const said = ["5/6/2024", "5-6-24", " 05/06/2024 10:00"].map((one) => dayMeant(one, "en-GB"));
  assert.deepEqual(said, ["5 June 2024", "5 June 2024", "5 June 2024"]);
  for (const one of ["5/5/2024", "25/6/2024", "5.6.2024", "2024-05-06", "5/2024", "June 5, 2024", "31/02/2024", ""])
    assert.equal(dayMeant(one), "", one);
});

test("months are known by their names in some languages, and years by two digits", () => {
  const said = [
    "Mai 2024",
    "13. Juni 2020",
    "März 2021",
    "1 mars 2021",
    "5 de agosto de 2019",
    "dicembre 2022",
    "Okt. 2020",
    "Dez 2020",
    "6.5.24",
    "6.5.99",
  ];
  const read = [
    "2024-05",
    "2020-06-13",
    "2021-03",
    "2021-03-01",
    "2019-08-05",
    "2022-12",
    "2020-10",
    "2020-12",
    "2024-05-06",
    "1999-05-06",
  ];
  assert.deepEqual(said.map(readDate), read);
});

test("of a day that the calendar does not have it is told that there is none", () => {
  assert.equal(whyNoDate("31.02.2023"), "there is no 31 February 2023.");
  assert.equal(whyNoDate("2023-04-31 10:00"), "there is no 31 April 2023.");
  for (const one of ["last summer", "2023-13-01", "32.01.2023", "01.01.2023 25:00"])
    assert.equal(whyNoDate(one), EXPECTED, one);
});

test("a year, a month and a moment are read, too", () => {
  const said = [
    "",
    "2020",
    "2020-08",
    "8/2020",
    "August 2020",
    "2020-08-21 9:46",
    "21.08.2020 10:00:05",
    "2020-08-21T10:00:00+02:00",
  ];
  const read = [
    "",
    "2020",
    "2020-08",
    "2020-08",
    "2020-08",
    `${DAY}T09:46:00Z`,
    `${DAY}T10:00:05Z`,
    `${DAY}T10:00:00+02:00`,
  ];
  assert.deepEqual(said.map(readDate), read);
});

test("what the calendar does not have is no date", () => {
  const none =
    "last summer|2020-13|2020-02-30|31.04.2020|32/13/2020|Maybe 3, 2020|13 Jumi 2020|2020 10:00|2020-08-21 25:00|21.8.2|Ma 2020|Ju 2020";
  for (const one of none.split("|")) assert.equal(readDate(one), null, one);
});

test("a moment is shown as one may write it", () => {
  const moments = [null, `${DAY}T00:00:00Z`, `${DAY}T09:46:12Z`, `${DAY}T09:46:12.5+02:00`];
  assert.deepEqual(moments.map(written), ["", DAY, `${DAY} 09:46`, `${DAY} 07:46`]);
});
