// Why a result stands where it stands: what each word added beside the other results, and what each region did.
import { el, type Child } from "./dom";
import { aboveOthers, roundedToSum, strongest, tellsWordsApart, type Compared } from "./explanation";
import type { ExplanationAnswer, PictureHit } from "./openapi";
import type { Overlay } from "./overlay";
import { regionNames } from "./regions";
import { counted, isByText, percent } from "./text";
import { Words } from "./words";

const DIGITS = 4;
const MOST_REGIONS = 8;

/** What is told of one of some results: its rank, what each word added, and the regions that did. */
export function whyOf(hit: PictureHit, overlay: Overlay, results: PictureHit[]): Child[] {
  const why = hit.explanation;
  if (hit.score === null) return byText(hit);
  const likely = hit.probability === null ? "" : `; ${percent(hit.probability)} likely`;
  const ranks = [
    isByText(hit) && el("p", {}, "Found by its text: its file name, captions, tags or date hold what was asked."),
    el("p", {}, `Rank ${hit.rank}; the shortlist had it at ${hit.shortlist_rank}${likely}`),
  ];
  if (!why) return [...ranks, el("p", { class: "quiet" }, `Score ${hit.score.toFixed(DIGITS)}`)];
  const words = new Words(why, (word) => overlay.lightWord(word, word === null ? 0 : strongest([why], word)), isByText(hit));
  const show = (region: number | null) => {
    overlay.lightRegion(region);
    words.lightRegion(why, region);
  };
  overlay.element.addEventListener("pointermove", (event) => show(overlay.regionAt(event.clientX, event.clientY)));
  overlay.element.addEventListener("pointerleave", () => show(null));
  return [
    ...ranks,
    tellsWordsApart(why) && el("div", { class: "words", role: "group", "aria-label": "Words" }, ...words.elements),
    bars(hit.score, aboveOthers(hit, results)),
    ...regionList(hit, why, show),
  ];
}

function byText(hit: PictureHit): Child[] {
  const words = hit.explanation?.words.map((word) => word.text).join(", ");
  return [
    el("p", {}, `Rank ${hit.rank}`),
    el("p", { class: "quiet" }, `Found by its name, captions, tags or date alone${words ? `: ${words}` : ""}.`),
  ];
}

/** What each word added: more or less than to the other results, where there are some, since below 0 may be much. */
function bars(score: number, compared: Compared | null): HTMLElement {
  if (!compared)
    return el("p", { class: "quiet" }, `Score ${score.toFixed(DIGITS)}. This model's score is no sum over the words.`);
  const { parts, contributions, total: sum, num, most } = compared;
  const shown = roundedToSum(contributions, sum, DIGITS);
  const rows = shown.map((value, n) => {
    const part = parts[n]!;
    const bar = el("span", { class: `bar${part.isRest ? " rest" : value < 0 ? " negative" : ""}` });
    const width = Math.min(50, (50 * Math.abs(value)) / (most || 1)); // of the track, in the middle of which is 0
    bar.style.width = `${width}%`;
    bar.style.marginLeft = `${value < 0 ? 50 - width : 50}%`;
    return el(
      "tr",
      { "data-words": part.words.join(" ") },
      el("th", { scope: "row", class: part.isRest ? "quiet" : "" }, part.text),
      el("td", { class: "track" }, bar),
      el("td", { class: "number" }, signed(value)),
    );
  });
  const total = el(
    "tr",
    { class: "total" },
    el("th", { scope: "row" }, num ? "together" : "score"),
    el("td"),
    el("td", { class: "number" }, signed(sum)),
  );
  const beside = num ? `, beside the mean of ${counted(num, "other result")}` : "";
  const told = num ? el("p", { class: "quiet" }, `Score ${score.toFixed(DIGITS)}; the others' mean is ${(score - sum).toFixed(DIGITS)}`) : null;
  const table = el("table", { class: "bars" }, el("caption", {}, `What each word added${beside}`), el("tbody", {}, ...rows, total));
  return el("div", {}, table, told);
}

function signed(value: number): string {
  return `${value < 0 ? "" : "+"}${value.toFixed(DIGITS)}`;
}

function regionList(hit: PictureHit, why: ExplanationAnswer, show: (region: number | null) => void): Child[] {
  if (!why.shares) return [];
  const added = why.regions.map((_, n) => ({ n, sum: why.shares!.reduce((sum, row) => sum + row[n]!, 0) }));
  const best = added.filter(({ sum }) => sum > 0).sort((a, b) => b.sum - a.sum).slice(0, MOST_REGIONS);
  if (!best.length) return [];
  const names = regionNames(hit, why, best.map(({ n }) => n));
  const items = best.map(({ n }, place) =>
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
        names[place]!,
      ),
    ),
  );
  return [el("h3", {}, "Regions that added most"), el("ul", { class: "regions" }, ...items)];
}
