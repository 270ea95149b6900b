// The stored pictures, page by page. A refresh updates the list in place: open editors and the scroll position stay.
import { ask } from "./api";
import { Card } from "./card";
import type { Further } from "./detail";
import { el, find, isStillAt, workButton } from "./dom";
import { noteSeen, seen } from "./history";
import type { ImageListed, ImagesAnswer } from "./openapi";
import { Selection } from "./selection";
import { messageOf } from "./text";

const PAGE = 48;
const MOST = 1000; // pictures that the service lists at once
const WAITING_MS = 3000; // interval for refreshing while pictures are queued
const MORE = "Show more";

export interface Listed {
  sort: string;
  filter: unknown;
}

export class Library {
  readonly #grid = el("ol", { class: "grid", "aria-label": "Library" });
  readonly #more = workButton(MORE, () => this.#next(), { class: "more" });
  readonly #cards = new Map<string, Card>();
  #listed: Listed = { sort: "", filter: null };
  #after: string | null = null;
  shown = 0; // number of pictures, kept in the history after the first page, for reloads
  #queued = 0; // among all listed pictures, shown or not
  #timer = 0;
  readonly #selection = new Selection(() => this.onchange());
  readonly element = el("div", {}, this.#selection.element, this.#grid, this.#more);

  /** `open` enlarges one of several pictures; `onchange` is called when the list may have changed. */
  constructor(
    private readonly like: (image: ImageListed) => void,
    private readonly open: (images: ImageListed[], place: number, further: Further) => void,
    private readonly onchange: () => void,
  ) {
    this.#selection.element.prepend(this.#selection.begin);
    this.#selection.over(this.#grid, () => this.#inOrder());
  }

  /** Whether a picture is being edited, or a deletion can be undone. */
  get isHeld(): boolean {
    return [...this.#cards.values()].some((card) => card.isHeld);
  }

  /** Loads the first page, or as many pictures as are shown if the same list is refreshed. */
  async load(listed: Listed, signal: AbortSignal): Promise<ImagesAnswer> {
    const wanted = () => (isSame(listed, this.#listed) ? this.shown : (seen().shown ?? 0)); // may grow meanwhile
    const load = (after: string | null, missing: number): Promise<ImagesAnswer> =>
      ask(path(listed, Math.min(MOST, Math.max(PAGE, missing)), after), { signal });
    const answer = await load(null, wanted());
    while (answer.next && answer.images.length < wanted()) {
      const page = await load(answer.next, wanted() - answer.images.length);
      answer.images.push(...page.images);
      answer.next = page.next;
    }
    return answer;
  }

  show(listed: Listed, { images, next, queued }: ImagesAnswer): void {
    const isNew = !this.element.isConnected;
    if (isNew || !isSame(listed, this.#listed)) this.#more.textContent = MORE; // without an error of another list
    this.#listed = listed;
    this.shown = images.length;
    this.#queued = queued ?? 0;
    this.#goOn(next);
    const focused = document.activeElement;
    const wanted = new Set(images.map(({ image_id }) => image_id));
    for (const [image_id, card] of this.#cards) {
      const stays = card.isDeleted ? !isNew : card.isHeld || wanted.has(image_id);
      if (stays) continue;
      card.element.remove();
      this.#cards.delete(image_id);
    }
    if (focused !== document.activeElement) find("main").focus({ preventScroll: true }); // its card was removed
    this.#place(images);
    this.#selection.recount();
  }

  /** Removes the card of a picture; the next refresh may add a new one. */
  forget(image_id: string): void {
    this.#cards.get(image_id)?.element.remove();
    this.#cards.delete(image_id);
  }

  /** Puts the pictures into this order; held cards that are not among them keep their places. */
  #place(images: ImageListed[]): void {
    const focused = document.activeElement;
    const inOrder = images.map((image) => this.#card(image).element);
    const placed = new Set<Element>(inOrder);
    let at = this.#grid.firstElementChild;
    for (const element of inOrder) {
      while (at && !placed.has(at)) at = at.nextElementSibling;
      if (element === at) at = at.nextElementSibling;
      else this.#grid.insertBefore(element, at);
    }
    if (focused !== document.activeElement) (focused as HTMLElement).focus({ preventScroll: true }); // it was moved
  }

  /** The card of a picture, updated or new. */
  #card(image: ImageListed): Card {
    const before = this.#cards.get(image.image_id);
    before?.update(image);
    const card = before ?? new Card(image, this.like, (opened) => this.#openLarge(opened), this.onchange);
    this.#cards.set(image.image_id, card);
    return card;
  }

  /** The cards in their order on the page. */
  #inOrder(): Card[] {
    return [...this.#grid.children].flatMap((one) => this.#cards.get((one as HTMLElement).dataset.image!) ?? []);
  }

  /** The pictures that can be enlarged, in their order on the page. */
  get pictures(): ImageListed[] {
    return this.#inOrder().flatMap((card) => card.shown ?? []);
  }

  #openLarge(opened: ImageListed): void {
    const images = this.pictures;
    this.open(
      images,
      images.findIndex(({ image_id }) => image_id === opened.image_id),
      this.further(),
    );
  }

  /** Access to the pictures after those that are shown. */
  further(): Further {
    const load = async () => {
      await this.#nextPage();
      return this.pictures;
    };
    return { hasMore: () => this.#after !== null, load };
  }

  #goOn(next: string | null): void {
    this.#after = next;
    this.#more.hidden = !next;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), WAITING_MS);
  }

  #look(): void {
    const waits = this.#queued > 0 || [...this.#cards.values()].some((card) => card.isWaiting);
    if (this.element.isConnected && waits) this.onchange();
  }

  async #next(): Promise<void> {
    const listed = this.#listed;
    try {
      await this.#nextPage();
    } catch (fault) {
      if (isSame(listed, this.#listed)) this.#more.textContent = `${MORE} (${messageOf(fault)})`;
    }
  }

  async #nextPage(): Promise<void> {
    const [listed, after] = [this.#listed, this.#after];
    const { images, next } = await ask<ImagesAnswer>(path(listed, PAGE, after));
    if (!isSame(listed, this.#listed)) return; // another list is shown by now
    if (after !== this.#after) return this.#nextPage(); // the list was refreshed meanwhile
    const fresh = images.filter(({ image_id }) => !this.#cards.has(image_id)).map((image) => this.#card(image));
    this.#grid.append(...fresh.map(({ element }) => element));
    this.shown += images.length;
    noteSeen({ shown: this.shown });
    this.#selection.recount();
    this.#more.textContent = MORE;
    this.#goOn(next);
    if (isStillAt(this.#more)) fresh[0]?.focus();
  }
}

function isSame(listed: Listed, other: Listed): boolean {
  return JSON.stringify(listed) === JSON.stringify(other);
}

function path(listed: Listed, limit: number, after: string | null): string {
  const query = new URLSearchParams({ limit: String(limit), sort: listed.sort });
  if (after) query.set("after", after);
  if (listed.filter) query.set("filter", JSON.stringify(listed.filter));
  return `/images?${query}`;
}
