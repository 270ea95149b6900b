// A stored picture as a card of the library: it can be enlarged, edited in place, and deleted, with undo.
import { deletePicture, reasonOf, restorePicture, retryPicture } from "./changes";
import { breakable, button, el, find, isStillAt, workButton } from "./dom";
import { Editor } from "./editing";
import type { ImageListed } from "./openapi";
import { downloadButton } from "./original";
import { Pickable } from "./picking";
import { thumbnail } from "./results";
import { tagButtons } from "./tagged";
import { day, failedTo, messageOf, spoken, titleOf } from "./text";

export class Card extends Pickable {
  readonly element: HTMLElement;
  readonly #fault = el("p", { class: "fault", role: "alert" });
  #form: Editor | null = null;
  #deleted = false;

  /** `onchanged` is called after a deletion, and after its undoing. */
  constructor(
    private image: ImageListed,
    private readonly like: (image: ImageListed) => void,
    private readonly open: (image: ImageListed) => void,
    private readonly onchanged: () => void,
  ) {
    super();
    this.element = el("li", { class: "card", "data-image": image.image_id });
    this.#look();
  }

  /** Whether it stays when the list changes: it is being edited, or its deletion can be undone here. */
  get isHeld(): boolean {
    return this.#deleted || this.#form !== null;
  }

  /** The picture; null if it cannot be enlarged. */
  get shown(): ImageListed | null {
    return this.#deleted || this.image.state !== "ready" ? null : this.image;
  }

  get isDeleted(): boolean {
    return this.#deleted;
  }

  get picture(): ImageListed {
    return this.image;
  }

  /** Whether it can be selected: not while it is deleted or being edited. */
  get canBeChosen(): boolean {
    return !this.isHeld;
  }

  get isWaiting(): boolean {
    return this.image.state === "queued";
  }

  /** Shows the picture's current state, unless the card is held. */
  update(image: ImageListed): void {
    if (!this.isHeld && JSON.stringify(image) !== JSON.stringify(this.image)) this.#replace(image);
  }

  #replace(image: ImageListed): void {
    const hadFocus = this.element.contains(document.activeElement);
    this.image = image;
    this.#look();
    if (hadFocus) this.focus();
  }

  focus(): void {
    const all = this.element.querySelectorAll<HTMLElement>(".pick, .actions button, .about > button");
    // Some are hidden on telephones and for readers, and the checkbox unless several pictures are being selected.
    const first = [...all].find((one) => one.offsetParent);
    first?.focus({ preventScroll: true });
  }

  #look(): void {
    [this.#form, this.#deleted] = [null, false];
    this.#fault.textContent = "";
    this.pick.disabled = false;
    this.pick.setAttribute("aria-label", this.selects);
    this.element.replaceChildren(
      this.pick,
      this.#picture(),
      this.#about(),
      ...this.#reason(),
      this.#actions(),
      this.#fault,
    );
  }

  protected get opens(): string {
    return `${spoken(this.image)}: show large`;
  }

  protected enlarge(): void {
    this.open(this.image);
  }

  #picture(): HTMLElement {
    const { state } = this.image;
    const large = {
      type: "button",
      class: "picture",
      "aria-label": this.opens,
      onclick: (event: MouseEvent) => this.press(event),
    };
    if (state === "ready") return el("button", large, thumbnail(this.image));
    if (state === "queued")
      return el("div", { class: "picture waiting" }, thumbnail(this.image), el("span", {}, "waiting"));
    return el("div", { class: "picture none" }, state);
  }

  #about(): HTMLElement {
    return el(
      "p",
      { class: "about" },
      this.#title(),
      el(
        "span",
        { class: "quiet facts" },
        this.image.taken_at && el("span", {}, day(this.image.taken_at)),
        ...tagButtons(this.image.tags),
      ),
    );
  }

  /** The reason if it was set aside; empty if that cannot be fetched. */
  #reason(): HTMLElement[] {
    const { state, image_id } = this.image;
    if (state !== "failed") return [];
    const reason = el("p", { class: "about quiet" });
    void reasonOf(image_id)
      .then((why) => (reason.textContent = why))
      .catch(() => {});
    return [reason];
  }

  #title(): HTMLElement {
    return el("span", { class: "title", dir: "auto", title: titleOf(this.image) }, ...breakable(titleOf(this.image)));
  }

  #actions(): HTMLElement {
    const title = spoken(this.image);
    return el(
      "div",
      { class: "actions" },
      button("Edit", () => this.#edit(), { class: "link change", "aria-label": `Edit ${title}` }),
      this.image.state === "ready" &&
        button("More like this", () => this.like(this.image), {
          class: "link",
          "aria-label": `More like this: ${title}`,
        }),
      this.image.state === "failed" &&
        workButton("Try again", () => this.#told("Trying again", () => this.#retry()), {
          class: "link change",
          "aria-label": `Try again: ${title}`,
        }),
      downloadButton(this.image, this.#fault, "link change"),
      workButton("Delete", () => this.#delete(), { class: "link change", "aria-label": `Delete ${title}` }),
    );
  }

  #edit(): void {
    if (!this.#form) {
      const close = () => {
        this.#look();
        if (isStillAt(this.element)) this.focus();
      };
      const changed = (image: ImageListed) => {
        if (this.#form || this.#deleted) this.image = image;
        else this.#replace(image); // cancelled while it was being saved
      };
      const form = new Editor(this.image, { changed, done: close, failed: (why) => this.#tell("Saving", why) });
      form.element.addEventListener("keydown", ({ key }) => {
        if (key === "Escape" && !form.isWritten) close();
      });
      this.#form = form;
      this.element.append(form.element);
      [this.pick.checked, this.pick.disabled] = [false, true];
    }
    this.#form.focus();
    this.#form.element.scrollIntoView({ block: "nearest" });
  }

  async #retry(): Promise<void> {
    await retryPicture(this.image_id);
    this.image = { ...this.image, state: "queued" };
    this.#look();
  }

  #delete(): Promise<void> {
    return this.#told("Deleting", () => this.remove());
  }

  /** Deletes the picture, which can be undone here. */
  async remove(): Promise<void> {
    this.#deleted = true; // before the request: a refreshed list without it must not remove the card
    try {
      await deletePicture(this.image.image_id);
    } catch (fault) {
      this.#deleted = false;
      throw fault;
    }
    this.#form?.giveUp();
    this.#form = null;
    this.#fault.textContent = "";
    this.showDeleted(this.#title(), () => this.#undo(), this.#fault);
  }

  #undo(): Promise<void> {
    return this.#told("Bringing back", () => this.bringBack());
  }

  /** Undoes its deletion. */
  async bringBack(): Promise<void> {
    this.image = await restorePicture(this.image.image_id);
    this.#look();
  }

  /** Does work on this card alone; an error is shown on it. */
  async #told(name: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (fault) {
      this.#fault.textContent = messageOf(fault);
      this.#tell(name, this.#fault.textContent);
      return;
    }
    if (isStillAt(this.element)) this.focus();
    this.onchanged();
  }

  /** Reports a failure in the status line if this card is no longer shown. */
  #tell(work: string, why: string): void {
    if (!this.element.isConnected) find("status").textContent = failedTo(work, this.image, why);
  }
}
