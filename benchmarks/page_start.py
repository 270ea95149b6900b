"""A Markdown table of how soon a service's page can be typed into, and how much it loads, in chromium.

python -m benchmarks.page_start --url http://127.0.0.1:8000 --rounds 15

Each round is a new browser context with empty caches, in a window of 1280 x 720. Times are milliseconds from the start
of navigation until the search box has the focus, until the page also listens to it (its script has run), and until the
library is shown.
"""

import argparse
import shutil
from collections.abc import Sequence
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Response, sync_playwright

from models.bench.timing import hardware

SEARCH_BOX = "#query"
WATCH = f"""
addEventListener("focusin", (event) => {{
  if (event.target.matches("{SEARCH_BOX}")) globalThis.focusedAt ??= performance.now();
}}, true);
"""
# The page's script is deferred, so it has run before DOMContentLoaded.
TIMES = """
() => {
  const script = performance.getEntriesByType("navigation")[0].domContentLoadedEventStart;
  return [globalThis.focusedAt, Math.max(globalThis.focusedAt, script)];
}
"""


def measured_start(browser: Browser, url: str) -> tuple[float, float, float, int, int]:
    """Milliseconds to the focus, to the page's listening and to the library; bytes of thumbnails and of all else."""
    context = browser.new_context()
    sizes = {True: 0, False: 0}

    def weigh(answer: Response) -> None:
        sizes[answer.url.endswith("/thumbnail")] += len(answer.body())

    page = context.new_page()
    page.add_init_script(WATCH)
    page.on("response", weigh)
    page.goto(url)
    page.locator(f"{SEARCH_BOX}:focus").wait_for()
    page.locator("#main > *").first.wait_for()
    shown: float = page.evaluate("performance.now()")
    page.wait_for_load_state("networkidle")
    focused, listening = page.evaluate(TIMES)
    context.close()
    return focused, listening, shown, sizes[False], sizes[True]


def table(rounds: list[tuple[float, float, float, int, int]]) -> str:
    """Medians with the slowest round."""
    columns: list[Sequence[float]] = list(zip(*rounds, strict=True))
    names = ("search box focused, ms", "and listening, ms", "library shown, ms", "kB of the page", "kB of thumbnails")
    columns[3:] = [[size / 1000 for size in sizes] for sizes in columns[3:]]
    rows = [
        f"| {name} | {median(values):.0f} | {max(values):.0f} |" for name, values in zip(names, columns, strict=True)
    ]
    return "\n".join(["| | median | most |", "|---|---|---|", *rows])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    with sync_playwright() as playwright:
        options: dict[str, Any] = {"executable_path": shutil.which("chromium"), "args": ["--no-sandbox"]}
        browser = playwright.chromium.launch(**options)
        measured_start(browser, args.url)  # the browser's own start
        print(table([measured_start(browser, args.url) for _ in range(args.rounds)]))
        browser.close()
    print("\n" + ", ".join(f"{name} {value}" for name, value in hardware().items()))


if __name__ == "__main__":
    main()
