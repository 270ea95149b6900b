// The notes on an answer, shown above its pictures or sentences.
import type { CutOff } from "./cutoff";
import type { CaptionHit, ImageAnswer, PictureHit, TextAnswer } from "./openapi";
import { counted, isByText, isolated, loadedFirst } from "./text";

/** The options of a question that its notes depend on. */
export interface HowAsked {
  /** The largest number of results wanted. */
  k: number;
  /** What a sentence is compared with. */
  match: "both" | "pictures" | "text";
  isFiltered: boolean;
  /** Whether the text was longer than the service accepts. */
  isShortened: boolean;
  /** The minimum score or probability of results. */
  cutOff: CutOff;
  /** Whether a minimum score was removed, since it was meant for scores of another scale. */
  isCutOffGone: boolean;
  /** Options that are set but have no effect on this kind of question. */
  idle: string[];
  /** Whether the user may write captions. */
  mayChange: boolean;
}

const CUT_OFF_GONE = "“At least” was a score of another kind, and was taken away.";
const NO_PERCENTAGE = "How alike pictures are is no percentage: for “At least” choose “score”.";
const NO_CAPTIONS = "No captions are stored that could describe it.";

/** The notes on pictures found for a sentence. */
export function noteOfText(answer: TextAnswer, how: HowAsked): string {
  const shortened = how.isShortened && "The question is long: its beginning alone was asked.";
  const gone = how.isCutOffGone && CUT_OFF_GONE;
  return [
    loadedFirst(answer),
    shortened,
    ...readings(inText(answer)),
    gone,
    ...belowCutOff(answer),
    ...keptByText(answer.results, how.cutOff),
    ...howMany(answer, how),
  ]
    .filter(Boolean)
    .join(" ");
}

/** The notes on similar pictures, found by one or several models. */
export function noteOfPictures(answers: ImageAnswer[], title: string, how: HowAsked): string {
  const { left_out, results } = answers[0]!;
  const { query } = answers[0]!;
  const notes = [
    `Pictures like ${asName(title)}${query ? ` that show “${isolated(query)}”` : ""}.`,
    ...readings(answers[0]!),
  ];
  if (!results.length && !left_out) notes.push(nothing("No other picture can be found.", how));
  notes.push(...belowCutOff(answers[0]!));
  if (how.isCutOffGone) notes.push(CUT_OFF_GONE);
  if (how.cutOff.min_probability !== undefined) notes.push(NO_PERCENTAGE);
  return [...notes, noteOfIdle(how.idle), ...answers.map(loadedFirst)].filter(Boolean).join(" ");
}

/** The notes on stored sentences found for a picture. */
export function noteOfSentences(answer: ImageAnswer, title: string, how: HowAsked): string {
  const none = belowCutOff(answer)[0] ?? nothing("No sentences were found.", how);
  const found = (answer.results as CaptionHit[]).length ? `Sentences for ${asName(title)}.` : none;
  const nearest = answer.matched === false && answer.results.length ? "Nothing matches well. These come nearest:" : "";
  const gone = how.isCutOffGone && CUT_OFF_GONE;
  // The only note of such answers says, in words for programs, that no captions are stored.
  const told = answer.note ? [NO_CAPTIONS, how.mayChange && "Write captions with “Edit”."] : [found];
  return [...told, gone, nearest, noteOfIdle(how.idle), loadedFirst(answer)].filter(Boolean).join(" ");
}

/** The note on options that are set but have no effect; "" if there are none. */
export function noteOfIdle(idle: string[], isLibrary = false): string {
  if (!idle.length) return "";
  const names = idle.map((one) => `“${one}”`).join(", ");
  return `${isLibrary ? "Until something is asked" : "Here"} these options change nothing: ${names}.`;
}

/** The answer without unknown words if a picture was found by its text, which then contains them. */
function inText(answer: TextAnswer): TextAnswer {
  return answer.results.some(isByText) ? { ...answer, unknown_words: [] } : answer;
}

/** The notes on unknown, misspelt and translated words; those that the answer's own note says are not repeated. */
function readings({ unknown_words, read_as, note }: Pick<ImageAnswer, "unknown_words" | "read_as" | "note">): string[] {
  const notes = unknown_words?.length ? [`Not understood: ${unknown_words.map(isolated).join(", ")}.`] : [];
  const said = new Set((note?.match(/“[^”]*”/g) ?? []).flatMap((quoted) => quoted.slice(1, -1).split(" ")));
  const pairs = Object.entries(read_as ?? {}).filter(([, other]) => !other.split(" ").every((word) => said.has(word)));
  const written = pairs.map((pair, place) =>
    pair.map((word) => `“${isolated(word)}”`).join(place ? " as " : " was read as "),
  );
  if (written.length) notes.push(`${written.join(", ")}.`);
  return note ? [...notes, note] : notes;
}

function howMany({ matched, matched_by_pictures, left_out, results }: TextAnswer, how: HowAsked): string[] {
  if (!results.length && left_out) return []; // another note says so
  const byText = results.filter(isByText).length;
  if (byText && byText < results.length && matched_by_pictures === false)
    return [
      `${counted(byText, "picture")} by ${byText === 1 ? "its" : "their"} text. Nothing matches well by what it shows; the others come nearest.`,
    ];
  if (matched === false && how.match !== "text")
    return [`Nothing matches well.${results.length ? " These come nearest:" : ""}`];
  if (!results.length)
    return [
      nothing(how.match === "text" ? "No picture has these words in its text." : "No picture can be found yet.", how),
    ];
  if (matched === null) {
    const nearest = results.length === 1 ? "nearest picture" : `${results.length} nearest pictures`;
    return [`The ${nearest}, which may not show this.`];
  }
  return [results.length === how.k ? `The best ${how.k} pictures.` : `${counted(results.length, "picture")}.`];
}

function belowCutOff({ left_out, results }: { left_out: number; results: unknown[] }): string[] {
  if (!left_out) return [];
  const num = left_out.toLocaleString("en");
  return [
    results.length ? `“At least” leaves ${num} more out.` : `Nothing reaches “At least”, which leaves ${num} out.`,
  ];
}

/** The note on pictures that are shown although they are below the cut-off. */
function keptByText(results: PictureHit[], { min_score = -Infinity, min_probability = 0 }: CutOff): string[] {
  const isBelow = ({ score, probability }: PictureHit) =>
    score !== null && (score < min_score || (probability ?? 1) < min_probability);
  const num = results.filter((hit) => isByText(hit) && isBelow(hit)).length;
  if (!num) return [];
  return [
    `${counted(num, "picture")} below “At least” ${num === 1 ? "was found by its text and is" : "were found by their text and are"} shown anyway.`,
  ];
}

/** The note if nothing was found: a reminder of the filter, which is out of sight on phones, or else `why`. */
function nothing(why: string, { isFiltered }: HowAsked): string {
  return isFiltered ? "Nothing was found that passes the filter." : why;
}

/** A title inside a sentence, without its own full stop. */
function asName(title: string): string {
  return isolated(title.replace(/\.$/, ""));
}
