// The list of deleted pictures below the library: each can be restored until its deletion is final.
import { ask, fetchFile } from "./api";
import { restorePicture } from "./changes";
import { el, imageOf, isStillAt, workButton } from "./dom";
import { Latest } from "./latest";
import type { ImageListed, ImagesAnswer } from "./openapi";
import { mayChange } from "./session";
import { day, isolated, messageOf, spoken, time, titleOf } from "./text";

const MOST = 1000; // pictures that the service lists at once

export class Deleted {
  readonly #list = el("ul", { class: "deleted" });
  readonly #told = el("p", { class: "quiet", role: "status" });
  readonly #looks = new Latest();
  #listed = "";
  #isFault = false; // whether the message is an error of listing them
  readonly element: HTMLDetailsElement = el(
    "details",
    { class: "change", ontoggle: () => void this.refresh() },
    el("summary", {}, "Deleted pictures"),
    this.#told,
    this.#list,
  );

  /** `onback` gets the id of a restored picture. */
  constructor(private readonly onback: (image_id: string) => void) {}

  /** Lists them again if the list is open. */
  async refresh(): Promise<void> {
    if (!this.element.open || !mayChange()) return; // without permission, a request would ask for another key
    try {
      await this.#looks.run(
        (signal) => ask<ImagesAnswer>(`/images?deleted=true&sort=latest&limit=${MOST}`, { signal }),
        ({ images, next }) => {
          if (this.#isFault) this.#tell("");
          const before = this.#listed;
          this.#listed = JSON.stringify([images, next]);
          if (this.#listed === before) return; // keeps the focus
          const focused = document.activeElement?.closest<HTMLElement>("li")?.dataset.deleted;
          const besides = !images.length
            ? "None can be brought back."
            : next
              ? "Older ones follow once these are back."
              : "";
          const lines = images.map((image) => this.#line(image));
          this.#list.replaceChildren(...lines, ...(besides ? [el("li", { class: "quiet" }, besides)] : []));
          if (focused) this.#focus(focused);
        },
      );
    } catch (fault) {
      this.#tell(messageOf(fault), true);
    }
  }

  #tell(what: string, isFault = false): void {
    [this.#told.textContent, this.#isFault] = [what, isFault];
  }

  /** Focuses the button of a picture, or the element that opens the list. */
  #focus(image_id = ""): void {
    const found = this.#list.querySelector<HTMLElement>(`[data-deleted="${image_id}"] button`);
    (found ?? this.element.querySelector("summary")!).focus({ preventScroll: true });
  }

  #line(image: ImageListed): HTMLElement {
    const title = titleOf(image);
    const bringBack = async () => {
      try {
        await restorePicture(image.image_id);
      } catch (fault) {
        this.#tell(`${isolated(title)}: ${messageOf(fault)}`);
        return;
      }
      line.remove();
      this.#tell(`${isolated(title)} is back.`);
      if (isStillAt(this.element)) this.#focus();
      this.onback(image.image_id);
    };
    const line = el(
      "li",
      { "data-deleted": image.image_id },
      image.thumbnail_url && thumbnail(image.thumbnail_url),
      el("span", { dir: "auto" }, title),
      el(
        "span",
        { class: "quiet" },
        `${day(image.taken_at)}${image.deleted_at ? ` · deleted ${time(image.deleted_at)}` : ""} `,
      ),
      workButton("Bring back", bringBack, { class: "link", "aria-label": `Bring back ${spoken(image)}` }),
    );
    return line;
  }
}

/** A small picture, fetched with the key once it becomes visible; empty if that fails. */
function thumbnail(url: string): HTMLElement {
  const place = el("span", { class: "small" });
  const show = async () => {
    place.append(imageOf(await fetchFile(url), ""));
  };
  const sight = new IntersectionObserver((seen) => {
    if (!seen.some((one) => one.isIntersecting)) return;
    sight.disconnect();
    void show().catch(() => {}); // it can be restored without
  });
  sight.observe(place);
  return place;
}
