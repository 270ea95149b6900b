// The page: what is asked, and what is shown for it.
import { Adding } from "./adding";
import { ask, canBeTriedAgain, isMissing, Latest, Unreachable } from "./api";
import { areScoredAlike, askedPicture, LikePicture } from "./asked";
import { infoOf } from "./changes";
import { type Ranking, sideBySide } from "./comparing";
import { Deleted } from "./deleted";
import { Detail, type Further, type Shown } from "./detail";
import { button, find, isStillAt, refill, renew, workButton } from "./dom";
import { onDrop } from "./dropping";
import { greeting } from "./greeting";
import {
  addressParameters,
  current,
  isLibrary,
  noteLeft,
  noteScrolling,
  noteSeen,
  type PictureQuestion,
  putQuestionBelow,
  type Question,
  remember,
  seen,
  settle,
  wantedLarge,
} from "./history";
import { Library } from "./library";
import { type HowAsked, noteOfIdle, noteOfPictures, noteOfSentences, noteOfText } from "./notes";
import type { CaptionHit, ImageAnswer, TextAnswer } from "./openapi";
import { SearchOptions, Unreadable } from "./options";
import { pictureForm, textRequest } from "./requests";
import { type Actions, resultGrid, sentenceList, showWords } from "./results";
import { checkSession, keepPictures, mayChange, offerKeys } from "./session";
import { onTag } from "./tagged";
import { asTaken, inLibrary, titleOf, withoutMisleadingProbabilities, withSimilarities } from "./text";
import { tried } from "./trying";
import { checkThere } from "./uploads";

const TYPING_MS = 200;
const SETTLED_MS = 3000; // after which what is typed is another question, and Back goes to the one before
const K = 24;
const MOST = 100; // that the service gives

const query = find<HTMLInputElement>("query");
const main = find("main");
const status = find("status");
const searches = new Latest();
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
let found: Shown[] = []; // what can be shown large
let typing = 0;
let settling = 0;
let k = K; // results that are asked for
let again = () => begin(); // what was asked last, asked with the options as they are then
let latest: Question | null = null; // that was asked
let answered: Question | null = null; // by what is shown
let unlimited: Question | null = null; // that was asked without the limit of the score which the one before had
let prepared: Promise<void> | null = null;
let isRefreshing = false; // soon: changes meanwhile are part of it

const actions: Actions = {
  open: (all, place) => detail.open(all, place, all === found ? furtherResults() : null),
  like: (hit) => void searchLike(hit),
};

function show([first, second]: Ranking[], note: string, ...above: HTMLElement[]): void {
  status.textContent = note;
  answered = latest;
  found = first!.results;
  if (second) {
    showWords(null);
    const shown = Math.max(first!.results.length, second.results.length);
    refill(main, ...above, sideBySide(first!, second, k, actions), ...more(shown));
    return;
  }
  const { grid, words } = resultGrid(first!.results, actions);
  showWords(words);
  refill(main, ...above, grid, ...more(first!.results.length));
}

/** Asks for as many results as there may be. Error where they cannot be had: those that are shown stay. */
async function loadMost(): Promise<void> {
  const [question, before] = [latest!, seen().many ? MOST : K];
  k = MOST;
  try {
    await answerAsIs(question);
  } catch (fault) {
    if (question === latest) k = before;
    throw fault;
  }
  if (question === latest) noteSeen({ many: true });
}

/** The results that follow those that are shown. */
function furtherResults(): Further {
  const load = async () => {
    await loadMost();
    return found;
  };
  const question = answered; // to which these belong, also once another one is asked
  return { hasMore: () => question === latest && question === answered && k !== MOST && found.length >= k, load };
}

/** A button for further results, where there may be some. */
function more(shown: number): HTMLElement[] {
  if (k === MOST || shown < k) return [];
  const ask = async () => {
    await tried(
      loadMost,
      "Searching…",
      () => {},
      () => void ask(),
    );
    const next = main.querySelectorAll("li")[shown];
    if (next && [document.body, main].includes(document.activeElement as HTMLElement))
      (next.querySelector("button") ?? main).focus({ preventScroll: !next.querySelector("button") });
  };
  return [workButton("Show more", ask, { class: "more" })];
}

/** Asks a new question, whose answer begins at the top. */
async function askAnew(question: Question, isTyped = false): Promise<void> {
  clearTimeout(typing);
  if (!isTyped) clearTimeout(settling);
  noteLeft();
  const staysSo = isTyped && unlimited !== null && unlimited === latest; // a sentence that grows
  if (areScoredAlike(question, current()) ? staysSo : options.forgetLeastScore()) unlimited = question;
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
  unlimited = null;
  noteLeft();
  remember(current(), options.chosen, isTyped);
  noteSeen({ many: k === MOST });
  if (isTyped) settling = setTimeout(settle, SETTLED_MS);
  void again();
}

/** Answers a question that stands in the history, with few results at first. */
function answer(question: Question): Promise<void> {
  k = seen().many ? MOST : K;
  latest = question;
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
    searches.end(); // what was asked before, where this could not be asked at all
    const comesLater = fault instanceof Unreadable || canBeTriedAgain(fault);
    if (isLibrary(question) && library.element.isConnected && comesLater) return; // it comes to no harm
    const kept = fault instanceof Unreadable ? main.querySelectorAll(":scope > :not(.asked)") : []; // though it answers another one
    if (!kept.length) {
      showWords(null);
      answered = null;
    }
    const above = comesLater && question.kind === "pictures" ? [like.above(question)] : []; // where words besides may be written meanwhile
    refill(main, ...above, ...kept);
  };
  return tried(work, waiting, clear, () => void again());
}

function answerAsIs(question: Question): Promise<void> {
  if (question.kind === "text") return searchText(question.text);
  const { asked } = question;
  const why = async (fault: unknown) => {
    if (isMissing(fault) && "image_id" in asked) await infoOf(asked.image_id); // which says so where it was deleted
    if (fault instanceof Unreachable && "image" in asked) await checkThere(asked.image);
    throw fault;
  };
  return (question.kind === "pictures" ? searchPicture(question) : searchSentences(question)).catch(why);
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
  if (question !== latest) return;
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
    const at = found.findIndex((one) => one.image_id === image_id);
    const all = at < 0 ? [await infoOf(image_id)] : found;
    if (wantedLarge() !== image_id) return; // somebody went on meanwhile
    putQuestionBelow();
    const further = isLibrary(current()) ? library.further() : furtherResults();
    detail.open(all, Math.max(at, 0), at < 0 ? null : further);
  };
  const giveUp = (fault: unknown) => void (canBeTriedAgain(fault) || putQuestionBelow());
  return tried(work, "", giveUp, () => void openWanted());
}

/** One request, or two of different models: each of the models chosen answers. */
function byEachModel<T>(request: (model: string | null) => Promise<T>): Promise<T[]> {
  const [first, second] = options.models;
  const answers = request(first).then((answer) => [answer]);
  return second ? answers.then(async (found) => [...found, await request(second)]) : answers;
}

/** How a question is asked just now. Error where an option has a value that is none. */
function howAsked(): HowAsked {
  const { match, filter, cutOff } = options;
  const isShortened = query.value.trim() !== asTaken(query.value);
  const isCutOffGone = latest !== null && latest === unlimited;
  const idle = options.idleFor(current().kind);
  return { k, match, isShortened, isFiltered: filter !== null, cutOff, isCutOffGone, idle, mayChange: mayChange() };
}

async function searchText(text: string): Promise<void> {
  if (!text) return showLibrary();
  const [how, json] = [howAsked(), textRequest(text, options, k)];
  await searches.run(
    (signal) => byEachModel((model) => ask<TextAnswer>("/search/text", { json: { ...json, model }, signal })),
    (answers) => {
      const ofEach = answers.map((one) => noteOfText(one, how));
      const notes = answers.length > 1 ? answers.map((one, place) => `${one.model}: ${ofEach[place]}`) : ofEach;
      show(answers.map(withoutMisleadingProbabilities), notes.join(" "));
    },
  );
}

async function searchPicture(question: PictureQuestion): Promise<void> {
  const [how, form] = [howAsked(), (model: string | null) => pictureForm(question, model, options, k)];
  await searches.run(
    (signal) => byEachModel((model) => ask<ImageAnswer>("/search/image", { form: form(model), signal })),
    (answers) =>
      show(answers.map(withSimilarities), noteOfPictures(answers, question.title, how), like.above(question)),
  );
}

/** Shows the stored captions that describe a picture best, or why there are none. */
async function searchSentences(question: PictureQuestion): Promise<void> {
  const { asked, title } = question;
  const [how, form] = [howAsked(), pictureForm(question, options.models[0], options, k)];
  await searches.run(
    (signal) => ask<ImageAnswer>("/search/image", { form, signal }),
    (answer) => {
      const hits = answer.results as CaptionHit[];
      status.textContent = noteOfSentences(answer, title, how);
      answered = latest;
      showWords(null);
      refill(
        main,
        askedPicture(
          asked,
          title,
          button("Pictures like it", () => void askAnew({ kind: "pictures", asked, title })),
        ),
        sentenceList(hits),
        ...more(hits.length),
      );
    },
  );
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
  await searches.run(
    (signal) => library.load(listed, signal),
    (page) => {
      library.show(listed, page);
      answered = latest;
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
      found = library.pictures;
      void deleted.refresh();
    },
  );
}

/** Shows what became of the library meanwhile, where it is what is looked at, once what is being asked is answered. */
async function refreshLibrary(): Promise<void> {
  if (isRefreshing) return;
  isRefreshing = true;
  await searches.settled();
  isRefreshing = false;
  const question = current();
  if (!document.hidden && searches.begun && isLibrary(question)) void attempt(question, "");
}

/** What is written in the line. */
function written(): Question {
  return { kind: "text", text: asTaken(query.value) };
}

function showNoQuestion(): void {
  query.value = "";
  void askAnew(written());
}

function start(): void {
  const first = current();
  settle();
  if (first.kind === "text") query.value = first.text;
  if (!matchMedia("(min-width: 30rem)").matches) query.placeholder = "Search pictures"; // the other would be cut
  options.restore(addressParameters());
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
  addEventListener("popstate", () => {
    if (wantedLarge() !== null || !detail.closesFor()) void goTo(current());
    else noteSeen({ many: k === MOST, shown: library.shown }); // as were asked for while one was shown large
  });
  noteScrolling();
  document.addEventListener("visibilitychange", () => void refreshLibrary());
  const chosen = find<HTMLInputElement>("like-file");
  chosen.addEventListener("change", () => {
    const file = chosen.files?.[0];
    chosen.value = ""; // the same file can be chosen again
    if (file) void searchFile(file);
  });
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
    if (searches.begun || typing) return;
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
