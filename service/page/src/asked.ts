// The picture that was asked with, small, before what else can be asked with it.
import { button, el } from "./dom";
import type { Asked, Question } from "./history";

/** Whether a limit that was chosen for the scores of one makes sense for the other: likeness and words are no likeness alone. */
export function areScoredAlike(one: Question, other: Question): boolean {
  const hasWords = (question: Question) => question.kind === "pictures" && !!question.words;
  return one.kind === other.kind && hasWords(one) === hasWords(other);
}

export function askedPicture(asked: Asked, title: string, ...besides: HTMLElement[]): HTMLElement {
  const source = "image" in asked ? URL.createObjectURL(asked.image) : `/images/${asked.image_id}/thumbnail`;
  const done = () => "image" in asked && URL.revokeObjectURL(source);
  // Browsers show no RAW and few HEIC files, which can be asked with all the same.
  const shown = el("img", { src: source, alt: `Asked with: ${title}`, onload: done, onerror: () => (done(), shown.remove()) });
  return el("div", { class: "asked" }, shown, ...besides);
}

/** A line for what pictures like it should show besides; `ask` is told what was written in it. */
export function wordsBesides(words: string, ask: (words: string) => void): HTMLElement {
  const line = el("input", { type: "search", dir: "auto", maxlength: 512, value: words, "aria-label": "What they should show besides" });
  line.placeholder = "and show besides…";
  line.enterKeyHint = "search";
  const submit = (event: Event) => {
    event.preventDefault();
    ask(line.value.trim());
  };
  return el("form", { onsubmit: submit, autocomplete: "off" }, line, button("Find", () => ask(line.value.trim())));
}
