// The dialog with one enlarged picture: its regions, why it was found, and its description, which can be edited.
import { deletePicture, restorePicture } from "./changes";
import { breakable, button, type Child, el, find, isStillAt, workButton } from "./dom";
import { Editor } from "./editing";
import { enterLarge, leaveLarge, place } from "./history";
import type { ImageListed, PictureHit } from "./openapi";
import { downloadButton } from "./original";
import { Overlay } from "./overlay";
import { onSwipe } from "./swiping";
import { tagButtons } from "./tagged";
import { day, failedTo, messageOf, titleOf } from "./text";
import { whyOf } from "./why";

const PANORAMA = 2.5; // ratio of width to height
const NAMED_MS = 200; // until the address names the picture: Safari throws after 100 changes of it in ten seconds

/** A picture of the library, or a result. */
export type Shown = ImageListed | PictureHit;

/** Access to the pictures of a list that are not shown yet. */
export interface Further {
  hasMore(): boolean;
  /** Loads further pictures. Returns all pictures. Error if that fails. */
  load(): Promise<Shown[]>;
}

export class Detail {
  readonly #title = el("h2", { id: "detail-title", dir: "auto", "aria-live": "polite", "aria-atomic": "true" });
  readonly #previous = button("Previous", () => this.#step(-1));
  readonly #next = button("Next", () => this.#step(1));
  readonly #full = el("a", { class: "button", target: "_blank", rel: "noopener" }, "Full size");
  readonly #notice = el("p", { class: "fault", role: "alert" });
  readonly #shown = el("div", { class: "large" });
  readonly #dialog = el(
    "dialog",
    {
      id: "detail",
      "aria-labelledby": "detail-title",
      oncancel: (event: Event) => this.#cancel(event),
      onclose: () => this.#closed(),
    },
    el(
      "header",
      {},
      this.#title,
      this.#previous,
      this.#next,
      this.#full,
      button("Close", () => void this.leave()),
    ),
    this.#notice,
    this.#shown,
  );
  #pictures: Shown[] = [];
  #place = 0;
  #openedAt = "";
  #further: Further | null = null;
  #isGoingOn = false;
  #naming = 0;
  #changed = false;
  readonly #deleted = new Set<string>();
  readonly #forms = new Map<string, Editor>(); // unfinished edits, also of other pictures

  /** `onchanged` is called on closing if pictures were changed or deleted. */
  constructor(
    private readonly like: (picture: Shown) => void,
    private readonly onchanged: () => void,
  ) {
    document.body.append(this.#dialog);
    // On the whole page: after a click on something that takes no focus, the keys must still work.
    document.addEventListener("keydown", (event) => this.#key(event));
    onSwipe(this.#shown, (by) => this.#step(by));
  }

  /** Shows one of several pictures; `further` gives access to those after the last. */
  open(pictures: Shown[], at: number, further: Further | null = null): void {
    [this.#pictures, this.#place, this.#openedAt, this.#further] = [[...pictures], at, place(), further];
    this.#deleted.clear();
    this.#notice.textContent = "";
    this.#show();
    if (this.#dialog.open) return;
    enterLarge(pictures[at]!.image_id);
    this.#dialog.showModal();
  }

  close(): void {
    this.#dialog.close();
  }

  /** Closes it if the browser went back to the question below it; false if it went elsewhere, or it is not open. */
  closesFor(): boolean {
    const isBeneath = this.#dialog.open && this.#openedAt === place();
    if (isBeneath) this.close();
    return isBeneath;
  }

  /** Closes it as Back does, without leaving an entry in the history. */
  async leave(): Promise<void> {
    if (this.#dialog.open) await leaveLarge();
    this.close();
  }

  #cancel(event: Event): void {
    event.preventDefault(); // it closes once the history has gone back
    void this.leave();
  }

  #closed(): void {
    // A deleted picture is about to disappear: the next one gets the focus, or the previous one.
    const nearest = [...this.#pictures.slice(this.#place), ...this.#pictures.slice(0, this.#place).reverse()];
    const image_id = nearest.find((one) => !this.#deleted.has(one.image_id))?.image_id;
    document.querySelector<HTMLElement>(`#main [data-image="${image_id}"] button.picture`)?.focus();
    this.#further = null; // pictures still loading are no longer needed
    if (this.#changed) this.onchanged();
    this.#changed = false;
  }

  #key(event: KeyboardEvent): void {
    if (!this.#dialog.open || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target instanceof Element && event.target.matches("input, textarea")) return; // arrows move the caret
    if (event.key === "ArrowRight") this.#step(1);
    if (event.key === "ArrowLeft") this.#step(-1);
  }

  #step(by: number): void {
    const next = this.#place + by;
    if (next === this.#pictures.length) return void this.#goOn();
    if (next < 0) return;
    this.#place = next;
    clearTimeout(this.#naming);
    this.#naming = setTimeout(() => this.#dialog.open && enterLarge(this.#pictures[this.#place]!.image_id), NAMED_MS);
    const inShown = this.#shown.contains(document.activeElement); // the focused element is replaced
    this.#show();
    if (inShown || document.activeElement === document.body)
      (this.#next.disabled ? this.#previous : this.#next).focus();
  }

  /** Loads further pictures and shows the first of them, unless the user moved on meanwhile. */
  async #goOn(): Promise<void> {
    const [further, place] = [this.#further, this.#place];
    if (!further?.hasMore() || this.#isGoingOn) return;
    this.#isGoingOn = true;
    this.#next.setAttribute("aria-disabled", "true");
    try {
      let fresh: Shown[] = [];
      while (further === this.#further && !fresh.length && further.hasMore()) {
        const known = new Set(this.#pictures.map(({ image_id }) => image_id));
        fresh = (await further.load()).filter(({ image_id }) => !known.has(image_id));
      }
      if (further !== this.#further) return;
      this.#pictures.push(...fresh);
      if (this.#dialog.open && place === this.#place && fresh.length) this.#step(1);
    } catch (fault) {
      if (further === this.#further) this.#notice.textContent = messageOf(fault);
    } finally {
      this.#isGoingOn = false;
      this.#next.removeAttribute("aria-disabled");
      this.#allow();
    }
  }

  /** Enables the possible steps; the focus leaves a button that becomes disabled. */
  #allow(): void {
    const isFirst = this.#place === 0;
    const isLast = this.#place === this.#pictures.length - 1 && !this.#further?.hasMore();
    const focused = document.activeElement;
    this.#previous.disabled = isFirst;
    this.#next.disabled = isLast;
    if (isLast && focused === this.#next) this.#previous.focus();
    if (isFirst && focused === this.#previous) this.#next.focus();
  }

  #show(): void {
    const picture = this.#pictures[this.#place]!;
    this.#title.title = titleOf(picture);
    this.#title.replaceChildren(...(breakable(titleOf(picture)) as (Node | string)[]));
    this.#shown.classList.toggle("wide", isPanorama(picture));
    this.#allow();
    this.#full.hidden = !picture.url || this.#deleted.has(picture.image_id);
    if (picture.url) this.#full.href = picture.url;
    if (this.#deleted.has(picture.image_id)) return void this.#showDeleted(picture);
    const overlay = new Overlay(picture, true);
    this.#shown.replaceChildren(
      el("figure", { class: "picture" }, picture.url && large(picture, picture.url), overlay.element),
      el(
        "div",
        { class: "why" },
        ...("rank" in picture ? whyOf(picture, overlay, this.#pictures as PictureHit[]) : []),
        ...this.#known(picture),
      ),
    );
  }

  #known(picture: Shown): Child[] {
    const fault = el("p", { class: "fault", role: "alert" });
    const same = "near_duplicates" in picture ? (picture.near_duplicates ?? []) : [];
    const form = el("div", {}, this.#forms.get(picture.image_id)?.element);
    return [
      el("h3", {}, "Picture"),
      el(
        "dl",
        {},
        ...row("File", el("span", {}, ...breakable(picture.filename))),
        ...row("Date", day(picture.taken_at)),
        ...row("Captions", ...picture.captions),
        ...row("Tags", ...tagButtons(picture.tags)),
        ...row("Alike", ...same.map((one) => one.filename)),
      ),
      el(
        "p",
        { class: "actions" },
        button("More like this", () => this.#askLike(picture)),
        button("Edit", () => this.#edit(picture), { class: "change", "aria-label": `Edit ${titleOf(picture)}` }),
        downloadButton(picture, fault, "change"),
        workButton("Delete", () => this.#delete(picture, fault), {
          class: "change",
          "aria-label": `Delete ${titleOf(picture)}`,
        }),
      ),
      form,
      fault,
    ];
  }

  #askLike(picture: Shown): void {
    this.close();
    this.like(picture);
  }

  #edit(picture: Shown): void {
    const done = () => {
      this.#forms.delete(picture.image_id);
      if (!this.#isShown(picture)) return;
      this.#show();
      this.#shown.querySelector<HTMLElement>(".actions button.change")?.focus();
    };
    const form =
      this.#forms.get(picture.image_id) ??
      new Editor(picture, {
        changed: (changed) => this.#keep(changed),
        done,
        failed: (why) => this.#tell(picture, "Saving", why),
      });
    this.#forms.set(picture.image_id, form);
    this.#show();
    form.focus();
    form.element.scrollIntoView({ block: "nearest" }); // all of it, not its first field alone
  }

  /** Reports a failure if its picture is no longer shown. */
  #tell(picture: Shown, work: string, why: string): void {
    if (this.#isShown(picture)) return;
    const place = this.#dialog.open ? this.#notice : find("status");
    place.textContent = failedTo(work, picture, why);
  }

  /** Whether the picture is still shown: the user may have moved on during a request. */
  #isShown({ image_id }: Pick<Shown, "image_id">): boolean {
    return this.#dialog.open && this.#pictures[this.#place]!.image_id === image_id;
  }

  /** Updates the description of a picture, and keeps its explanation. */
  #keep({ image_id, captions, tags, taken_at, filename }: ImageListed): void {
    const said = { captions, tags, taken_at, filename };
    this.#pictures = this.#pictures.map((one) => (one.image_id === image_id ? { ...one, ...said } : one));
    this.#noteChange();
    if (this.#isShown({ image_id }) && !this.#forms.has(image_id)) this.#show(); // cancelled while it was being saved
  }

  #noteChange(): void {
    if (this.#dialog.open) this.#changed = true;
    else this.onchanged();
  }

  async #delete(picture: Shown, fault: HTMLElement): Promise<void> {
    try {
      await deletePicture(picture.image_id);
    } catch (refused) {
      fault.textContent = messageOf(refused);
      this.#tell(picture, "Deleting", fault.textContent);
      return;
    }
    this.#deleted.add(picture.image_id);
    this.#forms.get(picture.image_id)?.giveUp();
    this.#forms.delete(picture.image_id);
    this.#noteChange();
    if (!this.#isShown(picture)) return;
    const undo = this.#showDeleted(picture);
    if (isStillAt(this.#shown)) undo.focus();
  }

  /** Shows that the picture is deleted, with a button to undo that. */
  #showDeleted(picture: Shown): HTMLElement {
    this.#full.hidden = true;
    const told = el("p", { class: "fault", role: "alert" });
    const undo = workButton("Undo", () => this.#restore(picture, told), {
      "aria-label": `Undo: ${titleOf(picture)} was deleted`,
    });
    this.#shown.replaceChildren(
      el("p", {}, el("span", { class: "title", dir: "auto" }, titleOf(picture)), " was deleted. ", undo),
      told,
    );
    return undo;
  }

  async #restore(picture: Shown, told: HTMLElement): Promise<void> {
    try {
      await restorePicture(picture.image_id);
    } catch (refused) {
      told.textContent = messageOf(refused);
      this.#tell(picture, "Bringing back", told.textContent);
      return;
    }
    this.#deleted.delete(picture.image_id);
    this.#noteChange();
    if (!this.#isShown(picture)) return;
    this.#show();
    if (isStillAt(this.#shown)) this.#shown.querySelector("button")?.focus();
  }
}

/** Whether the picture is so wide that its description should be below it. */
function isPanorama({ width, height }: Shown): boolean {
  return !!width && !!height && width > PANORAMA * height;
}

/** The enlarged picture; its thumbnail until it has loaded. */
function large(picture: Shown, src: string): HTMLElement {
  const { width, height, thumbnail_url } = picture;
  const image = el("img", {
    src,
    width,
    height,
    alt: titleOf(picture),
    onload: () => (image.style.backgroundImage = ""),
  });
  if (thumbnail_url) image.style.backgroundImage = `url("${thumbnail_url}")`;
  return image;
}

function row(name: string, ...values: Child[]): Child[] {
  return values.length ? [el("dt", {}, name), ...values.map((value) => el("dd", { dir: "auto" }, value))] : [];
}
