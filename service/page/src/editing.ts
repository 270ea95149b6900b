// Captions, tags and date of one picture, edited in place.
import { ask, isMissing } from "./api";
import { GONE } from "./changes";
import { readDate, whyNoDate, written } from "./dates";
import { button, type Child, el, mark } from "./dom";
import { changedCaptions, changedTags, oneLine, tagLines } from "./lines";
import type { ImageInfo, ImageListed } from "./openapi";
import { titleOf } from "./text";

/** What can be edited of a picture. */
export type Editable = Pick<ImageListed, "image_id" | "filename" | "captions" | "tags" | "taken_at">;
type Changed = (image: ImageListed) => void;

let made = 0; // forms
const unsaved = new Set<HTMLFormElement>(); // forms in which something was written

addEventListener("beforeunload", (event) => {
  if (unsaved.size) event.preventDefault(); // the browser asks whether to leave
});

/** Lets go of what was written in a form, as of a picture that was deleted. */
export function giveUp(form: HTMLFormElement | undefined): void {
  if (form) unsaved.delete(form);
}

/** Whether something was written in a form that is not saved. */
export function isWritten(form: HTMLFormElement): boolean {
  return unsaved.has(form);
}

/**
 * A form with what is known of the picture. `onchanged` hears of the picture as it is after a change, `ondone` that the
 * form is done with, `onfault` why a change was not made, which stands in the form, too.
 */
export function editor(
  image: Editable,
  onchanged: Changed,
  ondone: () => void,
  onfault: (why: string) => void = () => {},
): HTMLFormElement {
  const captions = el("textarea", { rows: 3, dir: "auto" });
  const captionsBefore = image.captions.map((caption) => [oneLine(caption), caption] as const);
  captions.value = captionsBefore.map(([line]) => line).join("\n");
  const untouched = captions.value;
  const tags = el("textarea", { rows: 3, dir: "auto", autocapitalize: "none" }); // a name with a capital is another one
  tags.value = tagLines(image.tags)
    .map(([line]) => line)
    .join("\n");
  const dateBefore = written(image.taken_at);
  const date = el("input", { type: "text", placeholder: "2024, 2024-05 or 2024-05-01", value: dateBefore });
  const fault = el("p", { id: `fault-${made++}`, class: "fault", role: "alert" });
  const save = async () => {
    const taken_at = readDate(date.value);
    mark(date, taken_at === null, fault.id);
    if (taken_at === null) throw new Error(`Date: ${whyNoDate(date.value)}`);
    mark(tags, true, fault.id);
    const tagsNow = changedTags(image.tags, tags.value); // Error where they cannot be read
    mark(tags, false, fault.id);
    const change = {
      ...(captions.value !== untouched && {
        captions: await captionsNow(image, changedCaptions(captionsBefore, captions.value)),
      }),
      tags: tagsNow,
      ...(date.value.trim() !== dateBefore && { taken_at: taken_at || null }),
    };
    onchanged(await ask<ImageListed>(`/images/${image.image_id}`, { method: "PATCH", json: change }));
    done();
  };
  let isOver = false; // by "Cancel", while it was being saved
  const done = () => {
    if (isOver) return;
    isOver = true;
    unsaved.delete(form);
    ondone();
  };
  const refuse = (refusal: Error) => {
    fault.textContent = isMissing(refusal) ? `${GONE} meanwhile.` : refusal.message;
    form.scrollIntoView({ block: "nearest" }); // the buttons, which it stands above, may cover a field by it
    onfault(fault.textContent);
  };
  const submit = el("button", { type: "submit", class: "main" }, "Save");
  const saving = (isSaving: boolean) => {
    submit.textContent = isSaving ? "Saving…" : "Save";
    for (const one of [captions, tags, date]) one.readOnly = isSaving; // what was written meanwhile would be lost
    if (isSaving) submit.setAttribute("aria-disabled", "true");
    else submit.removeAttribute("aria-disabled");
  };
  const form = el(
    "form",
    {
      class: "editor",
      "aria-label": `Edit ${titleOf(image)}`,
      oninput: () => unsaved.add(form),
      onsubmit: (event: SubmitEvent) => {
        event.preventDefault();
        if (submit.hasAttribute("aria-disabled")) return;
        saving(true);
        void save()
          .catch(refuse)
          .finally(() => saving(false));
      },
    },
    field("Captions, one a line", captions),
    field("Tags, as name: value", tags),
    field("Date", date),
    el("div", { class: "actions" }, fault, submit, button("Cancel", done)),
  );
  return form;
}

function field(text: string, control: HTMLElement): Child {
  return el("label", {}, text, control);
}

/** The captions as they are to be by now: what somebody else added or took away since the form was opened stays so. */
async function captionsNow({ image_id, captions: before }: Editable, wanted: string[]): Promise<string[]> {
  const { captions: now } = await ask<ImageInfo>(`/images/${image_id}/info`);
  const others = now.filter((one) => !before.includes(one) && !wanted.includes(one));
  const gone = before.filter((one) => !now.includes(one));
  return [...wanted.filter((one) => !gone.includes(one)), ...others];
}
