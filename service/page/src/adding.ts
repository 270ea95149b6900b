// The panel for adding pictures: choosing files and folders, progress, files left out and why, and failures to retry.
import { ask } from "./api";
import { button, el, find, renew, workButton } from "./dom";
import { CAN_DROP } from "./dropping";
import { type Found, nameOf } from "./finding";
import { Latest } from "./latest";
import type { FailuresAnswer } from "./openapi";
import { counted, isolated, messageOf } from "./text";
import { type Outcome, type Progress, Upload } from "./uploads";

export class Adding {
  readonly #panel = find("add");
  readonly #bar = el("progress", { "aria-label": "Pictures taken in", max: 1, value: 0, hidden: true });
  readonly #words = el("p", { role: "status" });
  readonly #left = el("div", {});
  readonly #failures = el("div", {});
  readonly #failing = new Latest();
  readonly #close = button("Close", () => this.#leave());
  #upload: Upload | null = null;
  #underWay = 0;

  /** `onsent` is called when the service has accepted some pictures, `onadded` when all can be found. */
  constructor(
    private readonly onsent: () => void,
    private readonly onadded: () => void,
  ) {
    this.#panel.append(
      el("h2", {}, "Add pictures"),
      el(
        "p",
        {},
        CAN_DROP ? "Drop files or folders anywhere on this page, or choose them:" : "Choose files or a folder:",
      ),
      el(
        "p",
        { class: "actions" },
        chooser("Files…", "choose-files", false, this.take),
        chooser("A folder…", "choose-folder", true, this.take),
      ),
      this.#bar,
      this.#words,
      this.#left,
      this.#failures,
      this.#close,
    );
    addEventListener("beforeunload", (event) => {
      if (this.#upload?.hasUnsent) event.preventDefault(); // the browser asks whether to leave
    });
  }

  /** Hides all but the progress, to make room for results, or shows everything again. */
  fold(isFolded: boolean): void {
    if (isFolded && this.#bar.hidden) this.#panel.hidden = true; // nothing was sent
    this.#panel.classList.toggle("folded", isFolded);
  }

  open(): void {
    this.#panel.hidden = false;
    this.fold(false);
    void this.showFailures();
    this.#panel.querySelector("input")?.focus();
  }

  #leave(): void {
    this.#panel.hidden = true;
    find("show-add").focus();
  }

  /** Sends the files. `unread` are the paths of unreadable files and folders, which are listed as left out. */
  take = async (files: Found[], unread: string[] = []): Promise<void> => {
    this.#panel.hidden = false;
    this.fold(false);
    this.#panel.scrollIntoView({ block: "nearest" });
    if (files.length || unread.length) await this.#begin((upload) => upload.add(files, unread));
  };

  /** Starts some work. Work started while other work is running joins it, and both share one report. */
  async #begin(work: (upload: Upload) => Promise<void>): Promise<void> {
    this.#upload ??= new Upload(this.#tell, this.onsent);
    const upload = this.#upload;
    this.#underWay++;
    await work(upload);
    this.#underWay--;
    if (this.#underWay) return;
    this.#upload = null;
    this.#tell(upload.progress, true);
    this.onadded();
    await this.showFailures();
  }

  #tell = (progress: Progress, over = false): void => {
    const left = progress.skipped.length + progress.failed.length + progress.refused.length;
    if (over && left) this.#panel.hidden = false; // otherwise whoever closed it would miss that pictures are missing
    this.#bar.hidden = false;
    this.#bar.max = progress.total;
    this.#bar.value = progress.done + left;
    const parts = [`${progress.done} of ${progress.total} can be found`];
    // Shown only at the end, since these also count pictures that cannot be found yet.
    if (over && progress.known.length) parts.push(`${progress.known.length} of them there already`);
    if (over && progress.restored.length) parts.push(`${progress.restored.length} of them deleted before`);
    if (progress.skipped.length) parts.push(`${progress.skipped.length} left out`);
    if (progress.failed.length) parts.push(`${progress.failed.length} failed`);
    if (progress.refused.length) parts.push(`${progress.refused.length} not taken in`);
    const told = [...new Set(progress.faults), `${over ? "Done" : "Taking in"}: ${parts.join(", ")}.`];
    if (progress.waiting) told.push(`${progress.waiting} It is waited for.`);
    // Screen readers should not announce each picture.
    this.#words.ariaLive = over || progress.waiting || !this.#bar.value ? "polite" : "off";
    renew(this.#words, told.join(" "));
    const atTheEnd = over ? [...this.#refusedOf(progress), ...whatWasThere(progress)] : [];
    this.#replace(this.#left, reasons("Left out", progress.skipped), atTheEnd);
  };

  /** Files refused because of the service's state, such as a full disk, with a button to send them again. */
  #refusedOf({ refused }: Progress): Node[] {
    if (!refused.length) return [];
    const again = workButton("Try again", () => this.take(refused));
    const names = refused.map((one) => ({ filename: nameOf(one), reason: "" }));
    return [...reasons("Not taken in", names), el("p", { class: "actions" }, again)];
  }

  /** Lists pictures that were set aside. An error of this request is shown here alone. */
  async showFailures(): Promise<void> {
    try {
      await this.#failing.run(
        (signal) => ask<FailuresAnswer>("/failures", { signal }),
        ({ failures }) =>
          this.#replace(
            this.#failures,
            reasons("Set aside so far", failures, (one) => this.#retryButton(one)),
          ),
      );
    } catch (fault) {
      const why = messageOf(fault);
      this.#replace(this.#failures, [el("p", { class: "quiet" }, `What was set aside cannot be shown: ${why}`)]);
    }
  }

  /** Replaces the content of an element by lists. The focus keeps its position in them, or moves to what is below. */
  #replace(lists: HTMLElement, ...shown: Node[][]): void {
    const places = () => [...lists.querySelectorAll<HTMLElement>("button, [tabindex]")];
    const place = places().indexOf(document.activeElement as HTMLElement);
    lists.replaceChildren(...shown.flat());
    if (place < 0) return;
    const now = places();
    (now[Math.min(place, now.length - 1)] ?? this.#close).focus({ preventScroll: true });
  }

  #retryButton(failure: Outcome): HTMLElement {
    return workButton("Try again", () => this.#begin((upload) => upload.retry(failure.image_id!)), {
      "aria-label": `Try again: ${failure.filename}`,
    });
  }
}

function chooser(text: string, id: string, folder: boolean, take: (files: Found[]) => Promise<void>): HTMLElement {
  const choose = () => {
    const files = [...(input.files ?? [])].map(found);
    input.value = ""; // the same files can be chosen again
    void take(files);
  };
  const input = el("input", {
    id,
    type: "file",
    class: "hidden",
    multiple: true,
    webkitdirectory: folder,
    onchange: choose,
  });
  return el("label", { class: "button" }, text, input);
}

function found(file: File): Found {
  return { file, path: file.webkitRelativePath || file.name };
}

function whatWasThere({ known, restored }: Progress): Node[] {
  return [...reasons("There already", known), ...reasons("Deleted before, and there again as they were", restored)];
}

function reasons(title: string, outcomes: Outcome[], extra?: (one: Outcome) => HTMLElement): Node[] {
  if (!outcomes.length) return [];
  const items = outcomes.map((one) =>
    el("li", {}, el("bdi", {}, one.filename), ` ${isolated(one.reason)} `, extra?.(one)),
  );
  // So that keys can scroll a long list: a list without buttons must itself take the focus.
  const list = el("ul", { class: "reasons", tabindex: extra ? null : 0 }, ...items);
  return [el("h3", {}, `${title}: ${counted(outcomes.length, "file")}`), list];
}
