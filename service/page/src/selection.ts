// Several pictures at once, in the library or among results: selecting, tagging, downloading, deleting, undo.
import { ask, canBeTriedAgain, isMissing, isPassing, pause } from "./api";
import { button, el, find, onEnterInList, renew, workButton } from "./dom";
import { changedTags } from "./lines";
import type { ImageListed } from "./openapi";
import { saveOriginals } from "./original";
import type { Pickable } from "./picking";
import { counted, isolated, messageOf } from "./text";

const ATTEMPTS = 5; // while the service is busy or down
const GONE = "somebody deleted it meanwhile";
const CHANGED = "its tag is another by now";

type Tags = ReturnType<typeof changedTags>;

export class Selection {
  /** The button that begins; to be shown above the pictures. */
  readonly begin = button("Select several", () => this.#turn(true), { class: "link" });
  readonly #count = el("span", { role: "status" });
  readonly #progress = el("span", { class: "quiet" }); // no status role: screen readers should not announce each step
  readonly #told = el("span", { role: "status" });
  readonly #undo = el("span");
  readonly #tag = el("input", {
    type: "text",
    placeholder: "album: Summer",
    list: "tags", // existing tags, to keep spellings consistent
    "aria-label": "Tag for those selected",
    autocapitalize: "none",
  });
  readonly #add = el("button", { type: "submit" }, "Add tag");
  readonly #download = button("Download", () => void this.#work(() => this.#save()));
  readonly #remove = button("Delete", () => void this.#work(() => this.#delete()));
  readonly #bar = el(
    "div",
    { class: "actions", hidden: true, role: "group", "aria-label": "Pictures selected" },
    this.#count,
    button("All shown", () => this.#chooseAll()),
    el("form", { onsubmit: (event: SubmitEvent) => this.#submit(event) }, this.#tag, this.#add),
    this.#download,
    this.#remove,
    button("Done", () => this.#turn(false)),
    this.#progress,
  );
  #grid: HTMLElement | null = null;
  #cards: () => Pickable[] = () => [];
  #last: Pickable | null = null; // the card toggled last, where a range starts
  #isShift = false; // state at the last key: clicks by keys lack it in Firefox
  #isBusy = false;
  readonly element = el("div", { class: "selection change" }, this.#bar, el("p", {}, this.#told, " ", this.#undo));

  /** `onchanged` is called after changes and deletions of cards. */
  constructor(private readonly onchanged: (changed: Pickable[]) => void) {
    onEnterInList(this.#tag, () => this.#add.click()); // nothing while it is disabled
    for (const kind of ["keydown", "keyup"] as const)
      document.addEventListener(kind, ({ shiftKey }) => (this.#isShift = shiftKey));
  }

  get #isOn(): boolean {
    return !this.#bar.hidden;
  }

  /**
   * Selects among the cards of this grid from now on; `cards` returns them in order. Pictures that were selected in the
   * previous grid stay so.
   */
  over(grid: HTMLElement, cards: () => Pickable[]): void {
    const chosen = new Set(this.#chosenCards().map(({ image_id }) => image_id));
    const last = this.#last?.image_id;
    [this.#grid, this.#cards] = [grid, cards];
    for (const card of cards()) card.pick.checked = chosen.has(card.image_id);
    this.#last = cards().find(({ image_id }) => image_id === last) ?? null;
    grid.classList.toggle("selecting", this.#isOn);
    this.begin.hidden = this.#isOn;
    this.begin.style.visibility = "";
    grid.addEventListener("click", (event) => {
      const card = this.#cards().find(({ pick }) => pick === event.target);
      if (card) this.#chosen(card, event.shiftKey || (!event.detail && this.#isShift));
    });
    this.recount();
  }

  /** Ends the selection, since other pictures will be shown. A focus in it goes to them. */
  end(): void {
    if ([this.begin, this.element].some((one) => one.contains(document.activeElement)))
      find("main").focus({ preventScroll: true });
    this.#tag.value = "";
    this.#switch(false);
    this.begin.style.visibility = "hidden"; // until they are; it keeps its room, so that the present ones stay in place
    [this.#grid, this.#cards] = [null, () => []];
  }

  /** Updates the count and the cards after the list has changed; what needs a selection is disabled without one. */
  recount(): void {
    for (const card of this.#cards()) card.showChoice(this.#isOn);
    const all = this.#cards().filter(({ canBeChosen }) => canBeChosen);
    const num = all.filter(({ pick }) => pick.checked).length;
    renew(this.#count, `${num} of ${all.length} shown selected`);
    if (this.#isBusy) return; // the pressed button keeps the focus
    for (const one of [this.#add, this.#download, this.#remove]) {
      if (!num && document.activeElement === one) this.#focusBar();
      one.disabled = !num;
    }
  }

  #focusBar(): void {
    this.#bar.querySelector("button")!.focus({ preventScroll: true });
  }

  #switch(on: boolean): void {
    this.#grid?.classList.toggle("selecting", on);
    [this.begin.hidden, this.#bar.hidden] = [on, !on];
    this.#tell("");
    for (const { pick } of this.#cards()) pick.checked = false;
    this.#last = null;
    this.recount();
  }

  #turn(on: boolean): void {
    this.#switch(on);
    if (on) this.#bar.querySelector("button")!.focus();
    else this.begin.focus();
  }

  /** Handles the toggling of a card; with Shift, the cards since the last toggled one get the same state. */
  #chosen(card: Pickable, isRow: boolean): void {
    const cards = this.#cards();
    const [from, to] = [cards.indexOf(this.#last ?? card), cards.indexOf(card)].sort((one, other) => one - other);
    if (isRow && from! >= 0)
      for (const one of cards.slice(from, to! + 1)) one.pick.checked = one.canBeChosen && card.pick.checked;
    this.#last = card;
    this.recount();
  }

  #chosenCards(): Pickable[] {
    return this.#cards().filter((one) => one.canBeChosen && one.pick.checked);
  }

  #chooseAll(): void {
    const all = this.#cards().filter(({ canBeChosen }) => canBeChosen);
    const isAll = all.every(({ pick }) => pick.checked);
    for (const { pick } of all) pick.checked = !isAll;
    this.recount();
  }

  /** Runs one action at a time. */
  async #work(work: () => Promise<void>): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#bar.setAttribute("aria-busy", "true");
    await work().catch((fault) => this.#tell(messageOf(fault)));
    this.#isBusy = false;
    this.#bar.removeAttribute("aria-busy");
    this.recount();
  }

  #submit(event: SubmitEvent): void {
    event.preventDefault();
    void this.#work(() => this.#addTag());
  }

  async #addTag(): Promise<void> {
    const written = this.#tag.value;
    const tags = changedTags({}, written);
    if (!Object.keys(tags).length) throw new Error("Write the tag as name: value.");
    const before = new Map<Pickable, Tags>();
    const tag = async (card: Pickable) => {
      const had = valuesOf(card.picture.tags, tags);
      await change(card, tags);
      before.set(card, had);
    };
    const done = await this.#each("tagged", tag, { besides: () => replaced([...before.values()], tags) });
    if (!done.length) return;
    if (this.#tag.value === written) this.#tag.value = ""; // unless another one is being typed
    const back = async (card: Pickable) => {
      if (!hasAll(card.picture.tags, tags)) throw new Error(CHANGED);
      await change(card, before.get(card)!);
    };
    this.#offerUndo("tagged as before", back, done);
  }

  async #save(): Promise<void> {
    const pictures = this.#chosenCards().map(({ picture }) => picture); // others may be selected before a retry
    const refused = () => this.#tell("The download was refused: try again.");
    this.#progress.textContent = "Preparing the download…";
    const begun = patiently(() => saveOriginals(pictures, refused));
    this.#tell(await begun.finally(() => (this.#progress.textContent = "")));
  }

  async #delete(): Promise<void> {
    const done = await this.#each("deleted", (card) => card.remove());
    if (!done.length) return;
    const undo = this.#offerUndo("brought back", (card) => card.bringBack(), done);
    if (this.element.contains(document.activeElement)) undo.focus({ preventScroll: true }); // unless the user moved on
  }

  /** Shows an undo button beside the message, which calls `back` for each card. */
  #offerUndo(done: string, back: (card: Pickable) => Promise<void>, cards: Pickable[]): HTMLElement {
    const undo = workButton("Undo", () => this.#work(async () => void (await this.#each(done, back, { cards }))));
    this.#undo.replaceChildren(undo);
    return undo;
  }

  /**
   * Does something with each selected card, or with `cards`. Shows how many succeeded, the message of `besides`, and
   * the errors. Returns the successful cards.
   */
  async #each(
    done: string,
    work: (card: Pickable) => Promise<void>,
    { cards = this.#chosenCards(), besides = (): string => "" } = {},
  ): Promise<Pickable[]> {
    const well: Pickable[] = [];
    const faults = new Map<string, number>();
    for (const [n, card] of cards.entries()) {
      this.#progress.textContent = `${n} of ${cards.length} ${done}…`;
      try {
        await patiently(() => work(card));
        well.push(card);
      } catch (fault) {
        const why = isMissing(fault) ? GONE : messageOf(fault);
        const num = canBeTriedAgain(fault) ? cards.length - n : 1; // the others would fail, too
        faults.set(why, (faults.get(why) ?? 0) + num);
        if (num > 1) break;
      }
    }
    this.#progress.textContent = "";
    const not = [...faults].map(([why, count]) => `${counted(count, "picture")} not: ${why}`);
    this.#tell([`${counted(well.length, "picture")} ${done}.`, besides(), ...not].filter(Boolean).join(" "));
    this.onchanged(well);
    return well;
  }

  /** Shows a message, which replaces the previous one and its undo button. */
  #tell(what: string): void {
    this.#told.textContent = what;
    if (this.#undo.contains(document.activeElement)) this.#focusBar();
    this.#undo.replaceChildren();
  }
}

async function change(card: Pickable, tags: Tags): Promise<void> {
  card.update(await ask<ImageListed>(`/images/${card.image_id}`, { method: "PATCH", json: { tags } }));
}

/** The picture's values of the `named` tags; null for missing ones. */
function valuesOf(tags: ImageListed["tags"], named: Tags): Tags {
  return Object.fromEntries(Object.keys(named).map((name) => [name, Object.hasOwn(tags, name) ? tags[name]! : null]));
}

/** Whether a picture has these tags; the service treats a number and its text alike. */
function hasAll(tags: ImageListed["tags"], wanted: Tags): boolean {
  const had = valuesOf(tags, wanted);
  return Object.entries(wanted).every(([name, value]) => had[name] !== null && String(had[name]) === String(value));
}

/** The message on how many pictures had another value of the given tags before; "" for none. */
function replaced(before: Tags[], given: Tags): string {
  const others = Object.entries(given).map(([name, value]) => {
    const num = before.filter((had) => had[name] !== null && String(had[name]) !== String(value)).length;
    return num ? `${num} of them had another “${isolated(name)}” before.` : "";
  });
  return others.filter(Boolean).join(" ");
}

/** Does the work, and retries while the service is busy or down. */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (fault) {
      if (attempt === ATTEMPTS || !isPassing(fault)) throw fault;
      await pause(fault);
    }
  }
}
