// Questions in the browser's history, so that Back goes to the one before, and an address is that of its question, with
// the options that it was asked with.

/** A picture to ask with: a file, or a stored one. */
export type Asked = { image: File } | { image_id: string };

/** A picture that others, or stored sentences, are compared with. The others may have to show something besides. */
export interface PictureQuestion {
  kind: "pictures" | "sentences";
  asked: Asked;
  title: string;
  words?: string;
}

/** A sentence, "" for the library; or a picture. */
export type Question = { kind: "text"; text: string } | PictureQuestion;

/** Options by the names that addresses give them. */
export type Chosen = [name: string, value: string][];

/** What was seen of an answer: how many `steps` of further results, `shown` of the library, `scrolled` where it was left,
 * by a button of the picture `focused`. */
interface Seen {
  steps?: number;
  shown?: number;
  scrolled?: number;
  focused?: string;
}

/**
 * What an entry of the history keeps: `typing` while its sentence may still grow, the place of a file among `files`,
 * `large` where a picture is shown large over what its question found, so that Back puts that away alone.
 */
interface Entry extends Seen {
  typing?: boolean;
  title?: string;
  file?: string;
  large?: boolean;
}

const LARGE = "picture"; // the parameter of an address that names the picture shown large
const REST_MS = 100; // after which scrolling is over
const files = new Map<string, File>(); // an address cannot hold them, so that a page that is loaded anew has none
let leaving: Promise<void> | null = null; // the entry of a picture shown large
const STORED = { pictures: "like", sentences: "sentences" } as const;

/** Makes a question the newest entry. One that is being typed takes the place of its own beginning, and any that of a
 * picture shown large, which nobody goes back to. */
export function remember(question: Question, chosen: Chosen, typing = false): void {
  const address = addressOf(question, chosen);
  if (questionAddress() === new URL(address, location.href).hash && !("asked" in question)) return;
  const goesOn = (typing && entry().typing) || entry().large;
  if (!goesOn) settle(); // one that is left is not typed any more, also if it did not rest
  history[goesOn ? "replaceState" : "pushState"](entryOf(question, typing), "", address);
}

/** Notes what was seen of the answer to the question that the browser is at, for when it comes back to it. */
export function noteSeen(what: Seen): void {
  note(what);
}

/** Has the place noted where scrolling rests; `scrollend` tells of that, too, but in Safari from 26.2 on alone. */
export function noteScrolling(): void {
  let rest = 0;
  document.addEventListener("scroll", () => {
    clearTimeout(rest);
    rest = setTimeout(() => note({ scrolled: scrollY }), REST_MS);
  });
  addEventListener("pageshow", ({ persisted }) => {
    const { scrolled } = entry();
    if (persisted && scrolled !== undefined) setTimeout(() => scrollTo(0, scrolled)); // Safari goes to the field in focus
  });
}

/** Notes where the answer is left. */
export function noteLeft(): void {
  noteSeen({
    scrolled: scrollY,
    focused: document.activeElement?.closest<HTMLElement>("#main [data-image]")?.dataset.image,
  });
}

/** What was noted. */
export function seen(): Seen {
  return entry();
}

/** Begins an entry for a picture shown large, or has the one that there is name another. */
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

/** The picture that the address wants to be shown large over what its question found. */
export function wantedLarge(): string | null {
  return new URLSearchParams(location.hash.slice(1)).get(LARGE);
}

/** Puts the entry of the question alone below that of a picture, where somebody came to its address at once. */
export function putQuestionBelow(): void {
  if (!entry().large) history.replaceState(entry(), "", questionAddress() || location.pathname);
}

/** Leaves the entry of a picture shown large, if the browser is at one: once, as often as that is wanted until it is left. */
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

/** The question's entry in short: the same for a question and a picture shown large over what it found. */
export function place(): string {
  return `${questionAddress()} ${entry().file ?? ""}`;
}

/** Ends the typing: what comes next is another question. */
export function settle(): void {
  note({ typing: false });
}

/** Has the entry that the browser is at keep this; what it keeps already costs nothing of the few changes that Safari takes. */
function note(what: Entry): void {
  const [before, now] = [entry(), { ...entry(), ...what }];
  if (JSON.stringify(now) !== JSON.stringify(before)) history.replaceState(now, "");
}

/** The question of the entry that the browser is at. */
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
    return { kind: "text", text: "" }; // the file is gone, and its words alone are another question
  }
  return { kind: "text", text: hash.get("q") ?? "" };
}

/** Whether it asks for nothing, which the library answers. */
export function isLibrary(question: Question): boolean {
  return question.kind === "text" && !question.text;
}

/** What the address says, of the question and of its options, and without the name given. */
export function addressParameters(without = ""): URLSearchParams {
  const all = new URLSearchParams(location.hash.slice(1));
  all.delete(without);
  return all;
}

/** The fragment of the address, as far as it says what is asked. */
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

/** The name under which a file is kept: one that no page of this tab gave before. */
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
