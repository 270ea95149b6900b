// Parses dates as people write them, in words or numbers, into the service's 2024, 2024-05, 2024-05-06 and timestamps.
import { withoutAccents } from "./text";

const LANGUAGES = ["en", "de", "fr", "es", "it"]; // languages whose names of months are known
const MOMENT = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;
const TIME = /^(.*\d)(?:,?\s+|T)(\d{1,2}):(\d\d)(?::(\d\d))?$/i;
const YEAR_FIRST = /^(\d{4})(?:[./-](\d{1,2})(?:[./-](\d{1,2}))?)?$/;
const YEAR_LAST = /^(?:(\d{1,2})[./-])?(\d{1,2})[./-](\d{4})$/; // the day comes first if it is ambiguous
const SHORT_YEAR = /^(\d{1,2}[./-]\d{1,2}[./-])(\d\d)$/;
const DAY_LETTERS = "2024-05-06".length;
const FIRST_SHORT_YEAR = 70; // 70 is 1970, and 69 is 2069
const DAY_AND_MONTH = /^(?:(\d{1,2})(?:st|nd|rd|th|\.)?\s+(?:(?:of|de)\s+)?)?(\p{L}{3,10})\.?,?\s+(?:de\s+)?(\d{4})$/iu;
const MONTH_AND_DAY = /^(\p{L}{3,10})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})$/iu;

const EITHER_FIRST = /^(\d{1,2})([/-])(\d{1,2})\2\d{2,4}\b/; // a day and a month, in an order that differs by country

export const EXPECTED = "write a date as 2024, 2024-05, 2024-05-06, 06.05.2024, 6 May 2024 or 2024-05-06 10:00.";

/** The date in the service's notation; "" for an empty text, null for an invalid one. Times without a zone are UTC. */
export function readDate(text: string): string | null {
  const written = text.trim();
  if (!written || MOMENT.test(written)) return written;
  const [, said, hour, minute, second] = TIME.exec(written) ?? [];
  const date = calendarDate(said ?? written);
  if (hour === undefined || date === null) return date;
  if (date.length < DAY_LETTERS || Number(hour) > 23 || Number(minute) > 59 || Number(second ?? 0) > 59) return null;
  return `${date}T${hour.padStart(2, "0")}:${minute}:${second ?? "00"}Z`;
}

/** An ambiguous day in words: 5 June 2024 for 5/6/2024; "" for unambiguous dates. */
export function dayMeant(text: string, language?: string): string {
  const [, first, , second] = EITHER_FIRST.exec(text.trim()) ?? [];
  const date = readDate(text);
  if (!date || first === second || Math.max(Number(first), Number(second)) > 12) return "";
  return new Date(date.slice(0, DAY_LETTERS)).toLocaleDateString(language, { dateStyle: "long", timeZone: "UTC" });
}

/** Why a text is no date: the calendar has no such day, or else the accepted formats. */
export function whyNoDate(text: string): string {
  const [, said] = TIME.exec(text.trim()) ?? [];
  const [year, month, day] = partsOf(said ?? text.trim()) ?? [];
  const isDay = day !== undefined && Number(day) >= 1 && Number(day) <= 31 && Number(month) >= 1 && Number(month) <= 12;
  if (!isDay || asDate(year, month, day) !== null) return EXPECTED;
  return `there is no ${Number(day)} ${nameOf(Number(month) - 1, "en")} ${year}.`;
}

/** A timestamp in a form that can be parsed: its day, with the time unless that is midnight. */
export function written(moment: string | null): string {
  if (!moment) return "";
  const [date, time] = new Date(moment).toISOString().split("T") as [string, string];
  return time.startsWith("00:00:00") ? date : `${date} ${time.slice(0, 5)}`;
}

function calendarDate(said: string): string | null {
  const [year, month, day] = partsOf(said) ?? [];
  return asDate(year, month, day);
}

/** Year, month and day of a text, unchecked; null if it has no known format. */
function partsOf(said: string): (string | undefined)[] | null {
  const inNumbers = YEAR_FIRST.exec(said);
  if (inNumbers) return inNumbers.slice(1);
  const inFull = said.replace(
    SHORT_YEAR,
    (_, rest: string, year: string) => `${rest}${Number(year) < FIRST_SHORT_YEAR ? 20 : 19}${year}`,
  );
  const yearLast = YEAR_LAST.exec(inFull);
  if (yearLast) {
    const [, first, second, year] = yearLast;
    return Number(second) > 12 && first !== undefined ? [year, first, second] : [year, second, first];
  }
  const dayFirst = DAY_AND_MONTH.exec(said);
  if (dayFirst) return [dayFirst[3], monthOf(dayFirst[2]!), dayFirst[1]];
  const monthFirst = MONTH_AND_DAY.exec(said);
  return monthFirst && [monthFirst[3], monthOf(monthFirst[1]!), monthFirst[2]];
}

/** The number of a month by its name or an unambiguous beginning of it; "0" for other words. */
function monthOf(name: string): string {
  const wanted = withoutAccents(name);
  for (const language of LANGUAGES) {
    const names = Array.from({ length: 12 }, (_, month) => withoutAccents(nameOf(month, language)));
    const meant = names.flatMap((one, month) => (one.startsWith(wanted) ? [month + 1] : []));
    if (meant.length === 1) return String(meant[0]);
  }
  return "0";
}

function nameOf(month: number, language: string): string {
  return new Date(Date.UTC(2024, month, 1)).toLocaleDateString(language, { month: "long", timeZone: "UTC" });
}

/** A year, month or day in ISO notation; null if the calendar has none such. */
function asDate(year?: string, month?: string, day?: string): string | null {
  if (month === undefined) return year ?? null;
  const [wanted, inMonth] = [Number(month), new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()];
  if (wanted < 1 || wanted > 12 || (day !== undefined && (Number(day) < 1 || Number(day) > inMonth))) return null;
  return [year, month, day]
    .filter((part) => part !== undefined)
    .map((part) => part.padStart(2, "0"))
    .join("-");
}
