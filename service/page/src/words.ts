// The words of a query as buttons: hovering or focusing one calls the listener, and a region lights its words.
import { type Child, el } from "./dom";
import { FAINTEST, wordStrengths } from "./explanation";
import type { ExplanationAnswer } from "./openapi";
import { nameOf, offered } from "./parts";

/** Whether the pointer can hover, as a mouse can and a finger cannot. */
export const CAN_HOVER = matchMedia("(hover: hover)");

export class Words {
  readonly #buttons = new Map<number, HTMLButtonElement>();
  #held: number | null = null;

  /**
   * `onword` gets the word that is pointed at, null for none; a click holds one until the next click. `byText`: some
   * results were found by their text.
   */
  constructor(
    explanation: ExplanationAnswer,
    private readonly onword: (word: number | null) => void,
    byText = false,
  ) {
    for (const n of offered(explanation.words, byText)) {
      const look = () => this.onword(n);
      const leave = () => this.onword(this.#held);
      this.#buttons.set(
        n,
        el(
          "button",
          {
            type: "button",
            class: "word",
            "aria-pressed": "false",
            onpointerenter: look,
            onpointerleave: leave,
            onfocus: look,
            onblur: leave,
            onclick: () => this.#hold(n),
          },
          nameOf(explanation.words[n]!),
        ),
      );
    }
  }

  get elements(): Child[] {
    return [...this.#buttons.values()];
  }

  #hold(word: number): void {
    this.#held = this.#held === word ? null : word;
    for (const [n, one] of this.#buttons) one.setAttribute("aria-pressed", String(n === this.#held));
    this.onword(this.#held ?? (CAN_HOVER.matches ? word : null)); // a mouse is still on the word, a finger is not
  }

  /** Lights the words that a region answers; none for null. */
  lightRegion(explanation: ExplanationAnswer, region: number | null): void {
    const shown = region === null ? [] : wordStrengths(explanation, region);
    const most = Math.max(0, ...shown);
    for (const [n, one] of this.#buttons) one.classList.toggle("lit", most > 0 && (shown[n] ?? 0) >= FAINTEST * most);
  }
}
