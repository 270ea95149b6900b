// Captions, tags and date of one picture, edited in place.
import { ask, isMissing } from "./api";
import { button, el, type Child } from "./dom";
import type { ImageInfo, ImageListed } from "./openapi";
import { titleOf } from "./text";

/** What can be edited of a picture. */
export type Editable = Pick<ImageListed, "image_id" | "filename" | "captions" | "tags" | "taken_at">;
type Tags = ImageListed["tags"];
type Changed = (image: ImageListed) => void;

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

const GONE = "This picture is not there any more: somebody deleted it meanwhile.";

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
  const tags = el("textarea", { rows: 3, dir: "auto" });
  tags.value = tagLines(image.tags).map(([line]) => line).join("\n");
  const date = el("input", { type: "text", placeholder: "2024, 2024-05 or 2024-05-01", value: image.taken_at ?? "" });
  const fault = el("p", { class: "fault", role: "alert" });
  const save = async () => {
    const taken_at = date.value.trim();
    const change = {
      ...(captions.value !== untouched && { captions: await captionsNow(image, changedCaptions(captionsBefore, captions.value)) }),
      tags: changedTags(image.tags, tags.value),
      ...(taken_at !== (image.taken_at ?? "") && { taken_at: taken_at || null }),
    };
    onchanged(await ask<ImageListed>(`/images/${image.image_id}`, { method: "PATCH", json: change }));
    done();
  };
  const done = () => {
    unsaved.delete(form);
    ondone();
  };
  const refuse = (refusal: Error) => {
    fault.textContent = isMissing(refusal) ? GONE : refusal.message;
    onfault(fault.textContent);
  };
  const form = el(
    "form",
    {
      class: "editor",
      "aria-label": `Edit ${titleOf(image)}`,
      oninput: () => unsaved.add(form),
      onsubmit: (event: SubmitEvent) => {
        event.preventDefault();
        save().catch(refuse);
      },
    },
    field("Captions, one a line", captions),
    field("Tags, as name: value", tags),
    field("Date", date),
    fault,
    el("p", { class: "actions" }, el("button", { type: "submit", class: "main" }, "Save"), button("Cancel", done)),
  );
  return form;
}

function field(text: string, control: HTMLElement): Child {
  return el("label", {}, text, control);
}

function lines(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** The captions as they are to be by now: what somebody else added or took away since the form was opened stays so. */
async function captionsNow({ image_id, captions: before }: Editable, wanted: string[]): Promise<string[]> {
  const { captions: now } = await ask<ImageInfo>(`/images/${image_id}/info`);
  const others = now.filter((one) => !before.includes(one) && !wanted.includes(one));
  const gone = before.filter((one) => !now.includes(one));
  return [...wanted.filter((one) => !gone.includes(one)), ...others];
}

/** The captions; those whose line was not touched are as they were, with what no line can show. */
function changedCaptions(before: readonly (readonly [string, string])[], text: string): string[] {
  const original = new Map(before);
  return lines(text).map((line) => original.get(line) ?? line);
}

/** Each tag with the line that shows it. */
function tagLines(tags: Tags): [line: string, name: string][] {
  return Object.entries(tags).map(([name, value]) => [oneLine(`${name}: ${value}`), name]);
}

/**
 * What became of the tags, as a merge patch: those that are gone are null. What is written as a number is one.
 *
 * A tag whose line was not touched is left alone, also where its name holds a colon.
 */
export function changedTags(before: Tags, text: string): Record<string, string | number | null> {
  const written = [...new Set(lines(text))];
  const untouched = new Map(tagLines(before).filter(([line]) => written.includes(line)));
  const changed = written.filter((line) => !untouched.has(line)).map((line) => tagOf(line, Object.keys(before)));
  const names = [...untouched.values(), ...changed.map(([one]) => one)];
  const twice = names.find((one, n) => names.indexOf(one) < n);
  if (twice !== undefined) throw new Error(`“${twice}” stands on two lines; a tag has one value.`);
  const now = new Set(names);
  const gone = Object.keys(before).filter((one) => !now.has(one));
  return Object.fromEntries([...gone.map((one) => [one, null] as const), ...changed]);
}

/**
 * The name and value that a line says; what it begins with is the name of a known tag, up to its first colon another.
 * Error where it has no colon.
 */
function tagOf(line: string, known: string[]): [name: string, value: string | number] {
  const named = known.filter((one) => line.startsWith(`${oneLine(one)}:`)).sort((one, other) => other.length - one.length)[0];
  const end = named === undefined ? line.indexOf(":") : oneLine(named).length;
  if (end < 0) throw new Error(`Write each tag as name: value on a line of its own; “${line}” has no colon.`);
  return [named ?? line.slice(0, end).trim(), value(line.slice(end + 1))];
}

/** What is written as a number is one, but for what only programs call numbers, as NaN. */
export function value(written: string): string | number {
  const text = written.trim();
  const number = Number(text);
  return text !== "" && Number.isFinite(number) && String(number) === text ? number : text;
}
