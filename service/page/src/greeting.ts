// The greeting shown instead of an empty library.

import { button, el } from "./dom";
import { CAN_DROP } from "./dropping";

export function greeting(add: () => void): HTMLElement {
  return el(
    "section",
    { class: "greeting" },
    el("h2", {}, "No pictures yet"),
    el(
      "p",
      { class: "change" },
      `${CAN_DROP ? "Drop photographs or whole folders anywhere on this page" : "Add photographs"}, then ask for what is in them.`,
    ),
    button("Add pictures", add, { class: "change" }),
  );
}
