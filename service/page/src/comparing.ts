// The results of two models for one query side by side, and how the rank of each picture differs.
import { el } from "./dom";
import type { PictureHit } from "./openapi";
import { type Actions, resultGrid } from "./results";
import { movement } from "./text";

export interface Ranking {
  model: string;
  results: PictureHit[];
}

/** The answers of two models that were asked for the best `k`. */
export function sideBySide(left: Ranking, right: Ranking, k: number, actions: Actions): HTMLElement {
  return el("div", { class: "beside" }, column(left, right, k, actions), column(right, left, k, actions));
}

function column(answer: Ranking, other: Ranking, k: number, actions: Actions): HTMLElement {
  const { grid, words } = resultGrid(answer.results, actions, `Results of ${answer.model}`);
  const places = new Map(other.results.map((hit) => [hit.image_id, hit.rank]));
  for (const [n, hit] of answer.results.entries()) {
    const moved = movement(hit.rank, places.get(hit.image_id), other, k);
    grid.children[n]!.querySelector(".about")!.prepend(el("span", { class: "moved" }, `${hit.rank}. ${moved}`));
  }
  return el(
    "section",
    { "aria-label": answer.model },
    el("h2", {}, answer.model),
    words && el("div", { class: "words" }, ...words.elements),
    grid,
  );
}
