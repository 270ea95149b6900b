// What is stored, page by page: pictures with their state, edited in place and deleted.
import { ask } from "./api";
import { button, el, find } from "./dom";
import { editor, remove } from "./editing";
import type { ImageListed, ImagesAnswer } from "./openapi";
import { thumbnail } from "./results";
import { day, titleOf } from "./text";

const PAGE = 48;
const MORE = "Show more";

export interface Listed {
  sort: string;
  filter: unknown;
}

export class Library {
  private readonly grid = el("ol", { class: "grid", "aria-label": "Library" });
  private readonly more = button(MORE, () => void this.next(), { class: "more" });
  private after: string | null = null;
  private shown = 0;

  constructor(
    private readonly listed: Listed,
    private readonly like: (image: ImageListed) => void,
  ) {}

  get element(): HTMLElement {
    return el("div", {}, this.grid, this.more);
  }

  /** The first page. */
  async start(signal: AbortSignal): Promise<ImagesAnswer> {
    return ask<ImagesAnswer>(this.path(), { signal });
  }

  show(page: ImagesAnswer): void {
    this.grid.append(...page.images.map((image) => this.card(image)));
    this.shown += page.images.length;
    this.after = page.next;
    this.more.hidden = !page.next;
  }

  private async next(): Promise<void> {
    const first = this.shown;
    this.more.disabled = true;
    try {
      this.show(await ask<ImagesAnswer>(this.path()));
      this.more.textContent = MORE;
    } catch (fault) {
      this.more.textContent = `${MORE} (${fault instanceof Error ? fault.message : String(fault)})`;
    } finally {
      this.more.disabled = false;
    }
    this.grid.children[first]?.querySelector("button")?.focus();
  }

  private path(): string {
    const query = new URLSearchParams({ limit: String(PAGE), sort: this.listed.sort });
    if (this.after) query.set("after", this.after);
    if (this.listed.filter) query.set("filter", JSON.stringify(this.listed.filter));
    return `/images?${query}`;
  }

  private card(image: ImageListed): HTMLElement {
    const item = el("li", { class: "card", "data-image": image.image_id });
    const look = () => item.replaceChildren(...this.view(image, item));
    look();
    return item;
  }

  private view(image: ImageListed, item: HTMLElement): Node[] {
    const look = () => item.replaceWith(this.card(image));
    const edit = () => {
      const form = editor(image, (changed) => (image = changed), () => {
        const fresh = this.card(image);
        item.replaceWith(fresh);
        fresh.querySelector<HTMLElement>("button")?.focus();
      });
      item.append(form);
      form.querySelector("textarea")?.focus();
    };
    const tags = Object.entries(image.tags).map(([name, value]) => `${name}: ${value}`);
    const failed = (refusal: Error) => (find("status").textContent = refusal.message);
    const gone = () => {
      item.hidden = !item.hidden;
      if (!item.hidden) look();
    };
    return [
      image.state === "ready"
        ? el("div", { class: "picture" }, thumbnail(image))
        : el("div", { class: "picture none" }, image.state === "queued" ? "waiting" : image.state),
      el(
        "p",
        { class: "about" },
        el("span", { class: "title" }, titleOf(image)),
        el("span", { class: "quiet" }, [day(image.taken_at), ...tags].join(" · ")),
      ),
      el(
        "div",
        { class: "actions" },
        button("Edit", edit, { class: "link change", "aria-label": `Edit ${titleOf(image)}` }),
        image.state === "ready" &&
          button("More like this", () => this.like(image), { class: "link", "aria-label": `More like this: ${titleOf(image)}` }),
        button("Delete", () => void remove(image, find("status"), gone).catch(failed), {
          class: "link change",
          "aria-label": `Delete ${titleOf(image)}`,
        }),
      ),
    ];
  }
}
