// Questions in the browser's history: Back returns to the previous one, and the address contains the question and its
// options.

/** A picture to ask with: a file, or a stored one. */
export type Asked = { image: File } | { image_id: string };

/** A picture to find similar pictures or stored sentences for. `words`: what similar pictures should also show. */
export interface PictureQuestion {
  kind: "pictures" | "sentences";
  asked: Asked;
  title: string;
  words?: string;
}

/** A sentence ("" shows the library), or a picture. */
export type Question = { kind: "text"; text: string } | PictureQuestion;

/** Options by their names in an address. */
export type Chosen = [name: string, value: string][];

/** What to restore of an answer: `steps` of further results, number of pictures `shown` in the library, scroll
 * position, and the picture with the focus. */
interface Seen {
  steps?: number;
  shown?: number;
  scrolled?: number;
  focused?: string;
}

/**
 * The state of a history entry: `typing` while its sentence may still grow, `file` a key of `files`, and `large` if a
 * picture is enlarged over the question's results, so that Back closes only that.
 */
interface Entry extends Seen {
  typing?: boolean;
  title?: string;
  file?: string;
  large?: boolean;
}

const LARGE = "picture"; // the parameter of an address that names the picture shown large
const REST_MS = 100; // without scroll events, after which scrolling has ended
const files = new Map<string, File>(); // lost on reload, since an address cannot hold files
let leaving: Promise<void> | null = null; // while the entry of an enlarged picture is being left
const STORED = { pictures: "like", sentences: "sentences" } as const;

/** Makes a question the newest entry. A question being typed replaces its own beginning, and any question replaces the
 * entry of an enlarged picture. */
export function remember(question: Question, chosen: Chosen, typing = false): void {
  const address = addressOf(question, chosen);
  if (questionAddress() === new URL(address, location.href).hash && !("asked" in question)) return;
  const goesOn = (typing && entry().typing) || entry().large;
  if (!goesOn) settle(); // the question that is left is complete
  history[goesOn ? "replaceState" : "pushState"](entryOf(question, typing), "", address);
}

/** Adds to the current entry what to restore when the browser comes back to it. */
export function noteSeen(what: Seen): void {
  note(what);
}

/** Records the position whenever scrolling ends. (Safari has the event `scrollend` only from 26.2 on.) */
export function noteScrolling(): void {
  let rest = 0;
  document.addEventListener("scroll", () => {
    clearTimeout(rest);
    rest = setTimeout(() => note({ scrolled: scrollY }), REST_MS);
  });
  addEventListener("pageshow", ({ persisted }) => {
    const { scrolled } = entry();
    if (persisted && scrolled !== undefined) setTimeout(() => scrollTo(0, scrolled)); // Safari scrolls to the focused field
  });
}

/** Records the scroll position and the focused picture when the answer is left. */
export function noteLeft(): void {
  noteSeen({
    scrolled: scrollY,
    focused: document.activeElement?.closest<HTMLElement>("#main [data-image]")?.dataset.image,
  });
}

/** What to restore of the current entry. */
export function seen(): Seen {
  return entry();
}

/** Adds an entry for an enlarged picture, or changes the picture of the current one. */
export function enterLarge(image_id: string): void {
  const address = `#${new URLSearchParams([...addressParameters(LARGE), [LARGE, image_id]])}`;
  if (entry().large) {
    history.replaceState(entry(), "", address);
    return;
  }
  settle();
  noteLeft();
  history.pushState({ ...entry(), large: true }, "", address);
}

/** The id of the picture to enlarge according to the address; null for none. */
export function wantedLarge(): string | null {
  return new URLSearchParams(location.hash.slice(1)).get(LARGE);
}

/** Turns the entry into that of the question alone, if the page was opened with the address of an enlarged picture. */
export function putQuestionBelow(): void {
  if (!entry().large) history.replaceState(entry(), "", questionAddress() || location.pathname);
}

/** Goes back from the entry of an enlarged picture, if it is current; only once even if called repeatedly. */
export function leaveLarge(): Promise<void> | null {
  if (leaving || !entry().large) return leaving;
  leaving = new Promise((resolve) => {
    const left = () => {
      leaving = null;
      resolve();
    };
    addEventListener("popstate", left, { once: true });
  });
  history.back();
  return leaving;
}

/** A key for the question's entry: the same for a question and for a picture enlarged over its results. */
export function place(): string {
  return `${questionAddress()} ${entry().file ?? ""}`;
}

/** Ends the typing: further input is a new question. */
export function settle(): void {
  note({ typing: false });
}

/** Merges this into the state of the current entry; only if it changes, since Safari limits the number of changes. */
function note(what: Entry): void {
  const [before, now] = [entry(), { ...entry(), ...what }];
  if (JSON.stringify(now) !== JSON.stringify(before)) history.replaceState(now, "");
}

/** The question of the current entry. */
export function current(): Question {
  const { file, title } = entry();
  const image = file === undefined ? undefined : files.get(file);
  const hash = addressParameters();
  for (const kind of ["pictures", "sentences"] as const) {
    const image_id = hash.get(STORED[kind]);
    if (image_id === null) continue;
    const words = kind === "pictures" ? (hash.get("q") ?? "") : "";
    if (image_id) return { kind, asked: { image_id }, title: title ?? "this one", words };
    if (image) return { kind, asked: { image }, title: title ?? image.name, words };
    return { kind: "text", text: "" }; // the file is lost, and its words alone would be another question
  }
  return { kind: "text", text: hash.get("q") ?? "" };
}

/** Whether the question is empty, so that the library is shown. */
export function isLibrary(question: Question): boolean {
  return question.kind === "text" && !question.text;
}

/** The address's parameters, of the question and its options, except for the one named. */
export function addressParameters(without = ""): URLSearchParams {
  const all = new URLSearchParams(location.hash.slice(1));
  all.delete(without);
  return all;
}

/** The fragment of the address without the enlarged picture. */
function questionAddress(): string {
  const all = addressParameters(LARGE);
  return `${all}` && `#${all}`;
}

function entry(): Entry {
  return (history.state as Entry | null) ?? {};
}

function entryOf(question: Question, typing: boolean): Entry {
  if (question.kind === "text") return { typing };
  const { asked, title } = question;
  return "image" in asked ? { title, file: keep(asked.image) } : { title };
}

/** Stores a file. Returns its key, which is unique among all pages of this tab. */
function keep(file: File): string {
  const name = `${performance.timeOrigin} ${files.size}`;
  files.set(name, file);
  return name;
}

function addressOf(question: Question, chosen: Chosen): string {
  const all = new URLSearchParams([...asAddressed(question), ...chosen]);
  return `${all}` ? `#${all}` : location.pathname;
}

function asAddressed(question: Question): Chosen {
  const said = question.kind === "text" ? question.text : question.words;
  const asked: Chosen = said ? [["q", said]] : [];
  if (question.kind === "text") return asked;
  return [[STORED[question.kind], "image_id" in question.asked ? question.asked.image_id : ""], ...asked];
}
