// A picture's card that can be selected together with others, in the library and among results.
import { el, workButton } from "./dom";
import type { ImageListed } from "./openapi";
import type { Stored } from "./original";
import { spoken } from "./text";

export abstract class Pickable {
  abstract readonly element: HTMLElement;
  /** The checkbox that selects it, visible while several pictures are being selected. */
  readonly pick = el("input", { type: "checkbox", class: "pick" });

  abstract get picture(): Stored & Pick<ImageListed, "tags">;
  /** Whether it can be selected. */
  abstract get canBeChosen(): boolean;
  /** The accessible name of the button that enlarges it. */
  protected abstract get opens(): string;
  protected abstract enlarge(): void;
  /** Shows the picture's current description. */
  abstract update(image: ImageListed): void;
  /** Deletes the picture, which can be undone. */
  abstract remove(): Promise<void>;
  /** Undoes its deletion. */
  abstract bringBack(): Promise<void>;

  get image_id(): string {
    return this.picture.image_id;
  }

  protected get selects(): string {
    return `Select ${spoken(this.picture)}`;
  }

  /** Updates what a press on the picture does: while several are being selected, it selects. */
  showChoice(isChoosing: boolean): void {
    const picture = this.element.querySelector<HTMLElement>("button.picture");
    if (!picture) return;
    picture.ariaLabel = isChoosing ? this.selects : this.opens;
    picture.ariaPressed = isChoosing ? String(this.pick.checked) : null;
    picture.tabIndex = isChoosing ? -1 : 0; // the tab key reaches the checkbox instead
  }

  /** Opens the picture, or toggles its selection while several are being selected. */
  protected press({ shiftKey, detail }: MouseEvent): void {
    if (!this.element.closest(".selecting")) this.enlarge();
    else if (this.canBeChosen)
      this.pick.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey, detail }));
  }

  /** Shows that the picture is deleted, with a button to undo that. */
  protected showDeleted(title: HTMLElement, undo: () => Promise<void>, fault: HTMLElement): void {
    this.pick.checked = false;
    const label = `Undo: ${spoken(this.picture)} was deleted`;
    this.element.replaceChildren(
      el("div", { class: "picture none" }, "deleted"), // as large as the picture was, so that nothing moves
      el("p", { class: "about" }, title, " was deleted. ", workButton("Undo", undo, { "aria-label": label })),
      fault,
    );
  }
}
