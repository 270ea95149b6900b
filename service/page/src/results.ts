// The grid of results. A word lights its regions in all of them; a region lights its words.
import { breakable, button, type Child, el, find } from "./dom";
import { litWords, strongest, tellsWordsApart } from "./explanation";
import type { CaptionHit, PictureHit } from "./openapi";
import { Overlay } from "./overlay";
import { tagButtons } from "./tagged";
import { alike, day, isByText, percent, said, spoken, titleOf } from "./text";
import { CAN_HOVER, Words } from "./words";

export interface Actions {
  open(hits: PictureHit[], place: number): void;
  like(hit: PictureHit): void;
}

export function resultGrid(
  hits: PictureHit[],
  actions: Actions,
  label = "Results",
): { grid: HTMLElement; words: Words | null } {
  const overlays = hits.map((hit) => new Overlay(hit));
  const explanations = hits.flatMap((hit) => hit.explanation ?? []).filter(tellsWordsApart);
  const light = (word: number | null) => {
    const most = word === null ? 0 : strongest(explanations, word);
    for (const overlay of overlays) overlay.lightWord(word, most);
  };
  const first = explanations[0];
  const words = first ? new Words(first, light, hits.some(isByText)) : null;
  const litIn = ({ explanation }: PictureHit) => (explanation ? litWords(explanation, explanations) : []);
  const cards = hits.map((hit, n) =>
    card(
      hit,
      overlays[n]!,
      words,
      litIn(hit),
      () => actions.open(hits, n),
      () => actions.like(hit),
    ),
  );
  return { grid: el("ol", { class: "grid", "aria-label": label }, ...cards), words };
}

/** Shows the words of a query above the results. The focus stays on the same word, or goes to the results. */
export function showWords(words: Words | null): void {
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

function card(
  hit: PictureHit,
  overlay: Overlay,
  words: Words | null,
  lit: string[],
  open: () => void,
  like: () => void,
): HTMLElement {
  const lightAt = (region: number | null) => {
    if (hit.explanation && hit.score !== null) words?.lightRegion(hit.explanation, region);
  };
  return el(
    "li",
    { class: "card", "data-image": hit.image_id },
    el(
      "button",
      {
        type: "button",
        class: "picture",
        "aria-label": `${[spoken(hit), said(hit), ...lit].filter(Boolean).join(", ")}: show large`,
        onclick: open,
        onpointermove: (event: PointerEvent) => lightAt(overlay.regionAt(event.clientX, event.clientY)),
        onpointerleave: () => lightAt(null),
      },
      thumbnail(hit),
      overlay.element,
    ),
    el(
      "p",
      { class: "about" },
      el("span", { class: "title", dir: "auto", title: titleOf(hit) }, ...breakable(titleOf(hit))),
      el(
        "span",
        { class: "quiet facts" },
        ...[said(hit), day(hit.taken_at), alike(hit)].map((fact) => fact && el("span", {}, fact)),
        ...albumOf(hit),
      ),
      button("More like this", like, { class: "link", "aria-label": `More like this: ${spoken(hit)}` }),
    ),
  );
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
