// Captions, tags and date of one picture, edited in place; deletion, which can be undone.
import { ask } from "./api";
import { button, el, type Child } from "./dom";
import type { ImageListed } from "./openapi";
import { titleOf } from "./text";

type Tags = ImageListed["tags"];
type Changed = (image: ImageListed) => void;

/** A form with what is known of the picture; `onchanged` hears of the picture as it is after a change. */
export function editor(image: ImageListed, onchanged: Changed, ondone: () => void): HTMLFormElement {
  const captions = el("textarea", { rows: 3 });
  captions.value = image.captions.join("\n");
  const tags = el("textarea", { rows: 3 });
  tags.value = Object.entries(image.tags).map(([name, value]) => `${name}: ${value}`).join("\n");
  const date = el("input", { type: "text", placeholder: "2024, 2024-05 or 2024-05-01", value: image.taken_at ?? "" });
  const fault = el("p", { class: "fault", role: "alert" });
  const save = async () => {
    const taken_at = date.value.trim();
    const change = {
      captions: lines(captions.value),
      tags: changedTags(image.tags, tags.value),
      ...(taken_at !== (image.taken_at ?? "") && { taken_at: taken_at || null }),
    };
    onchanged(await ask<ImageListed>(`/images/${image.image_id}`, { method: "PATCH", json: change }));
    ondone();
  };
  return el(
    "form",
    {
      class: "editor",
      "aria-label": `Edit ${titleOf(image)}`,
      onsubmit: (event: SubmitEvent) => {
        event.preventDefault();
        save().catch((refusal: Error) => (fault.textContent = refusal.message));
      },
    },
    field("Captions, one a line", captions),
    field("Tags, as name: value", tags),
    field("Date", date),
    fault,
    el("button", { type: "submit" }, "Save"),
    button("Cancel", ondone),
  );
}

/** Deletes the picture and offers to undo it. */
export async function remove(image: ImageListed, notice: HTMLElement, onchanged: () => void): Promise<void> {
  await ask(`/images/${image.image_id}`, { method: "DELETE" });
  const undo = button("Undo", () => {
    ask(`/images/${image.image_id}/restore`, { method: "POST" }).then(
      () => ((notice.textContent = `${titleOf(image)} is back.`), onchanged()),
      (refusal: Error) => (notice.textContent = refusal.message),
    );
  });
  onchanged();
  notice.replaceChildren(`${titleOf(image)} was deleted. `, undo);
  undo.focus();
}

function field(text: string, control: HTMLElement): Child {
  return el("label", {}, text, control);
}

function lines(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

/** What became of the tags, as a merge patch: those that are gone are null. What is written as a number is one. */
function changedTags(before: Tags, text: string): Record<string, string | number | null> {
  const now = new Map(lines(text).map((line) => [name(line), value(line)]));
  const gone = Object.keys(before).filter((one) => !now.has(one));
  const kept = [...now].filter(([one, what]) => String(before[one]) !== String(what));
  return Object.fromEntries([...gone.map((one) => [one, null] as const), ...kept]);
}

function name(line: string): string {
  return line.split(":")[0]!.trim();
}

export function value(line: string): string | number {
  const text = line.slice(line.indexOf(":") + 1).trim();
  return text !== "" && String(Number(text)) === text ? Number(text) : text;
}
