// The picture that was asked with, small, before what else can be asked with it.
import { el } from "./dom";
import type { Asked } from "./history";

export function askedPicture(asked: Asked, title: string, ...besides: HTMLElement[]): HTMLElement {
  const source = "image" in asked ? URL.createObjectURL(asked.image) : `/images/${asked.image_id}/thumbnail`;
  const done = () => "image" in asked && URL.revokeObjectURL(source);
  // Browsers show no RAW and few HEIC files, which can be asked with all the same.
  const shown = el("img", { src: source, alt: `Asked with: ${title}`, onload: done, onerror: () => (done(), shown.remove()) });
  return el("div", { class: "asked" }, shown, ...besides);
}
