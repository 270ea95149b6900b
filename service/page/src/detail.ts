// One result large: its regions, what each word added to its score, and all that is known of it.
import { button, el, type Child } from "./dom";
import { roundedToSum, strongest, tellsWordsApart } from "./explanation";
import type { ExplanationAnswer, PictureHit } from "./openapi";
import { downloadButton } from "./original";
import { Overlay } from "./overlay";
import { day, percent, tagLine, titleOf } from "./text";
import { Words } from "./words";

const DIGITS = 4;
const MOST_REGIONS = 8;

export class Detail {
  private readonly title = el("h2", { id: "detail-title", dir: "auto" });
  private readonly previous = button("Previous", () => this.step(-1));
  private readonly next = button("Next", () => this.step(1));
  private readonly shown = el("div", { class: "large" });
  private readonly dialog = el(
    "dialog",
    { id: "detail", "aria-labelledby": "detail-title" },
    el("header", {}, this.title, this.previous, this.next, button("Close", () => this.close())),
    this.shown,
  );
  private hits: PictureHit[] = [];
  private place = 0;

  constructor(private readonly like: (hit: PictureHit) => void) {
    document.body.append(this.dialog);
    // Of the whole page: a click on what takes no focus must not make the keys deaf.
    document.addEventListener("keydown", (event) => this.key(event));
  }

  open(hits: PictureHit[], place: number): void {
    [this.hits, this.place] = [hits, place];
    this.show();
    if (!this.dialog.open) this.dialog.showModal();
  }

  close(): void {
    this.dialog.close();
  }

  private key(event: KeyboardEvent): void {
    if (!this.dialog.open || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowRight") this.step(1);
    if (event.key === "ArrowLeft") this.step(-1);
  }

  private step(by: number): void {
    const next = this.place + by;
    if (next < 0 || next >= this.hits.length) return;
    this.place = next;
    const inShown = this.shown.contains(document.activeElement); // which is replaced
    this.show();
    if (inShown || document.activeElement === document.body) (this.next.disabled ? this.previous : this.next).focus();
  }

  /** Allows the steps that there are; the focus goes on from a button that is none any more. */
  private allow(): void {
    const isFirst = this.place === 0;
    const isLast = this.place === this.hits.length - 1;
    const focused = document.activeElement;
    this.previous.disabled = isFirst;
    this.next.disabled = isLast;
    if (isLast && focused === this.next) this.previous.focus();
    if (isFirst && focused === this.previous) this.next.focus();
  }

  private show(): void {
    const hit = this.hits[this.place]!;
    const overlay = new Overlay(hit, true);
    this.title.textContent = titleOf(hit);
    this.allow();
    this.shown.replaceChildren(
      el("figure", { class: "picture" }, hit.url && el("img", { src: hit.url, alt: titleOf(hit) }), overlay.element),
      el("div", { class: "why" }, ...this.why(hit, overlay), ...this.known(hit)),
    );
  }

  private why(hit: PictureHit, overlay: Overlay): Child[] {
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

  private known(hit: PictureHit): Child[] {
    const fault = el("p", { class: "fault", role: "alert" });
    const tags = Object.entries(hit.tags).map(tagLine);
    return [
      el("h3", {}, "Picture"),
      el(
        "dl",
        {},
        ...row("File", hit.filename),
        ...row("Date", day(hit.taken_at)),
        ...row("Captions", ...hit.captions),
        ...row("Tags", ...tags),
        ...row("Alike", ...(hit.near_duplicates ?? []).map((one) => one.filename)),
      ),
      button("More like this", () => (this.dialog.close(), this.like(hit))),
      downloadButton(hit, fault, "change"),
      fault,
    ];
  }
}

function byText(hit: PictureHit): Child[] {
  const words = hit.explanation?.words.map((word) => word.text).join(", ");
  return [
    el("p", {}, `Rank ${hit.rank}`),
    el("p", { class: "quiet" }, `Found by its name, captions, tags or date alone${words ? `: ${words}` : ""}.`),
  ];
}

function row(name: string, ...values: string[]): Child[] {
  return values.length ? [el("dt", {}, name), ...values.map((value) => el("dd", { dir: "auto" }, value))] : [];
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
