// The page: it asks questions from the query field, controls and the history, and shows the answers.
import { Adding } from "./adding";
import { Answers } from "./answers";
import { canBeTriedAgain } from "./api";
import { areScoredAlike, LikePicture } from "./asked";
import { Browse } from "./browse";
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
import { Standstill } from "./standstill";
import { onTag } from "./tagged";
import { asTaken, inLibrary, titleOf } from "./text";
import { tried } from "./trying";
import { awaitPictures } from "./unmade";

const TYPING_MS = 200;
const SETTLED_MS = 3000; // pause after which further typing is a new question with its own history entry

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
const standstill = new Standstill();
const like = new LikePicture((question) => void askAnew(question));
const deleted = new Deleted((image_id) => {
  library.forget(image_id);
  void refreshLibrary();
});
const browse = new Browse(
  (period) => options.choosePeriod(period),
  () => options.period,
);
const greeted = greeting(() => adding.open());
const answers = new Answers(options, like, {
  open: (...shown) => detail.open(...shown),
  like: (hit) => void searchLike(hit),
  ask: (question) => void askAnew(question),
  again: () => void again(),
});
let typing = 0;
let settling = 0;
let again = () => begin(); // asks the last question again, with the options at that time
let prepared: Promise<void> | null = null;
let isRefreshing = false; // a refresh is scheduled, which will include changes until then

/** Asks a new question, whose answer begins at the top. */
async function askAnew(question: Question, isTyped = false): Promise<void> {
  clearTimeout(typing);
  if (!isTyped) clearTimeout(settling);
  noteLeft();
  const staysSo = isTyped && answers.isUnlimited; // the same sentence, still being typed
  if (areScoredAlike(question, current()) ? staysSo : options.forgetLeastScore()) answers.unlimited = question;
  remember(question, options.chosen, isTyped);
  if (!isTyped) {
    query.value = question.kind === "text" ? question.text : "";
    scrollTo(0, 0);
  }
  await answer(question);
  if (document.activeElement === document.body) main.focus({ preventScroll: true }); // the focused element was removed
}

/**
 * Asks the last question again, with other options. In the history, typed options are treated like a sentence being
 * typed; each other choice is a step of its own.
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

/** Answers the question of the current history entry, with few results at first. */
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

/** Answers a question, or shows why that failed; then previous results are removed unless they still make sense. */
function attempt(question: Question, waiting: string): Promise<void> {
  const work = async () => {
    await answerAsIs(question);
    void prepare().catch(() => {}); // if it failed at the start
  };
  const clear = (fault: unknown) => {
    answers.searches.end(); // the previous request, if this one was not even sent
    const comesLater = fault instanceof Unreadable || canBeTriedAgain(fault);
    if (isLibrary(question) && library.element.isConnected && comesLater) return; // the library is still valid
    const kept = fault instanceof Unreadable ? main.querySelectorAll(":scope > :not(.asked)") : []; // although they answer another question
    if (!kept.length) {
      showWords(null);
      answers.forget();
    }
    const above = comesLater && question.kind === "pictures" ? [like.above(question)] : []; // its field can be used meanwhile
    refill(main, ...above, ...kept);
  };
  return tried(work, waiting, clear, () => void again());
}

function answerAsIs(question: Question): Promise<void> {
  return isLibrary(question) ? showLibrary() : answers.ask(question);
}

/** Shows the question of the history entry that the browser came to. */
async function goTo(question: Question): Promise<void> {
  clearTimeout(typing);
  clearTimeout(settling);
  settle();
  detail.close(); // what it shows belongs to the question that was left
  query.value = question.kind === "text" ? question.text : "";
  options.restore(addressParameters());
  await answerWhereLeft(question);
}

/** Answers the question of a history entry, and restores scroll position and focus. */
async function answerWhereLeft(question: Question): Promise<void> {
  const { scrolled, focused } = seen();
  await answer(question);
  if (question !== answers.latest) return;
  if (scrolled !== undefined) scrollTo(0, scrolled);
  if (focused && isStillAt(main))
    main.querySelector<HTMLElement>(`[data-image="${focused}"] button`)?.focus({ preventScroll: true });
  await openWanted();
}

/** Enlarges the picture that the address names, over its question's results. */
async function openWanted(): Promise<void> {
  const image_id = wantedLarge();
  if (image_id === null) return;
  const work = async () => {
    const at = answers.found.findIndex((one) => one.image_id === image_id);
    const all = at < 0 ? [await infoOf(image_id)] : answers.found;
    if (wantedLarge() !== image_id) return; // the user moved on meanwhile
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

/** Shows the library, or a greeting if it is empty. A library on the page is updated in place. */
async function showLibrary(): Promise<void> {
  const { filter, order } = options;
  const listed = { sort: order === "date" ? "date" : "latest", filter };
  await answers.run(
    async (signal) => {
      const page = await library.load(listed, signal);
      return { page, standing: page.queued ? await standstill.reason(`${page.total} ${page.queued}`) : "" };
    },
    ({ page, standing }) => {
      library.show(listed, page);
      showWords(null);
      const isEmpty = !page.images.length;
      renew(
        status,
        [inLibrary(page, filter !== null), standing, noteOfIdle(options.idleFor("library"), true)]
          .filter(Boolean)
          .join(" "),
      );
      const shown = isEmpty && !filter && !library.isHeld ? greeted : library.element;
      if (!shown.isConnected) refill(main, ...(shown === greeted ? [] : [browse.element]), shown, deleted.element);
      void browse.refresh();
      void deleted.refresh();
      return library.pictures;
    },
  );
}

/** Refreshes the library after running requests, if it is shown. */
async function refreshLibrary(): Promise<void> {
  if (isRefreshing) return;
  isRefreshing = true;
  await answers.searches.settled();
  isRefreshing = false;
  const question = current();
  if (!document.hidden && answers.searches.begun && isLibrary(question)) void attempt(question, "");
}

/** The question in the query field. */
function written(): Question {
  return { kind: "text", text: asTaken(query.value) };
}

function showNoQuestion(): void {
  query.value = "";
  void askAnew(written());
}

/** Asks the typed question, while typing and on submission. */
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
    else noteSeen({ steps: answers.steps, shown: library.shown }); // loaded while a picture was enlarged
  });
  noteScrolling();
  document.addEventListener("visibilitychange", () => void refreshLibrary());
}

/** Handles links and buttons that lead from one view to another. */
function listenToViews(): void {
  find("skip").addEventListener("click", (event) => {
    event.preventDefault(); // its address would be another question
    main.focus();
  });
  find("show-add").addEventListener("click", () => adding.open());
  find("show-library").addEventListener("click", showNoQuestion);
  find("home").addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // opens another tab or window
    event.preventDefault(); // reloading the page would end running uploads
    options.restore(new URLSearchParams());
    showNoQuestion();
  });
}

function start(): void {
  find("unstarted").remove();
  const first = current();
  settle();
  if (first.kind === "text") query.value = first.text;
  if (!matchMedia("(min-width: 30rem)").matches) query.placeholder = "Search pictures"; // the longer one would be cut off
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
  awaitPictures();
  query.focus();
  void again();
}

/** Loads the session and the models, once unless it fails. */
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

/** Answers the question in the address, unless the user typed meanwhile. */
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
