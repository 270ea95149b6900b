// The page: what is asked, by what is written, chosen or gone back to, and what is shown for it.
import { Adding } from "./adding";
import { Answers } from "./answers";
import { canBeTriedAgain } from "./api";
import { areScoredAlike, LikePicture } from "./asked";
import { infoOf } from "./changes";
import { Unreadable } from "./cutoff";
import { Deleted } from "./deleted";
import { Detail, type Shown } from "./detail";
import { find, isStillAt, refill, renew } from "./dom";
import { onDrop } from "./dropping";
import { greeting } from "./greeting";
import {
  addressParameters,
  current,
  isLibrary,
  noteLeft,
  noteScrolling,
  noteSeen,
  putQuestionBelow,
  type Question,
  remember,
  seen,
  settle,
  wantedLarge,
} from "./history";
import { Library } from "./library";
import { noteOfIdle } from "./notes";
import { SearchOptions } from "./options";
import { showWords } from "./results";
import { checkSession, keepPictures, mayChange, offerKeys } from "./session";
import { onTag } from "./tagged";
import { asTaken, inLibrary, titleOf } from "./text";
import { tried } from "./trying";

const TYPING_MS = 200;
const SETTLED_MS = 3000; // after which what is typed is another question, and Back goes to the one before

const query = find<HTMLInputElement>("query");
const main = find("main");
const status = find("status");
const adding = new Adding(
  () => void refreshLibrary(),
  () => void again(),
);
const detail = new Detail(
  (picture) => void searchLike(picture),
  () => void again(),
);
const options = new SearchOptions(optionsChanged);
const library = new Library(
  (image) => void searchLike(image),
  (...shown) => detail.open(...shown),
  () => void refreshLibrary(),
);
const like = new LikePicture((question) => void askAnew(question));
const deleted = new Deleted((image_id) => {
  library.forget(image_id);
  void refreshLibrary();
});
const greeted = greeting(() => adding.open());
const answers = new Answers(options, like, {
  open: (...shown) => detail.open(...shown),
  like: (hit) => void searchLike(hit),
  ask: (question) => void askAnew(question),
});
let typing = 0;
let settling = 0;
let again = () => begin(); // what was asked last, asked with the options as they are then
let prepared: Promise<void> | null = null;
let isRefreshing = false; // soon: changes meanwhile are part of it

/** Asks a new question, whose answer begins at the top. */
async function askAnew(question: Question, isTyped = false): Promise<void> {
  clearTimeout(typing);
  if (!isTyped) clearTimeout(settling);
  noteLeft();
  const staysSo = isTyped && answers.isUnlimited; // a sentence that grows
  if (areScoredAlike(question, current()) ? staysSo : options.forgetLeastScore()) answers.unlimited = question;
  remember(question, options.chosen, isTyped);
  if (question.kind !== "text") query.value = "";
  if (!isTyped) scrollTo(0, 0);
  await answer(question);
  if (document.activeElement === document.body) main.focus({ preventScroll: true }); // what asked is gone
}

/**
 * Asks for what was asked last, with other options. The history keeps those that are typed as it keeps a sentence that
 * is, and each choice as a step of its own.
 */
function optionsChanged(isTyped: boolean): void {
  clearTimeout(settling);
  answers.unlimited = null;
  noteLeft();
  remember(current(), options.chosen, isTyped);
  noteSeen({ steps: answers.steps });
  if (isTyped) settling = setTimeout(settle, SETTLED_MS);
  void again();
}

/** Answers a question that stands in the history, with few results at first. */
function answer(question: Question): Promise<void> {
  answers.begin(question);
  adding.fold(!isLibrary(question));
  like.begin(question);
  options.lookAt(isLibrary(question) ? "library" : question.kind);
  again = () => attempt(question, isLibrary(question) ? "Loading…" : "Searching…");
  const about = question.kind === "text" ? question.text : question.title;
  document.title = about ? `${about} · Regard` : "Regard";
  return again();
}

/** Answers a question, or tells why not. What stood there answers another one, or the same with other options. */
function attempt(question: Question, waiting: string): Promise<void> {
  const work = async () => {
    await answerAsIs(question);
    void prepare().catch(() => {}); // what failed at the start
  };
  const clear = (fault: unknown) => {
    answers.searches.end(); // what was asked before, where this could not be asked at all
    const comesLater = fault instanceof Unreadable || canBeTriedAgain(fault);
    if (isLibrary(question) && library.element.isConnected && comesLater) return; // it comes to no harm
    const kept = fault instanceof Unreadable ? main.querySelectorAll(":scope > :not(.asked)") : []; // though it answers another one
    if (!kept.length) {
      showWords(null);
      answers.forget();
    }
    const above = comesLater && question.kind === "pictures" ? [like.above(question)] : []; // where words besides may be written meanwhile
    refill(main, ...above, ...kept);
  };
  return tried(work, waiting, clear, () => void again());
}

function answerAsIs(question: Question): Promise<void> {
  return isLibrary(question) ? showLibrary() : answers.ask(question);
}

/** Shows what the entry of the history that the browser came to asks. */
async function goTo(question: Question): Promise<void> {
  clearTimeout(typing);
  clearTimeout(settling);
  settle();
  detail.close(); // what it shows belongs to the question that was left
  query.value = question.kind === "text" ? question.text : "";
  options.restore(addressParameters());
  await answerWhereLeft(question);
}

/** Answers the question of an entry of the history, at the place where it was left. */
async function answerWhereLeft(question: Question): Promise<void> {
  const { scrolled, focused } = seen();
  await answer(question);
  if (question !== answers.latest) return;
  if (scrolled !== undefined) scrollTo(0, scrolled);
  if (focused && isStillAt(main))
    main.querySelector<HTMLElement>(`[data-image="${focused}"] button`)?.focus({ preventScroll: true });
  await openWanted();
}

/** Shows the picture large that the address names, over what its question found. */
async function openWanted(): Promise<void> {
  const image_id = wantedLarge();
  if (image_id === null) return;
  const work = async () => {
    const at = answers.found.findIndex((one) => one.image_id === image_id);
    const all = at < 0 ? [await infoOf(image_id)] : answers.found;
    if (wantedLarge() !== image_id) return; // somebody went on meanwhile
    putQuestionBelow();
    const further = isLibrary(current()) ? library.further() : answers.further();
    detail.open(all, Math.max(at, 0), at < 0 ? null : further);
  };
  const giveUp = (fault: unknown) => void (canBeTriedAgain(fault) || putQuestionBelow());
  return tried(work, "", giveUp, () => void openWanted());
}

function searchLike(hit: Shown): Promise<void> {
  return askAnew({ kind: "pictures", asked: { image_id: hit.image_id }, title: titleOf(hit) });
}

function searchFile(image: File): Promise<void> {
  return askAnew({ kind: "pictures", asked: { image }, title: image.name || "the one you pasted" });
}

/** Without a question: the library, or a greeting where it is empty. What is on the page already changes in place. */
async function showLibrary(): Promise<void> {
  const { filter, order } = options;
  const listed = { sort: order === "date" ? "date" : "latest", filter };
  await answers.run(
    (signal) => library.load(listed, signal),
    (page) => {
      library.show(listed, page);
      showWords(null);
      const isEmpty = !page.images.length;
      renew(
        status,
        [inLibrary(page, filter !== null), noteOfIdle(options.idleFor("library"), true)].filter(Boolean).join(" "),
      );
      const shown = isEmpty && !filter && !library.isHeld ? greeted : library.element;
      if (!shown.isConnected) {
        refill(main, shown);
        main.append(deleted.element);
      }
      void deleted.refresh();
      return library.pictures;
    },
  );
}

/** Shows what became of the library meanwhile, where it is what is looked at, once what is being asked is answered. */
async function refreshLibrary(): Promise<void> {
  if (isRefreshing) return;
  isRefreshing = true;
  await answers.searches.settled();
  isRefreshing = false;
  const question = current();
  if (!document.hidden && answers.searches.begun && isLibrary(question)) void attempt(question, "");
}

/** What is written in the line. */
function written(): Question {
  return { kind: "text", text: asTaken(query.value) };
}

function showNoQuestion(): void {
  query.value = "";
  void askAnew(written());
}

/** Asks what is written, while it is and once it is sent. */
function listenToQuery(): void {
  query.addEventListener("input", () => {
    clearTimeout(typing);
    clearTimeout(settling);
    typing = setTimeout(() => void askAnew(written(), true), TYPING_MS);
    settling = setTimeout(settle, SETTLED_MS);
  });
  find("search").addEventListener("submit", (event) => {
    event.preventDefault();
    void askAnew(written(), true);
    settle();
  });
  const chosen = find<HTMLInputElement>("like-file");
  chosen.addEventListener("change", () => {
    const file = chosen.files?.[0];
    chosen.value = ""; // the same file can be chosen again
    if (file) void searchFile(file);
  });
}

function listenToHistory(): void {
  addEventListener("popstate", () => {
    if (wantedLarge() !== null || !detail.closesFor()) void goTo(current());
    else noteSeen({ steps: answers.steps, shown: library.shown }); // as were asked for while one was shown large
  });
  noteScrolling();
  document.addEventListener("visibilitychange", () => void refreshLibrary());
}

/** Follows links and buttons that lead from one view to another. */
function listenToViews(): void {
  find("skip").addEventListener("click", (event) => {
    event.preventDefault(); // an address of its own would be another question
    main.focus();
  });
  find("show-add").addEventListener("click", () => adding.open());
  find("show-library").addEventListener("click", showNoQuestion);
  find("home").addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // wanted in another tab or window
    event.preventDefault(); // to load the page anew would end what is being taken in
    options.restore(new URLSearchParams());
    showNoQuestion();
  });
}

function start(): void {
  const first = current();
  settle();
  if (first.kind === "text") query.value = first.text;
  if (!matchMedia("(min-width: 30rem)").matches) query.placeholder = "Search pictures"; // the other would be cut
  options.restore(addressParameters());
  listenToQuery();
  listenToHistory();
  listenToViews();
  onDrop({
    search: (file) => void searchFile(file),
    add: (files, unread) => void adding.take(files, unread),
    mayAdd: mayChange,
    begin: () => detail.leave(),
  });
  onTag((tag) => {
    if (options.addTag(...tag)) detail.close();
    else void detail.leave();
  });
  offerKeys(() => void again());
  keepPictures();
  query.focus();
  void again();
}

/** Learns who looks, and which models can be asked; once, unless it fails. */
function prepare(): Promise<void> {
  const learn = async () => {
    await checkSession();
    await options.load();
  };
  const forget = (fault: unknown) => {
    prepared = null;
    throw fault;
  };
  prepared ??= learn().catch(forget);
  return prepared;
}

/** Answers what the address asks, unless somebody typed meanwhile. */
function begin(): Promise<void> {
  const work = async () => {
    await prepare();
    if (answers.searches.begun || typing) return;
    await answerWhereLeft(current());
  };
  return tried(
    work,
    "",
    () => {},
    () => void again(),
  );
}

start();
