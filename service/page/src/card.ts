// A stored picture as a card of the library: looked at, edited in place, and deleted, which can be undone there.
import { deletePicture, restorePicture } from "./changes";
import { button, el, workButton } from "./dom";
import { editor, giveUp, isWritten } from "./editing";
import type { ImageListed } from "./openapi";
import { downloadButton } from "./original";
import { thumbnail } from "./results";
import { day, isolated, messageOf, tagLine, titleOf } from "./text";

export class Card {
  readonly element: HTMLElement;
  private readonly fault = el("p", { class: "fault", role: "alert" });
  private form: HTMLFormElement | null = null;
  private deleted = false;

  constructor(
    private image: ImageListed,
    private readonly like: (image: ImageListed) => void,
    private readonly open: (image: ImageListed) => void,
  ) {
    this.element = el("li", { class: "card", "data-image": image.image_id });
    this.look();
  }

  /** Whether it stands there however the list changes: it is being edited, or its deletion can be undone here. */
  get isHeld(): boolean {
    return this.deleted || this.form !== null;
  }

  /** The picture, where it can be shown. */
  get shown(): ImageListed | null {
    return this.deleted || this.image.state !== "ready" ? null : this.image;
  }

  get isDeleted(): boolean {
    return this.deleted;
  }

  get isWaiting(): boolean {
    return this.image.state === "queued";
  }

  /** Shows what is known of the picture by now; what is held stays as it stands. */
  update(image: ImageListed): void {
    if (this.isHeld || JSON.stringify(image) === JSON.stringify(this.image)) return;
    const hadFocus = this.element.contains(document.activeElement);
    this.image = image;
    this.look();
    if (hadFocus) this.focus();
  }

  focus(): void {
    const first = this.element.querySelector<HTMLElement>(".actions button:not(.read-only .change), .about button");
    first?.focus({ preventScroll: true });
  }

  private look(): void {
    [this.form, this.deleted] = [null, false];
    this.fault.textContent = "";
    this.element.replaceChildren(this.picture(), this.about(), this.actions(), this.fault);
  }

  private picture(): HTMLElement {
    const { state } = this.image;
    const large = { type: "button", class: "picture", "aria-label": `${titleOf(this.image)}: show large`, onclick: () => this.open(this.image) };
    if (state === "ready") return el("button", large, thumbnail(this.image));
    return el("div", { class: "picture none" }, state === "queued" ? "waiting" : state);
  }

  private about(): HTMLElement {
    const tags = Object.entries(this.image.tags).map(tagLine);
    return el(
      "p",
      { class: "about" },
      el("span", { class: "title", dir: "auto", title: titleOf(this.image) }, titleOf(this.image)),
      el("span", { class: "quiet" }, [day(this.image.taken_at), ...tags].join(" · ")),
    );
  }

  private actions(): HTMLElement {
    const title = titleOf(this.image);
    return el(
      "div",
      { class: "actions" },
      button("Edit", () => this.edit(), { class: "link change", "aria-label": `Edit ${title}` }),
      this.image.state === "ready" &&
        button("More like this", () => this.like(this.image), { class: "link", "aria-label": `More like this: ${title}` }),
      downloadButton(this.image, this.fault, "link change"),
      workButton("Delete", () => this.delete(), { class: "link change", "aria-label": `Delete ${title}` }),
    );
  }

  private edit(): void {
    if (!this.form) {
      const close = () => (this.look(), this.focus());
      this.form = editor(this.image, (changed) => (this.image = changed), close);
      this.form.addEventListener("keydown", ({ key, currentTarget }) => {
        if (key === "Escape" && !isWritten(currentTarget as HTMLFormElement)) close();
      });
      this.element.append(this.form);
    }
    this.form.querySelector("textarea")?.focus();
    this.form.scrollIntoView({ block: "nearest" });
  }

  private async delete(): Promise<void> {
    this.deleted = true; // before the service knows: a list that lacks it meanwhile must not take the card away
    try {
      await deletePicture(this.image.image_id);
    } catch (fault) {
      this.deleted = false;
      this.fault.textContent = messageOf(fault);
      return;
    }
    giveUp(this.form ?? undefined);
    this.form = null;
    this.fault.textContent = "";
    const undo = workButton("Undo", () => this.undo(), { "aria-label": `Undo: ${titleOf(this.image)} was deleted` });
    this.element.replaceChildren(
      el("div", { class: "picture none" }, "deleted"), // as large as the picture was, so that nothing moves
      el("p", { class: "about" }, `${isolated(titleOf(this.image))} was deleted. `, undo),
      this.fault,
    );
    this.focus();
  }

  private async undo(): Promise<void> {
    try {
      this.image = await restorePicture(this.image.image_id);
    } catch (fault) {
      this.fault.textContent = messageOf(fault);
      return;
    }
    this.look();
    this.focus();
  }
}
