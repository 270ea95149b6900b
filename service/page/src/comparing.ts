// Two models, one query: both lists side by side, and how far each picture moved from the one to the other.
import { el } from "./dom";
import type { PictureHit } from "./openapi";
import { resultGrid, type Actions } from "./results";
import { counted } from "./text";

export interface Ranking {
  model: string;
  results: PictureHit[];
}

export function sideBySide(left: Ranking, right: Ranking, actions: Actions): HTMLElement {
  return el("div", { class: "beside" }, column(left, right, actions), column(right, left, actions));
}

function column(answer: Ranking, other: Ranking, actions: Actions): HTMLElement {
  const { grid, words } = resultGrid(answer.results, actions, `Results of ${answer.model}`);
  const places = new Map(other.results.map((hit) => [hit.image_id, hit.rank]));
  for (const [n, hit] of answer.results.entries()) {
    const moved = movement(hit.rank, places.get(hit.image_id), other.model);
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

/** Where the other model has a picture, compared with its rank here. */
function movement(rank: number, there: number | undefined, model: string): string {
  if (there === undefined) return `not found by ${model}`;
  if (there === rank) return "the same place";
  return `${counted(Math.abs(there - rank), "place")} ${there > rank ? "higher" : "lower"} than by ${model}`;
}
