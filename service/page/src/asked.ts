// The picture of a question, shown small, with controls for further questions about it.
import { button, el, imageOf } from "./dom";
import type { Asked, PictureQuestion, Question } from "./history";

/** Whether a minimum score of one question makes sense for the other: words change the scale of similarities. */
export function areScoredAlike(one: Question, other: Question): boolean {
  const hasWords = (question: Question) => question.kind === "pictures" && !!question.words;
  return one.kind === other.kind && hasWords(one) === hasWords(other);
}

export function askedPicture(asked: Asked, title: string, ...besides: HTMLElement[]): HTMLElement {
  return el("div", { class: "asked" }, small(asked, title), ...besides);
}

function small(asked: Asked, title: string): HTMLElement {
  // Browsers show no RAW and few HEIC files, but these can be searched with.
  return imageOf("image" in asked ? asked.image : `/images/${asked.image_id}/thumbnail`, `Asked with: ${title}`);
}

/**
 * The picture of a question, above the similar ones, and a field for what these should also show. The field is kept
 * from one answer to the next, so that text being typed is not lost.
 */
export class LikePicture {
  #question: PictureQuestion | null = null; // answered below
  #picture: HTMLElement | null = null;
  readonly #line = el("input", {
    type: "search",
    dir: "auto",
    maxlength: 512,
    "aria-label": "What they should show besides",
  });
  readonly #element: HTMLElement;

  constructor(ask: (question: PictureQuestion) => void) {
    this.#line.placeholder = "and show besides…";
    this.#line.enterKeyHint = "search";
    const submit = (event?: Event) => {
      event?.preventDefault();
      ask({ ...this.#question!, words: this.#line.value.trim() });
    };
    const find = button("Find", submit);
    const sentences = button("Sentences for it", () =>
      ask({ kind: "sentences", asked: this.#question!.asked, title: this.#question!.title }),
    );
    const form = el("form", { onsubmit: submit, autocomplete: "off" }, this.#line, find);
    this.#element = el("div", { class: "asked" }, form, sentences);
  }

  /** Sets the field to the words of a new question. */
  begin(question: Question): void {
    this.#line.value = (question.kind !== "text" && question.words) || "";
  }

  /** The element above the answer to a question. */
  above(question: PictureQuestion): HTMLElement {
    const isSamePicture = this.#question && isSame(this.#question.asked, question.asked);
    this.#question = question;
    if (!isSamePicture || !this.#picture!.isConnected) {
      this.#picture?.remove();
      this.#picture = small(question.asked, question.title);
      this.#element.prepend(this.#picture);
    }
    return this.#element;
  }
}

function isSame(one: Asked, other: Asked): boolean {
  return "image" in one || "image" in other ? one === other : one.image_id === other.image_id;
}
