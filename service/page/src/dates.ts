// Dates as people write them, in words or numbers, for the service, which takes 2024, 2024-05, 2024-05-06 and moments.

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MOMENT = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;
const TIME = /^(.*\d)(?:,?\s+|T)(\d{1,2}):(\d\d)(?::(\d\d))?$/i;
const YEAR_FIRST = /^(\d{4})(?:[./-](\d{1,2})(?:[./-](\d{1,2}))?)?$/;
const YEAR_LAST = /^(?:(\d{1,2})[./-])?(\d{1,2})[./-](\d{4})$/; // the day first, as where the service looks dates up
const DAY_AND_MONTH = /^(?:(\d{1,2})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?)?([a-z]{3,9})\.?,?\s+(\d{4})$/i;
const MONTH_AND_DAY = /^([a-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})$/i;

export const EXPECTED = "write a date as 2024, 2024-05, 2024-05-06, 06.05.2024, 6 May 2024 or 2024-05-06 10:00.";

/** The date as the service takes it; "" for nothing, null for what is none. A time that names no zone is one of UTC. */
export function readDate(text: string): string | null {
  const written = text.trim();
  if (!written || MOMENT.test(written)) return written;
  const [, said, hour, minute, second] = TIME.exec(written) ?? [];
  const date = calendarDate(said ?? written);
  if (hour === undefined || date === null) return date;
  if (date.length < "2024-05-06".length || Number(hour) > 23 || Number(minute) > 59 || Number(second ?? 0) > 59) return null;
  return `${date}T${hour.padStart(2, "0")}:${minute}:${second ?? "00"}Z`;
}

/** A moment as one may write it: its day, with the time where it has one. */
export function written(moment: string | null): string {
  if (!moment) return "";
  const [date, time] = new Date(moment).toISOString().split("T") as [string, string];
  return time.startsWith("00:00:00") ? date : `${date} ${time.slice(0, 5)}`;
}

function calendarDate(said: string): string | null {
  const inNumbers = YEAR_FIRST.exec(said);
  if (inNumbers) return asDate(inNumbers[1], inNumbers[2], inNumbers[3]);
  const yearLast = YEAR_LAST.exec(said);
  if (yearLast) return asDate(yearLast[3], yearLast[2], yearLast[1]) ?? asDate(yearLast[3], yearLast[1], yearLast[2]);
  const dayFirst = DAY_AND_MONTH.exec(said);
  if (dayFirst) return asDate(dayFirst[3], monthOf(dayFirst[2]!), dayFirst[1]);
  const monthFirst = MONTH_AND_DAY.exec(said);
  return monthFirst && asDate(monthFirst[3], monthOf(monthFirst[1]!), monthFirst[2]);
}

/** The number of a month by its name, of which three letters are enough; "0" for no month. */
function monthOf(name: string): string {
  const wanted = name.toLowerCase();
  const place = MONTHS.indexOf(wanted.slice(0, 3));
  const whole = new Date(Date.UTC(2024, place, 1)).toLocaleDateString("en", { month: "long", timeZone: "UTC" }).toLowerCase();
  return String(whole.startsWith(wanted) || wanted === "sept" ? place + 1 : 0);
}

/** A year, month or day in the numbers that are given; null where the calendar has none such. */
function asDate(year?: string, month?: string, day?: string): string | null {
  if (month === undefined) return year ?? null;
  const [wanted, inMonth] = [Number(month), new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()];
  if (wanted < 1 || wanted > 12 || (day !== undefined && (Number(day) < 1 || Number(day) > inMonth))) return null;
  return [year, month, day].filter((part) => part !== undefined).map((part) => part.padStart(2, "0")).join("-");
}
