// Tags of a picture as buttons, each of which filters by its tag.
import { breakable, type Child, el } from "./dom";
import type { ImageListed } from "./openapi";
import { tagLine } from "./text";

type Tag = [name: string, value: string | number];

let filterBy: (tag: Tag) => void = () => {};

/** `listener` gets the tag to filter by. */
export function onTag(listener: (tag: Tag) => void): void {
  filterBy = listener;
}

export function tagButtons(tags: ImageListed["tags"]): Child[] {
  return Object.entries(tags).map((tag) => filterButton(tag, tagLine(tag)));
}

/** A button that filters by a tag. */
export function filterButton(tag: Tag, text: string): HTMLButtonElement {
  const press = { type: "button", onclick: () => filterBy(tag) };
  return el("button", { ...press, class: "tag", title: "Show those with this tag alone" }, ...breakable(text));
}
