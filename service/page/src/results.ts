// The grid of results. A word lights its regions in all of them; a region lights its words.
import { deletePicture, restorePicture } from "./changes";
import { breakable, button, type Child, el, find, isStillAt } from "./dom";
import { litWords, strongest, tellsWordsApart } from "./explanation";
import type { CaptionHit, ImageListed, PictureHit } from "./openapi";
import { Overlay } from "./overlay";
import { Pickable } from "./picking";
import { tagButtons } from "./tagged";
import { alike, day, isByText, messageOf, percent, said, spoken, titleOf } from "./text";
import { CAN_HOVER, Words } from "./words";

export interface Actions {
  open(hits: PictureHit[], place: number): void;
  like(hit: PictureHit): void;
}

export function resultGrid(
  hits: PictureHit[],
  actions: Actions,
  label = "Results",
): { grid: HTMLElement; words: Words | null; cards: Found[] } {
  const overlays = hits.map((hit) => new Overlay(hit));
  const explanations = hits.flatMap((hit) => hit.explanation ?? []).filter(tellsWordsApart);
  const light = (word: number | null) => {
    const most = word === null ? 0 : strongest(explanations, word);
    for (const overlay of overlays) overlay.lightWord(word, most);
  };
  const first = explanations[0];
  const words = first ? new Words(first, light, hits.some(isByText)) : null;
  const litIn = ({ explanation }: PictureHit) => (explanation ? litWords(explanation, explanations) : []);
  const open = (hit: PictureHit) => {
    const shown = cards.some(({ canBeChosen }) => !canBeChosen)
      ? cards.filter(({ canBeChosen }) => canBeChosen).map(({ picture }) => picture)
      : hits;
    actions.open(shown, shown.indexOf(hit));
  };
  const cards = hits.map((hit, n) => new Found(hit, overlays[n]!, words, litIn(hit), open, (one) => actions.like(one)));
  return {
    grid: el("ol", { class: "grid", "aria-label": label }, ...cards.map(({ element }) => element)),
    words,
    cards,
  };
}

/**
 * Shows the words of a query above the results, and the button that begins to select several of them. The focus stays
 * on the same word, or goes to the results.
 */
export function showWords(words: Words | null, several: HTMLElement | null = null): void {
  find("several").replaceChildren(...(several ? [several] : []));
  const hint = CAN_HOVER.matches ? "Hover a word: " : "Tap a word: ";
  const [line, focused] = [find("words"), document.activeElement];
  const isInside = line.contains(focused);
  line.replaceChildren(...(words ? [hint, ...words.elements] : []).map(asNode));
  if (!isInside) return;
  const same = [...line.querySelectorAll("button")].find((one) => one.textContent === focused!.textContent);
  (same ?? find("main")).focus({ preventScroll: true });
}

function asNode(child: unknown): Node {
  return child instanceof Node ? child : el("span", { class: "quiet" }, String(child));
}

/** The card of a result. */
export class Found extends Pickable {
  readonly element: HTMLElement;
  readonly #fault = el("p", { class: "fault", role: "alert" });
  #deleted = false;

  constructor(
    readonly picture: PictureHit,
    private readonly overlay: Overlay,
    private readonly words: Words | null,
    private readonly lit: string[],
    private readonly open: (hit: PictureHit) => void,
    private readonly like: (hit: PictureHit) => void,
  ) {
    super();
    this.element = el("li", { class: "card", "data-image": picture.image_id });
    this.#look();
  }

  get canBeChosen(): boolean {
    return !this.#deleted;
  }

  protected get opens(): string {
    return `${[spoken(this.picture), said(this.picture), ...this.lit].filter(Boolean).join(", ")}: show large`;
  }

  protected enlarge(): void {
    this.open(this.picture);
  }

  update({ captions, tags, taken_at, filename }: ImageListed): void {
    Object.assign(this.picture, { captions, tags, taken_at, filename });
    if (!this.#deleted) this.#look();
  }

  async remove(): Promise<void> {
    await deletePicture(this.image_id);
    this.#deleted = true;
    this.showDeleted(this.#title(), () => this.#undo(), this.#fault);
  }

  async bringBack(): Promise<void> {
    await restorePicture(this.image_id);
    this.#deleted = false;
    this.#look();
  }

  async #undo(): Promise<void> {
    try {
      await this.bringBack();
      if (isStillAt(this.element)) this.element.querySelector("button")?.focus({ preventScroll: true });
    } catch (refused) {
      this.#fault.textContent = messageOf(refused);
    }
  }

  #lightAt(region: number | null): void {
    const { explanation, score } = this.picture;
    if (explanation && score !== null) this.words?.lightRegion(explanation, region);
  }

  #title(): HTMLElement {
    const title = titleOf(this.picture);
    return el("span", { class: "title", dir: "auto", title }, ...breakable(title));
  }

  #look(): void {
    const [hit, overlay] = [this.picture, this.overlay];
    this.#fault.textContent = "";
    this.pick.setAttribute("aria-label", this.selects);
    this.element.replaceChildren(
      this.pick,
      el(
        "button",
        {
          type: "button",
          class: "picture",
          "aria-label": this.opens,
          onclick: (event: MouseEvent) => this.press(event),
          onpointermove: (event: PointerEvent) => this.#lightAt(overlay.regionAt(event.clientX, event.clientY)),
          onpointerleave: () => this.#lightAt(null),
        },
        thumbnail(hit),
        overlay.element,
      ),
      el(
        "p",
        { class: "about" },
        this.#title(),
        el(
          "span",
          { class: "quiet facts" },
          ...[said(hit), hit.taken_at && day(hit.taken_at), alike(hit)].map((fact) => fact && el("span", {}, fact)),
          ...albumOf(hit),
        ),
        button("More like this", () => this.like(hit), {
          class: "link",
          "aria-label": `More like this: ${spoken(hit)}`,
        }),
      ),
    );
  }
}

/** The album of a picture, since its name omits the folder. */
function albumOf({ tags: { album } }: PictureHit): Child[] {
  return album === undefined ? [] : tagButtons({ album });
}

/** Captions that describe a picture, best first. */
export function sentenceList(hits: CaptionHit[]): HTMLElement {
  const rows = hits.map((hit) => {
    const sure = hit.probability === null ? `score ${hit.score.toFixed(3)}` : percent(hit.probability);
    return el("li", {}, el("bdi", {}, hit.text), " ", el("span", { class: "quiet" }, sure));
  });
  return el("ol", { class: "sentences", "aria-label": "Sentences" }, ...rows);
}

export function thumbnail(picture: { thumbnail_url: string | null }): HTMLElement {
  return picture.thumbnail_url
    ? el("img", { src: picture.thumbnail_url, alt: "", loading: "lazy", decoding: "async" })
    : el("span", { class: "none" }, "features only");
}
