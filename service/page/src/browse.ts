// The years and albums of the stored pictures, as buttons that narrow the library to one.
import { ask } from "./api";
import { button, el } from "./dom";
import { Latest } from "./latest";
import type { DatesAnswer, MonthListed, TagsAnswer } from "./openapi";
import { filterButton } from "./tagged";
import { messageOf } from "./text";

const ALBUM = "album"; // the tag of pictures from a folder

/** A year or month, as a filter takes it, with its number of pictures. */
type Period = MonthListed;

/** The years, the latest first, and the months of `year`; of a single year the months at once. */
export function periodsOf(months: Period[], year: string): { years: Period[]; months: Period[] } {
  const byYear = new Map<string, number>();
  for (const { month, pictures } of months)
    byYear.set(month.slice(0, -3), (byYear.get(month.slice(0, -3)) ?? 0) + pictures);
  const years = [...byYear].map(([month, pictures]) => ({ month, pictures }));
  const chosen = years.length === 1 ? years[0]!.month : year;
  return { years, months: months.filter(({ month }) => month.slice(0, -3) === chosen) };
}

export class Browse {
  readonly #lists = el("div", { class: "browse" });
  readonly #told = el("p", { class: "quiet", role: "status" });
  readonly #looks = new Latest();
  readonly element: HTMLDetailsElement = el(
    "details",
    { ontoggle: () => void this.refresh() },
    el("summary", {}, "Years and albums"),
    this.#lists,
    this.#told,
  );

  /** `choose` gets a year or month; `chosen` is the one that is chosen, "" for none. */
  constructor(
    private readonly choose: (period: string) => void,
    private readonly chosen: () => string,
  ) {}

  /** Lists them again if the lists are open. */
  async refresh(): Promise<void> {
    if (!this.element.open) return;
    const look = (signal: AbortSignal) =>
      Promise.all([
        ask<DatesAnswer>("/dates", { signal }),
        ask<TagsAnswer>(`/tags?${new URLSearchParams({ search: ALBUM })}`, { signal }),
      ]);
    try {
      await this.#looks.run(look, ([dates, tags]) => {
        this.#told.textContent = "";
        this.#show(dates, tags);
      });
    } catch (fault) {
      this.#told.textContent = messageOf(fault);
    }
  }

  #show({ months, undated }: DatesAnswer, { tags }: TagsAnswer): void {
    const isInside = this.#lists.contains(document.activeElement);
    const focused = isInside && withoutNumber(document.activeElement);
    const periods = periodsOf(months, this.chosen().slice(0, 4));
    const albums = tags.find(({ name }) => name === ALBUM);
    const values = [...(albums?.values ?? [])].sort((one, other) => compared(`${one.value}`, `${other.value}`));
    const more = (albums?.distinct_values ?? 0) - values.length;
    this.#lists.replaceChildren(
      ...row(
        "Years",
        periods.years.map((one) => this.#button(one, one.month)),
        undated ? `${undated} without a date` : "",
      ),
      ...row(
        "Months",
        periods.months.map((one) => this.#button(one, nameOf(one.month))),
      ),
      ...row(
        "Albums",
        values.map(({ value, pictures }) => filterButton([ALBUM, value], `${value} (${pictures})`)),
        more > 0 ? `and ${more} more, to be found under “Tag”` : "",
      ),
    );
    if (!this.#lists.hasChildNodes()) this.#told.textContent = "No picture has a date or an album.";
    if (!isInside) return;
    const same = [...this.#lists.querySelectorAll("button")].find((one) => withoutNumber(one) === focused);
    (same ?? this.element.querySelector("summary"))?.focus({ preventScroll: true });
  }

  #button({ month, pictures }: Period, text: string): HTMLButtonElement {
    const isChosen = `${this.chosen()}-`.startsWith(`${month}-`);
    return button(`${text} (${pictures})`, () => this.choose(month), { class: "tag", "aria-pressed": `${isChosen}` });
  }
}

/** A named row of buttons with a remark; nothing without buttons. */
function row(name: string, buttons: HTMLButtonElement[], remark = ""): HTMLElement[] {
  if (!buttons.length) return [];
  return [el("div", { role: "group", "aria-label": name }, el("h3", {}, name), ...buttons, remark && quiet(remark))];
}

function quiet(text: string): HTMLElement {
  return el("span", { class: "quiet" }, text);
}

/** A month in words, without its year, which is the chosen one. */
function nameOf(month: string): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString("en", { month: "long", timeZone: "UTC" });
}

/** The text of a button without its number of pictures, which may have changed. */
function withoutNumber(one: Element | null): string | undefined {
  return one?.textContent.replace(/ \(\d+\)$/, "");
}

function compared(one: string, other: string): number {
  return one.localeCompare(other, undefined, { numeric: true });
}
