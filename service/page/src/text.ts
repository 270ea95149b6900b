// Numbers, dates and lists as people read them.
import type { ImageAnswer, ImagesAnswer, PictureHit, TextAnswer } from "./openapi";

export function day(moment: string | null): string {
  // A camera that names no zone is taken to show UTC, so that is what is shown.
  return moment ? new Date(moment).toLocaleDateString(undefined, { dateStyle: "medium", timeZone: "UTC" }) : "no date";
}

/** The number that is written, with a point or a comma, also of percent; null for what is none. */
export function readNumber(text: string): number | null {
  const written = text.trim().replace(/\s*%$/, "").replace(",", ".");
  const number = Number(written);
  return /^[-+.\de]+$/i.test(written) && Number.isFinite(number) ? number : null;
}

/** When something was done, by the clock of whoever looks. */
export function time(moment: string): string {
  return new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export function percent(probability: number): string {
  const value = 100 * probability;
  return value > 0 && value < 1 ? "under 1 %" : `${Math.round(value)} %`;
}

// Letters that are written from right to left, by the blocks that Unicode keeps for them, and marks that turn the line.
const RIGHT_TO_LEFT =
  /[\u0590-\u08ff\u200f\u202b\u202e\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Somebody's text that stands in a line of the page: one from right to left must not turn what stands around it. */
export function isolated(text: string): string {
  return RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text;
}

/** A text in small letters without accents, by which it is looked up. */
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

/** Says what was not done to a picture that is not looked at any more. */
export function failedTo(work: string, picture: Named, why: string): string {
  return `${work} ${isolated(titleOf(picture))} failed: ${why}`;
}

/** What a picture is called: by its caption, or its file without the folder that its album names already. */
export function titleOf({ captions, filename, tags }: Named): string {
  const own = filename.slice(filename.lastIndexOf("/") + 1);
  const isAlbum = tags?.album !== undefined && `/${filename}`.endsWith(`/${tags.album}/${own}`);
  return captions[0] ?? (isAlbum ? own : filename);
}

const named = new Map<string, string>(); // the first picture that was called so

/** What a picture is called where nobody sees it: its title, with what tells it from those that were called so before. */
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

/** Whether a picture was found by its text, also where it was by what it shows. */
export function isByText(hit: Pick<PictureHit, "found_by">): boolean {
  return hit.found_by.includes("text");
}

/** How well a picture fits, in a few words; "" where that is a score, which has no unit and stands in its details. */
export function said(hit: Hit): string {
  const { similarity, probability } = hit;
  const sure =
    similarity !== undefined ? `similarity ${similarity.toFixed(2)}` : probability === null ? "" : percent(probability);
  if (!isByText(hit)) return sure;
  return sure ? `by its text; ${sure} by the picture` : "by its text";
}

/** A result, of pictures like one with how alike they are. */
export type Hit = PictureHit & { similarity?: number };

/** Pictures like one; how alike they are is what the score says, unless words were asked for besides. */
export function withSimilarities(answer: ImageAnswer): { model: string; results: Hit[] } {
  const results = answer.results as PictureHit[];
  return {
    model: answer.model,
    results: answer.query ? results : results.map((hit) => ({ ...hit, similarity: hit.score! })),
  };
}

/**
 * An answer without probabilities unless it is told that a picture matches: they are those of pictures one of which is
 * the one described, so that some are high where nothing matches, and where what was ruled out is there.
 */
export function withoutMisleadingProbabilities(answer: TextAnswer): TextAnswer {
  if (answer.matched_by_pictures) return answer;
  return { ...answer, results: answer.results.map((hit) => ({ ...hit, probability: null })) };
}

/** An answer with the explanations that another one has of the same pictures. */
export function withExplanations(answer: TextAnswer, explained: TextAnswer): TextAnswer {
  const known = new Map(explained.results.map((hit) => [hit.image_id, hit.explanation]));
  const results = answer.results.map((hit) => ({ ...hit, explanation: known.get(hit.image_id) ?? hit.explanation }));
  return { ...answer, results };
}

/** How many near duplicates a result stands for besides itself. */
export function alike(hit: PictureHit): string {
  return hit.near_duplicates?.length ? `and ${hit.near_duplicates.length} alike` : "";
}

/** What is said of an answer that waited for its model; "" for any other. */
export function loadedFirst(answer: { model: string; timings_ms: { load?: number | null } }): string {
  const { load } = answer.timings_ms;
  return load ? `${answer.model} was loaded first, in ${(load / 1000).toFixed(1)} s.` : "";
}

/** Why something failed, for whoever wanted it. */
export function messageOf(fault: unknown): string {
  return fault instanceof Error ? fault.message : String(fault);
}

const MOST_LETTERS = 512; // of a question, which the service takes

/** A question, as far as the service takes it. */
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
  const waiting = queued ? `; ${counted(queued, "of them waits", "of them wait")} to be looked at` : "";
  return `${counted(total, "picture")}${pass}${waiting}.`;
}

/** Where another model, which was asked for the best `k`, has a picture, compared with its rank here. */
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
