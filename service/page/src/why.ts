// The explanation of a result: what each word contributed compared with other results, and each region.
import { type Child, el } from "./dom";
import { aboveOthers, type Compared, roundedToSum, strongest, tellsWordsApart } from "./explanation";
import type { ExplanationAnswer, PictureHit } from "./openapi";
import type { Overlay } from "./overlay";
import { offered } from "./parts";
import { regionNames, whereAnswered } from "./regions";
import { MOST_EXPLAINED } from "./requests";
import { counted, type Hit, isByText, percent, said } from "./text";
import { Words } from "./words";

const DIGITS = 4;
const MOST_REGIONS = 8;

let isDetailed = false; // whether details are shown, also of the next picture

/** The explanation of one of several results: where and how well its words were answered, and details with numbers. */
export function whyOf(hit: Hit, overlay: Overlay, results: Hit[]): Child[] {
  const why = hit.explanation;
  if (hit.score === null) return byText(hit);
  const likely = hit.probability === null ? "" : `; ${percent(hit.probability)} likely`;
  const rank = el("p", {}, `Rank ${hit.rank}; the shortlist had it at ${hit.shortlist_rank}${likely}`);
  const byItsText =
    isByText(hit) && el("p", {}, "Found by its text: its file name, captions, tags or date hold what was asked.");
  if (!why)
    return [
      byItsText,
      el("p", {}, `${["Among the nearest", said(hit)].filter(Boolean).join("; ")}.`),
      hit.similarity === undefined &&
        hit.rank > MOST_EXPLAINED &&
        quiet(`Regions are shown for the best ${MOST_EXPLAINED}.`),
      details(rank, quiet(`Score ${hit.score.toFixed(DIGITS)}`)),
    ];
  const words = new Words(
    why,
    (word) => overlay.lightWord(word, word === null ? 0 : strongest([why], word)),
    isByText(hit),
  );
  const show = (region: number | null) => {
    overlay.lightRegion(region);
    words.lightRegion(why, region);
  };
  overlay.element.addEventListener("pointermove", (event) => show(overlay.regionAt(event.clientX, event.clientY)));
  overlay.element.addEventListener("pointerleave", () => show(null));
  const all = results.flatMap(({ explanation }) => explanation ?? []);
  const isTold = tellsWordsApart(why);
  return [
    byItsText,
    el(
      "p",
      {},
      isTold
        ? whereAnswered(hit, why, all, offered(why.words, isByText(hit)))
        : "This model does not say which word fits where.",
    ),
    isTold && el("div", { class: "words", role: "group", "aria-label": "Words" }, ...words.elements),
    details(rank), // above everything that it reveals, so that it does not move under the pointer
    ...bars(hit.score, aboveOthers(hit, results)),
    ...regionList(hit, why, show),
  ];
}

function details(...shown: Child[]): HTMLElement {
  const one = el(
    "details",
    { open: isDetailed, ontoggle: () => (isDetailed = one.open) },
    el("summary", {}, "Details"),
    ...shown,
  );
  return one;
}

function quiet(text: string): HTMLElement {
  return el("p", { class: "quiet fine" }, text);
}

function byText(hit: PictureHit): Child[] {
  const words = hit.explanation?.words.map((word) => word.text).join(", ");
  return [
    el("p", {}, `Found by its name, captions, tags or date alone${words ? `: ${words}` : ""}.`),
    details(el("p", {}, `Rank ${hit.rank}`)),
  ];
}

/**
 * What each word contributed, relative to the other results if there are any, since the zero of scores has no meaning.
 * Numbers and the rest are only visible with the details (see large.css).
 */
function bars(score: number, compared: Compared | null): Child[] {
  if (!compared) return [quiet(`Score ${score.toFixed(DIGITS)}. This model's score is no sum over the words.`)];
  const { parts, contributions, total: sum, num, most } = compared;
  const rows = roundedToSum(contributions, sum, DIGITS).map((value, n) => {
    const part = parts[n]!;
    const bar = el("span", {
      class: `bar${part.isRest ? " rest" : value < 0 ? " negative" : ""}`,
      role: "img",
      "aria-label": value < 0 ? "worse" : "better",
    });
    const width = Math.min(50, (50 * Math.abs(value)) / (most || 1)); // of the track, whose middle is 0
    bar.style.width = `${width}%`;
    bar.style.marginLeft = `${value < 0 ? 50 - width : 50}%`;
    return el(
      "tr",
      { "data-words": part.words.join(" "), class: part.isRest ? "fine quiet" : "" },
      el("th", { scope: "row" }, part.text),
      el("td", { class: "track" }, bar),
      el("td", { class: "number fine" }, signed(value)),
    );
  });
  const total = el(
    "tr",
    { class: "total fine" },
    el("th", { scope: "row" }, num ? "together" : "score"),
    el("td"),
    el("td", { class: "number" }, signed(sum)),
  );
  const beside = el(
    "span",
    { class: "fine" },
    `: what each word added, beside the mean of ${counted(num, "other result")}`,
  );
  const caption = el(
    "caption",
    {},
    ...(num ? ["Fits better (right) or worse (left) than in the others", beside] : ["What each word added"]),
  );
  const told = quiet(`Score ${score.toFixed(DIGITS)}; the others' mean is ${(score - sum).toFixed(DIGITS)}`);
  return [
    el("table", { class: `bars ${num ? "" : "fine"}` }, caption, el("tbody", {}, ...rows, total)),
    num > 0 && told,
  ];
}

function signed(value: number): string {
  return `${value < 0 ? "" : "+"}${value.toFixed(DIGITS)}`;
}

function regionList(hit: PictureHit, why: ExplanationAnswer, show: (region: number | null) => void): Child[] {
  if (!why.shares) return [];
  const added = why.regions.map((_, n) => ({ n, sum: why.shares!.reduce((sum, row) => sum + row[n]!, 0) }));
  const best = added
    .filter(({ sum }) => sum > 0)
    .sort((a, b) => b.sum - a.sum)
    .slice(0, MOST_REGIONS);
  if (!best.length) return [];
  const names = regionNames(
    hit,
    why,
    best.map(({ n }) => n),
  );
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
