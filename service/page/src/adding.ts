// The panel that takes pictures in: files, folders, their progress, what was left out and why, what failed, to try again.
import { ask } from "./api";
import { button, el, find } from "./dom";
import type { FailuresAnswer } from "./openapi";
import { counted } from "./text";
import { retry, upload, type Found, type Outcome, type Progress } from "./uploads";

export class Adding {
  private readonly panel = find("add");
  private readonly bar = el("progress", { "aria-label": "Pictures taken in", max: 1, value: 0, hidden: true });
  private readonly words = el("p", { role: "status" });
  private readonly left = el("div", {});
  private readonly failures = el("div", {});

  /** `onadded` is called when pictures can be found that could not before. */
  constructor(private readonly onadded: () => void) {
    this.panel.append(
      el("h2", {}, "Add pictures"),
      el("p", {}, "Drop files or folders anywhere on this page, or choose them:"),
      el("p", { class: "actions" }, chooser("Files…", "choose-files", false, this.take), chooser("A folder…", "choose-folder", true, this.take)),
      this.bar,
      this.words,
      this.left,
      this.failures,
      button("Close", () => (this.panel.hidden = true)),
    );
  }

  open(): void {
    this.panel.hidden = false;
    void this.showFailures();
    this.panel.querySelector("input")?.focus();
  }

  take = async (files: Found[]): Promise<void> => {
    this.panel.hidden = false;
    if (!files.length) return;
    try {
      this.tell(await upload(files, this.tell), true);
      await this.showFailures();
    } catch (fault) {
      this.words.textContent = fault instanceof Error ? fault.message : String(fault);
    }
    this.onadded();
  };

  private tell = (progress: Progress, over = false): void => {
    const left = progress.skipped.length + progress.failed.length;
    this.bar.hidden = false;
    this.bar.max = progress.total;
    this.bar.value = progress.done + left;
    const parts = [`${progress.done} of ${progress.total} can be found`];
    if (progress.known) parts.push(`${progress.known} already there`);
    if (progress.skipped.length) parts.push(`${progress.skipped.length} left out`);
    if (progress.failed.length) parts.push(`${progress.failed.length} failed`);
    this.words.textContent = `${over ? "Done" : "Taking in"}: ${parts.join(", ")}.`;
    this.left.replaceChildren(...reasons("Left out", progress.skipped));
  };

  async showFailures(): Promise<void> {
    const { failures } = await ask<FailuresAnswer>("/failures");
    this.failures.replaceChildren(...reasons("Set aside", failures, (one) => this.retryButton(one)));
  }

  private retryButton(failure: Outcome): HTMLElement {
    const again = async () => {
      await retry(failure.image_id!, this.tell);
      await this.showFailures();
      this.onadded();
    };
    return button("Try again", () => void again().catch((fault: Error) => (this.words.textContent = fault.message)), {
      "aria-label": `Try again: ${failure.filename}`,
    });
  }
}

function chooser(text: string, id: string, folder: boolean, take: (files: Found[]) => Promise<void>): HTMLElement {
  const input = el("input", {
    id,
    type: "file",
    class: "hidden",
    multiple: true,
    webkitdirectory: folder,
    onchange: () => void take([...(input.files ?? [])].map(found)).finally(() => (input.value = "")),
  });
  return el("label", { class: "button" }, text, input);
}

function found(file: File): Found {
  return { file, path: file.webkitRelativePath || file.name };
}

function reasons(title: string, outcomes: Outcome[], extra: (one: Outcome) => HTMLElement | null = () => null): Node[] {
  if (!outcomes.length) return [];
  const items = outcomes.map((one) => el("li", {}, el("b", {}, one.filename), ` ${one.reason} `, extra(one)));
  return [el("h3", {}, `${title}: ${counted(outcomes.length, "file")}`), el("ul", { class: "reasons" }, ...items)];
}
