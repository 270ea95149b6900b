// Regions drawn over a picture. The drawing uses the picture's pixels as coordinates, so that boxes fit at any size;
// its `preserveAspectRatio` `meet` corresponds to the `object-fit` `contain` of the <img> below it.
import { svg } from "./dom";
import { FAINTEST, strengths } from "./explanation";
import type { Box, ExplanationAnswer } from "./openapi";

const LABEL_PX = 15;
const CEILING = 0.6; // maximum opacity of overlapping regions, so that the picture stays visible

export interface Explained {
  width: number | null;
  height: number | null;
  explanation?: ExplanationAnswer | null;
}

export class Overlay {
  readonly element: SVGSVGElement;
  readonly #rects = new Map<number, SVGRectElement>();
  readonly #lights = svg("g", { opacity: CEILING });
  readonly #name = svg("text", { class: "name" });

  /** `names`: the strongest lit region shows its label. */
  constructor(
    private readonly hit: Explained,
    private readonly names = false,
  ) {
    this.element = svg("svg", {
      class: "overlay",
      viewBox: `0 0 ${hit.width ?? 1} ${hit.height ?? 1}`,
      preserveAspectRatio: "xMidYMid meet",
      "aria-hidden": "true",
    });
    for (const [n, region] of this.#regions.entries()) this.#add(region, n);
    this.element.append(this.#lights, this.#name);
  }

  get #regions(): Box[] {
    return this.hit.explanation?.regions ?? [];
  }

  #add(region: Box, n: number): void {
    if (!region.box) return;
    const [left, top, right, bottom] = region.box;
    const size = { width: right - left, height: bottom - top };
    const rect = svg("rect", { x: left, y: top, ...size, "fill-opacity": 0, "data-region": n });
    this.#rects.set(n, rect);
    this.#lights.append(rect);
  }

  /** Lights the regions that answer a word, with a brightness relative to `most`; none for null. */
  lightWord(word: number | null, most: number): void {
    const shown = word === null || !this.hit.explanation ? [] : strengths(this.hit.explanation, word);
    this.#light(shown, most);
  }

  lightRegion(region: number | null): void {
    this.#light(
      this.#regions.map((_, n) => (n === region ? 1 : 0)),
      1,
    );
  }

  /** Shows a region's label at its upper edge, inside the picture, in a fixed size on screen; none for null. */
  #label(region: Box | null): void {
    const [left, top, right] = region?.box ?? [0, 0, 0];
    const one = LABEL_PX / (this.element.getScreenCTM()?.a || 1);
    const atRight = left > (this.hit.width ?? 1) / 2;
    this.#name.textContent = region?.box ? region.label : "";
    this.#name.setAttribute("font-size", String(one));
    this.#name.setAttribute("text-anchor", atRight ? "end" : "start");
    this.#name.setAttribute("x", String(atRight ? right - one / 4 : left + one / 4));
    this.#name.setAttribute("y", String(top + 1.1 * one));
  }

  #light(shown: number[], most: number): void {
    const best = Math.max(...shown);
    for (const edge of this.element.querySelectorAll(".edge")) edge.remove();
    for (const [n, rect] of this.#rects) {
      const strength = most > 0 ? (shown[n] ?? 0) / most : 0;
      const lit = strength >= FAINTEST;
      rect.classList.toggle("lit", lit);
      const isBest = lit && shown[n] === best;
      rect.classList.toggle("strongest", isBest);
      if (!isBest && rect.parentNode !== this.#lights) this.#lights.append(rect);
      if (isBest) {
        const edge = rect.cloneNode() as Element; // a dark outline around the light one, visible on any background
        edge.setAttribute("class", "edge");
        this.#name.before(edge, rect); // over all other regions
      }
      const opacity = lit ? 0.08 + 0.5 * strength : 0;
      rect.setAttribute("fill-opacity", (isBest ? opacity : opacity / CEILING).toFixed(3));
    }
    if (this.names) this.#label(most > 0 && best >= FAINTEST * most ? this.#regions[shown.indexOf(best)]! : null);
  }

  /** The smallest region at a point of the screen; null if there is none. */
  regionAt(x: number, y: number): number | null {
    const matrix = this.element.getScreenCTM();
    if (!matrix) return null;
    const at = new DOMPoint(x, y).matrixTransform(matrix.inverse());
    let found: number | null = null;
    let smallest = Infinity;
    this.#regions.forEach(({ box }, n) => {
      if (!box || at.x < box[0] || at.x > box[2] || at.y < box[1] || at.y > box[3]) return;
      const area = (box[2] - box[0]) * (box[3] - box[1]);
      if (area < smallest) [found, smallest] = [n, area];
    });
    return found;
  }
}
