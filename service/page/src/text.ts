// Numbers, dates and other values as text for people.
import type { ImageAnswer, ImagesAnswer, Period, PictureHit, TextAnswer } from "./openapi";

export function day(moment: string | null): string {
  // Times of cameras without a zone are taken as UTC, so dates are shown in UTC.
  return moment ? new Date(moment).toLocaleDateString(undefined, { dateStyle: "medium", timeZone: "UTC" }) : "no date";
}

/** 2023, from 2021-03, or from 2019 until 2021. */
export function period({ gte, lte }: Period): string {
  if (gte === lte) return String(gte);
  return [gte && `from ${gte}`, lte && `until ${lte}`].filter(Boolean).join(" ");
}

/** Parses a number with a decimal point or comma, and an optional percent sign; null for other texts. */
export function readNumber(text: string): number | null {
  const written = text.trim().replace(/\s*%$/, "").replace(",", ".");
  const number = Number(written);
  return /^[-+.\de]+$/i.test(written) && Number.isFinite(number) ? number : null;
}

/** A time in the user's time zone. */
export function time(moment: string): string {
  return new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export function percent(probability: number): string {
  const value = 100 * probability;
  return value > 0 && value < 1 ? "under 1 %" : `${Math.round(value)} %`;
}

// Unicode's blocks of right-to-left letters, and direction marks.
const RIGHT_TO_LEFT =
  /[\u0590-\u08ff\u200f\u202b\u202e\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** A user's text for a sentence of the page, isolated if it is right-to-left, so that it does not reorder the rest. */
export function isolated(text: string): string {
  return RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text;
}

/** A text in lower case without accents, for comparison. */
export function withoutAccents(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

export function tagLine([name, value]: [string, string | number]): string {
  return isolated(`${name}: ${value}`);
}

interface Named {
  captions: string[];
  filename: string;
  tags?: Record<string, string | number>;
}

/** The message about a failure for a picture that is no longer shown. */
export function failedTo(work: string, picture: Named, why: string): string {
  return `${work} ${isolated(titleOf(picture))} failed: ${why}`;
}

/** The title of a picture: its caption, or its file name without a folder that the album names already. */
export function titleOf({ captions, filename, tags }: Named): string {
  const own = filename.slice(filename.lastIndexOf("/") + 1);
  const isAlbum = tags?.album !== undefined && `/${filename}`.endsWith(`/${tags.album}/${own}`);
  return captions[0] ?? (isAlbum ? own : filename);
}

const named = new Map<string, string>(); // name -> id of the first picture with it

/** A name for screen readers: the title, with a suffix that distinguishes it from other pictures with this title. */
export function spoken(picture: Named & { image_id: string; taken_at: string | null }): string {
  const { image_id, filename, taken_at } = picture;
  const title = titleOf(picture);
  const more = [filename, day(taken_at), image_id].filter((one) => one !== title);
  const name = [title, ...more.map((one) => `${title}, ${one}`)].find(
    (one) => (named.get(one) ?? image_id) === image_id,
  )!;
  named.set(name, image_id);
  return name;
}

/** Whether a picture was found by its text, perhaps also by what it shows. */
export function isByText(hit: Pick<PictureHit, "found_by">): boolean {
  return hit.found_by.includes("text");
}

/** How well a picture fits, in a few words; "" if there is only a score, which the details show. */
export function said(hit: Hit): string {
  const { similarity, probability } = hit;
  const sure =
    similarity !== undefined ? `similarity ${similarity.toFixed(2)}` : probability === null ? "" : percent(probability);
  if (!isByText(hit)) return sure;
  return sure ? `by its text; ${sure} by the picture` : "by its text";
}

/** A result; `similarity` is set for similar pictures. */
export type Hit = PictureHit & { similarity?: number };

/** Similar pictures. Their score is the similarity, unless the question had words, too. */
export function withSimilarities(answer: ImageAnswer): { model: string; results: Hit[] } {
  const results = answer.results as PictureHit[];
  return {
    model: answer.model,
    results: answer.query ? results : results.map((hit) => ({ ...hit, similarity: hit.score! })),
  };
}

/**
 * An answer without probabilities unless pictures match: they assume that one picture is the one described, and so can
 * be high even if nothing matches, or if something excluded is there.
 */
export function withoutMisleadingProbabilities(answer: TextAnswer): TextAnswer {
  if (answer.matched_by_pictures) return answer;
  return { ...answer, results: answer.results.map((hit) => ({ ...hit, probability: null })) };
}

/** An answer with the explanations of the same pictures in another one. */
export function withExplanations(answer: TextAnswer, explained: TextAnswer): TextAnswer {
  const known = new Map(explained.results.map((hit) => [hit.image_id, hit.explanation]));
  const results = answer.results.map((hit) => ({ ...hit, explanation: known.get(hit.image_id) ?? hit.explanation }));
  return { ...answer, results };
}

/** The number of a result's near duplicates as text. */
export function alike(hit: PictureHit): string {
  return hit.near_duplicates?.length ? `and ${hit.near_duplicates.length} alike` : "";
}

/** The note on an answer that waited for its model to load; "" for others. */
export function loadedFirst(answer: { model: string; timings_ms: { load?: number | null } }): string {
  const { load } = answer.timings_ms;
  return load ? `${answer.model} was loaded first, in ${(load / 1000).toFixed(1)} s.` : "";
}

/** The message of an error. */
export function messageOf(fault: unknown): string {
  return fault instanceof Error ? fault.message : String(fault);
}

const MOST_LETTERS = 512; // the service's limit for a question

/** A question, shortened to the service's limit. */
export function asTaken(question: string): string {
  return [...question.trim()].slice(0, MOST_LETTERS).join("").trim();
}

export function counted(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** How many pictures the library lists, and how many of them wait for their regions; "" for an empty library. */
export function inLibrary({ total, queued }: Pick<ImagesAnswer, "total" | "queued">, isFiltered: boolean): string {
  if (!total) return isFiltered ? "No picture passes the filter." : "";
  const pass = isFiltered ? ` ${total === 1 ? "passes" : "pass"} the filter` : "";
  const waiting = queued ? `; ${queued.toLocaleString("en")} of them cannot be found yet` : "";
  return `${counted(total, "picture")}${pass}${waiting}.`;
}

/** The rank of a picture by another model, which was asked for the best `k`, compared with its rank here. */
export function movement(
  rank: number,
  there: number | undefined,
  other: { model: string; results: unknown[] },
  k: number,
): string {
  if (there === undefined)
    return other.results.length < k ? `not among those of ${other.model}` : `beyond the best ${k} of ${other.model}`;
  if (there === rank) return "the same place";
  return `${counted(Math.abs(there - rank), "place")} ${there > rank ? "higher" : "lower"} than by ${other.model}`;
}
