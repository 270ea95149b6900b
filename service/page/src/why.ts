// Why a result stands where it stands: what each word and each region added to its score.
import { el, type Child } from "./dom";
import { roundedToSum, strongest, tellsWordsApart } from "./explanation";
import type { ExplanationAnswer, PictureHit } from "./openapi";
import type { Overlay } from "./overlay";
import { percent } from "./text";
import { Words } from "./words";

const DIGITS = 4;
const MOST_REGIONS = 8;

/** What is told of a result: its rank, what each word added to its score, and the regions that did. */
export function whyOf(hit: PictureHit, overlay: Overlay): Child[] {
  const why = hit.explanation;
  if (hit.score === null) return byText(hit);
  const likely = hit.probability === null ? "" : `; ${percent(hit.probability)} likely`;
  const text = hit.found_by.includes("text") ? "; its text holds the words, too" : "";
  const ranks = el("p", {}, `Rank ${hit.rank}; the shortlist had it at ${hit.shortlist_rank}${likely}${text}`);
  if (!why) return [ranks, el("p", { class: "quiet" }, `Score ${hit.score.toFixed(DIGITS)}`)];
  const words = new Words(why, (word) => overlay.lightWord(word, word === null ? 0 : strongest([why], word)));
  const show = (region: number | null) => {
    overlay.lightRegion(region);
    words.lightRegion(why, region);
  };
  overlay.element.addEventListener("pointermove", (event) => show(overlay.regionAt(event.clientX, event.clientY)));
  overlay.element.addEventListener("pointerleave", () => show(null));
  return [
    ranks,
    tellsWordsApart(why) && el("div", { class: "words", role: "group", "aria-label": "Words" }, ...words.elements),
    bars(why, hit.score),
    ...regionList(why, show),
  ];
}

function byText(hit: PictureHit): Child[] {
  const words = hit.explanation?.words.map((word) => word.text).join(", ");
  return [
    el("p", {}, `Rank ${hit.rank}`),
    el("p", { class: "quiet" }, `Found by its name, captions, tags or date alone${words ? `: ${words}` : ""}.`),
  ];
}

function bars(why: ExplanationAnswer, score: number): HTMLElement {
  if (!why.contributions)
    return el("p", { class: "quiet" }, `Score ${score.toFixed(DIGITS)}. This model's score is no sum over the words.`);
  const shown = roundedToSum(why.contributions, score, DIGITS);
  const most = Math.max(...shown.map(Math.abs), 10 ** -DIGITS);
  const rows = shown.map((value, n) => {
    const bar = el("span", { class: value < 0 ? "bar negative" : "bar" });
    bar.style.width = `${(100 * Math.abs(value)) / most}%`;
    const word = why.words[n]!;
    return el(
      "tr",
      { "data-word": n },
      el("th", { scope: "row", class: word.special ? "quiet" : "" }, word.text),
      el("td", { class: "track" }, bar),
      el("td", { class: "number" }, value.toFixed(DIGITS)),
    );
  });
  const total = el(
    "tr",
    { class: "total" },
    el("th", { scope: "row" }, "score"),
    el("td"),
    el("td", { class: "number" }, score.toFixed(DIGITS)),
  );
  return el("table", { class: "bars" }, el("caption", {}, "What each word added"), el("tbody", {}, ...rows, total));
}

function regionList(why: ExplanationAnswer, show: (region: number | null) => void): Child[] {
  if (!why.shares) return [];
  const added = why.regions.map((region, n) => ({ n, region, sum: why.shares!.reduce((sum, row) => sum + row[n]!, 0) }));
  const best = added.sort((a, b) => b.sum - a.sum).slice(0, MOST_REGIONS);
  const items = best.map(({ n, region, sum }) =>
    el(
      "li",
      {},
      el(
        "button",
        {
          type: "button",
          class: "region",
          onfocus: () => show(n),
          onblur: () => show(null),
          onpointerenter: () => show(n),
          onpointerleave: () => show(null),
        },
        `${region.label} `,
        el("span", { class: "number" }, sum.toFixed(DIGITS)),
      ),
    ),
  );
  return [el("h3", {}, "Regions that added most"), el("ul", { class: "regions" }, ...items)];
}
