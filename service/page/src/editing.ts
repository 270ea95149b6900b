// Captions, tags and date of one picture, edited in place.
import { ask, isMissing } from "./api";
import { GONE } from "./changes";
import { readDate, whyNoDate, written } from "./dates";
import { button, type Child, el, mark } from "./dom";
import { changedCaptions, changedTags, oneLine, tagLines } from "./lines";
import type { ImageInfo, ImageListed } from "./openapi";
import { titleOf } from "./text";

/** The properties of a picture that can be edited, with its id. */
export type Editable = Pick<ImageListed, "image_id" | "filename" | "captions" | "tags" | "taken_at">;

let made = 0; // number of forms, for their ids
const unsaved = new Set<Editor>(); // forms with unsaved changes

addEventListener("beforeunload", (event) => {
  if (unsaved.size) event.preventDefault(); // the browser asks whether to leave
});

/** Listeners of a form. */
export interface Hearers {
  /** Gets the picture after a change. */
  changed(image: ImageListed): void;
  /** Called when the form is to be removed. */
  done(): void;
  /** Gets the reason why a change failed, which the form shows, too. */
  failed(why: string): void;
}

/** A form to edit a picture's description. */
export class Editor {
  readonly #captions = el("textarea", { rows: 3, dir: "auto" });
  readonly #tags = el("textarea", { rows: 3, dir: "auto", autocapitalize: "none" }); // names are case-sensitive
  readonly #date = el("input", { type: "text", placeholder: "2024, 2024-05 or 2024-05-01" });
  readonly #fault = el("p", { id: `fault-${made++}`, class: "fault", role: "alert" });
  readonly #submit = el("button", { type: "submit", class: "main" }, "Save");
  readonly #captionsBefore: (readonly [line: string, caption: string])[];
  readonly #untouched: string; // the original text of the captions
  readonly #dateBefore: string;
  #isOver = false; // after saving or "Cancel", also while it was being saved
  readonly element: HTMLFormElement;

  constructor(
    private readonly image: Editable,
    private readonly hearers: Hearers,
  ) {
    this.#captionsBefore = image.captions.map((caption) => [oneLine(caption), caption] as const);
    this.#untouched = this.#captionsBefore.map(([line]) => line).join("\n");
    this.#dateBefore = written(image.taken_at);
    this.#captions.value = this.#untouched;
    this.#tags.value = tagLines(image.tags)
      .map(([line]) => line)
      .join("\n");
    this.#date.value = this.#dateBefore;
    this.element = el(
      "form",
      {
        class: "editor",
        "aria-label": `Edit ${titleOf(image)}`,
        oninput: () => unsaved.add(this),
        onsubmit: (event: SubmitEvent) => this.#send(event),
      },
      field("Captions, one a line", this.#captions),
      field("Tags, as name: value", this.#tags),
      field("Date", this.#date),
      el(
        "div",
        { class: "actions" },
        this.#fault,
        this.#submit,
        button("Cancel", () => this.#end()),
      ),
    );
  }

  /** Whether it has unsaved changes. */
  get isWritten(): boolean {
    return unsaved.has(this);
  }

  /** Gives up unsaved changes, for example of a deleted picture. */
  giveUp(): void {
    unsaved.delete(this);
  }

  focus(): void {
    this.#captions.focus();
  }

  #send(event: SubmitEvent): void {
    event.preventDefault();
    if (this.#submit.hasAttribute("aria-disabled")) return;
    this.#showSaving(true);
    void this.#save()
      .catch((fault) => this.#refuse(fault))
      .finally(() => this.#showSaving(false));
  }

  async #save(): Promise<void> {
    const json = await this.#change();
    this.hearers.changed(await ask<ImageListed>(`/images/${this.image.image_id}`, { method: "PATCH", json }));
    this.#end();
  }

  /** The changes as a merge patch. Error for an invalid field, which is marked. */
  async #change(): Promise<Record<string, unknown>> {
    const [captions, date, fault] = [this.#captions, this.#date, this.#fault];
    const taken_at = readDate(date.value);
    mark(date, taken_at === null, fault.id);
    if (taken_at === null) throw new Error(`Date: ${whyNoDate(date.value)}`);
    mark(this.#tags, true, fault.id);
    const tags = changedTags(this.image.tags, this.#tags.value); // may throw, so the mark comes first
    mark(this.#tags, false, fault.id);
    const wanted = captions.value !== this.#untouched && changedCaptions(this.#captionsBefore, captions.value);
    return {
      ...(wanted && { captions: await captionsNow(this.image, wanted) }),
      tags,
      ...(date.value.trim() !== this.#dateBefore && { taken_at: taken_at || null }),
    };
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.giveUp();
    this.hearers.done();
  }

  #refuse(fault: Error): void {
    this.#fault.textContent = isMissing(fault) ? `${GONE} meanwhile.` : fault.message;
    this.element.scrollIntoView({ block: "nearest" }); // the message makes the buttons higher, which may cover a field
    this.hearers.failed(this.#fault.textContent);
  }

  #showSaving(isSaving: boolean): void {
    this.#submit.textContent = isSaving ? "Saving…" : "Save";
    for (const one of [this.#captions, this.#tags, this.#date]) one.readOnly = isSaving; // typing would be lost
    if (isSaving) this.#submit.setAttribute("aria-disabled", "true");
    else this.#submit.removeAttribute("aria-disabled");
  }
}

function field(text: string, control: HTMLElement): Child {
  return el("label", {}, text, control);
}

/** The captions to save: changes that somebody else made since the form was opened are kept. */
async function captionsNow({ image_id, captions: before }: Editable, wanted: string[]): Promise<string[]> {
  const { captions: now } = await ask<ImageInfo>(`/images/${image_id}/info`);
  const others = now.filter((one) => !before.includes(one) && !wanted.includes(one));
  const gone = before.filter((one) => !now.includes(one));
  return [...wanted.filter((one) => !gone.includes(one)), ...others];
}
