// The page: what is asked, and what is shown for it.
import { Adding } from "./adding";
import { ask, Latest } from "./api";
import { sideBySide } from "./comparing";
import { Detail } from "./detail";
import { onDrop } from "./dropping";
import { button, el, find } from "./dom";
import { Library } from "./library";
import type { CaptionHit, ImageAnswer, PictureHit, TextAnswer } from "./openapi";
import { SearchOptions } from "./options";
import { resultGrid, sentenceList, showWords, type Actions } from "./results";
import { startSession } from "./session";
import { counted, titleOf } from "./text";

const TYPING_MS = 200;
const K = 24;

const query = find<HTMLInputElement>("query");
const main = find("main");
const status = find("status");
const searches = new Latest();
const adding = new Adding(() => void refresh());
const detail = new Detail((hit) => void searchLike(hit));
const options = new SearchOptions(() => void searchText());
let typing = 0;

const actions: Actions = {
  open: (all, place) => detail.open(all, place),
  like: (hit) => void searchLike(hit),
};

function showHits(hits: PictureHit[], note: string): void {
  const { grid, words } = resultGrid(hits, actions);
  status.textContent = note;
  showWords(words);
  main.replaceChildren(grid);
}

function showBoth([first, second]: TextAnswer[]): void {
  if (!second) return showHits(first!.results, noteOf(first!));
  status.textContent = `${first!.model}: ${noteOf(first!)} ${second.model}: ${noteOf(second)}`;
  showWords(null);
  main.replaceChildren(sideBySide(first!, second, actions));
}

/** What an answer says besides its pictures. */
function noteOf(answer: TextAnswer): string {
  const notes = [];
  if (answer.matched === false || (!answer.results.length && answer.left_out))
    notes.push(`Nothing matches well.${answer.results.length ? " These come nearest:" : ""}`);
  else if (!answer.results.length) notes.push("Nothing was found.");
  else notes.push(`${counted(answer.results.length, "picture")}.`);
  if (answer.unknown_words.length) notes.push(`Not understood: ${answer.unknown_words.join(", ")}.`);
  for (const [word, other] of Object.entries(answer.read_as ?? {})) notes.push(`“${word}” was read as “${other}”.`);
  if (answer.note) notes.push(answer.note);
  return notes.join(" ");
}

async function searchText(): Promise<void> {
  const text = query.value.trim();
  history.replaceState(null, "", text ? `#${new URLSearchParams({ q: text })}` : location.pathname);
  if (!text) return refresh();
  const [first, second] = options.models;
  const json = {
    query: text,
    k: K,
    explain: true,
    sort: options.order,
    filter: options.filter,
    match: options.match,
    group_near_duplicates: options.groups,
  };
  await tried(
    searches.run(async (signal) => {
      const answers = [await ask<TextAnswer>("/search/text", { json: { ...json, model: first }, signal })];
      if (second) answers.push(await ask<TextAnswer>("/search/text", { json: { ...json, model: second }, signal }));
      return answers;
    }, showBoth),
  );
}

async function searchPicture(form: FormData, title: string): Promise<void> {
  form.set("target", "images");
  form.set("k", String(K));
  form.set("group_near_duplicates", String(options.groups));
  if (options.models[0]) form.set("model", options.models[0]);
  if (options.filter) form.set("filter", JSON.stringify(options.filter));
  await tried(
    searches.run(
      (signal) => ask<ImageAnswer>("/search/image", { form, signal }),
      (answer) => {
        showHits(answer.results as PictureHit[], answer.note ?? `Pictures like ${title}.`);
        main.prepend(el("p", {}, button("Sentences for it", () => void searchSentences(form, title))));
      },
    ),
  );
}

/** Shows the stored captions that describe a picture best, or why there are none. */
async function searchSentences(form: FormData, title: string): Promise<void> {
  form.set("target", "captions");
  form.delete("group_near_duplicates");
  await tried(
    searches.run(
      (signal) => ask<ImageAnswer>("/search/image", { form, signal }),
      (answer) => {
        const hits = answer.results as CaptionHit[];
        status.textContent = answer.note ?? (hits.length ? `Sentences for ${title}.` : "Nothing was found.");
        showWords(null);
        main.replaceChildren(
          el("p", {}, button("Pictures like it", () => void searchPicture(form, title))),
          sentenceList(hits),
        );
      },
    ),
  );
}

function searchLike(hit: { image_id: string; captions: string[]; filename: string }): Promise<void> {
  const form = new FormData();
  form.set("image_id", hit.image_id);
  return searchPicture(form, titleOf(hit));
}

function searchFile(file: File): Promise<void> {
  const form = new FormData();
  form.set("image", file);
  return searchPicture(form, file.name || "the one you pasted");
}

/** Asks again what was asked; without a question, shows the library, or greets where it is empty. */
async function refresh(): Promise<void> {
  if (query.value.trim()) return searchText();
  showWords(null);
  const { filter, order } = options;
  const library = new Library({ sort: order === "date" ? "date" : "latest", filter }, (image) => void searchLike(image));
  await tried(
    searches.run(
      (signal) => library.start(signal),
      (page) => {
        const empty = !page.images.length;
        library.show(page);
        status.textContent = empty ? (filter ? "No picture passes the filter." : "") : "";
        main.replaceChildren(empty && !filter ? greeting() : library.element);
      },
    ),
  );
}

function greeting(): HTMLElement {
  return el(
    "section",
    { class: "greeting" },
    el("h2", {}, "No pictures yet"),
    el("p", {}, "Drop photographs or whole folders anywhere on this page, then ask for what is in them."),
    button("Add pictures", () => adding.open()),
  );
}

async function tried(work: Promise<void>): Promise<void> {
  main.setAttribute("aria-busy", "true");
  try {
    await work;
  } catch (fault) {
    status.textContent = fault instanceof Error ? fault.message : String(fault);
  } finally {
    main.removeAttribute("aria-busy");
  }
}

async function start(): Promise<void> {
  query.value = new URLSearchParams(location.hash.slice(1)).get("q") ?? "";
  query.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => void searchText(), TYPING_MS);
  });
  find("search").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    void searchText();
  });
  find<HTMLInputElement>("like-file").addEventListener("change", (event) => {
    const file = (event.target as HTMLInputElement).files?.[0];
    if (file) void searchFile(file);
  });
  find("show-add").addEventListener("click", () => adding.open());
  find("show-library").addEventListener("click", () => ((query.value = ""), void searchText()));
  onDrop((file) => void searchFile(file), (files) => void adding.take(files));
  query.focus();
  await startSession();
  await options.load();
  if (!searches.begun && !typing) await refresh(); // somebody may have typed meanwhile
}

void tried(start());
