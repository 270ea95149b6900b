"""The page about speed says what was recorded, and every run is one that `regard bench` knows."""

import io

import PIL.Image
import pytest

from benchmarks.speed_page import (
    COLUMNS,
    IMAGES,
    PAGE,
    PLOTTED,
    RUNS,
    benchmark_of,
    block_of,
    command_of,
    fenced,
    page_with,
    recorded,
)
from service.bench.charts import chart_of
from service.cli.benchmarks import Benchmark
from service.cli.main import app
from service.errors import UserError

ROWS = [{"what": "regard serve", "listening_s": 2.5, "ready_s": 6.0, "memory_mb": None, "refused_s": None}]
MACHINE = {"cpu": "Some CPU", "cores": 2, "torch": "9", "gflop_per_second": 100.0, "gb_read_per_second": 12.5}
REPORT = {"command": "regard bench start", "month": "May 2026", "hardware": MACHINE, "rows": ROWS}


def test_the_page_says_what_is_recorded() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page_with(text, recorded()) == text, "python -m benchmarks.speed_page write"
    assert {run for run in RUNS if f"<!-- speed: {run} -->" in text} == set(RUNS)


@pytest.mark.parametrize("name", PLOTTED)
def test_plots_are_those_of_what_is_recorded(name: str) -> None:
    path = IMAGES / f"speed-{name}.webp"
    report = recorded().get(name)
    assert path.exists() is (report is not None)
    if report is not None:  # its size follows from the rows; edges of letters may differ by version
        drawn = chart_of(benchmark_of(name), report["rows"]).to_png()
        with PIL.Image.open(path) as kept, PIL.Image.open(io.BytesIO(drawn)) as anew:
            assert kept.size == anew.size, "python -m benchmarks.speed_page write"


def test_plots_are_small() -> None:
    assert sum(path.stat().st_size for path in IMAGES.glob("speed-*")) < 40_000


def test_a_block_has_table_command_and_machine_and_no_empty_column() -> None:
    block = block_of("start", REPORT)
    assert "| what | listens after, s | ready after, s |" in block
    assert "| regard serve | 2.5 | 6 |" in block
    assert "```sh\nregard bench start\n```" in block
    assert "Some CPU, 2 cores, torch 9, May 2026; 100 GFLOP/s, 12.5 GB/s read." in block


def test_what_is_not_recorded_is_said_with_its_command() -> None:
    text = "a\n<!-- speed: start -->\nold\n<!-- end of speed -->\nb\n"
    told = "Not recorded yet:\n\n```sh\nregard bench start --rounds 2\n```\n"
    assert page_with(text, {}) == f"a\n<!-- speed: start -->\n{told}<!-- end of speed -->\nb\n"
    assert "ready after" in page_with(text, {"start": REPORT})
    with pytest.raises(KeyError):
        page_with(text.replace("start", "nothing", 1), {})


@pytest.mark.parametrize("name", RUNS)
def test_runs_are_calls_of_the_program(name: str) -> None:
    what, *options = RUNS[name].split()
    assert what in set(Benchmark)
    assert what in COLUMNS
    # A chart without a folder is refused after the options were read, and before anything is measured.
    with pytest.raises(UserError, match="there is no folder no-such-folder"):
        app(["bench", what, *options, "--plot", "no-such-folder/chart.png"], standalone_mode=False)
    assert command_of(name).split() == ["regard", "bench", what, *options]


def test_long_commands_are_broken_where_a_shell_goes_on() -> None:
    block = fenced(command_of("rerank"))
    assert max(map(len, block.splitlines())) <= 120
    assert block.removeprefix("```sh\n").removesuffix("\n```\n").replace(" \\\n  ", " ") == command_of("rerank")
