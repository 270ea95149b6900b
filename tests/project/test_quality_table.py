"""The pages and the cards quote the measured figures as docs/quality.json has them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import quality_table
from benchmarks.collected_reports import DEFAULT, collect, collect_seed
from benchmarks.figures_file import as_json, read
from benchmarks.quality_table import FIGURES, PAGES, SERVED, filled
from models.matching.checkpoint import WEIGHTS
from service.cli.evaluation.captioned_source import Selection
from service.model_names import shipped_models
from service.settings import Settings
from tests.support.project_files import ROOT

MATCHERS = shipped_models()


@pytest.fixture
def quality() -> Any:
    return read(FIGURES)


@pytest.mark.parametrize("page", PAGES)
def test_pages_quote_what_was_measured(page: str, quality: Any) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert filled(page, text, quality) == text, "run `python -m benchmarks.quality_table write`"


@pytest.mark.parametrize("model", MATCHERS)
def test_cards_and_figures_are_of_the_weights_that_ship(model: str, quality: Any) -> None:
    digest = (WEIGHTS / model / "digest").read_text(encoding="utf-8").strip()
    assert quality["models"]["reports"][model]["digest"] == digest, "measure it again"
    assert f"`{digest}`" in (WEIGHTS / model / "card.md").read_text(encoding="utf-8")
    assert f"models/weights/{model}/card.md" in PAGES


def test_the_default_is_the_default_of_the_service(quality: Any) -> None:
    assert Settings().models[0] == DEFAULT == quality["first_pictures"]["report"]["model"]
    assert SERVED in quality["models"]["reports"][DEFAULT]["two_stage"]


def test_every_sum_is_the_sum_of_its_recalls(quality: Any) -> None:
    for report in quality["models"]["reports"].values():
        for search in [report["exhaustive"], report["stage_one"], *report["two_stage"].values()]:
            recalls = [search[way][name] for way in ("text_to_image", "image_to_text") for name in ("r1", "r5", "r10")]
            assert search["rsum"] == pytest.approx(sum(recalls), abs=0.31)
            low, high = search["interval"]["rsum"]
            assert low <= search["rsum"] <= high


def test_a_page_whose_figures_were_changed_is_found(quality: Any) -> None:
    page = "README.md"
    text = (ROOT / page).read_text(encoding="utf-8")
    assert filled(page, text.replace("| 26.4 ", "| 27.4 "), quality) == text
    with pytest.raises(ValueError, match="recall"):
        filled(page, text.replace("<!-- end of figures -->", ""), quality)


def test_a_report_is_put_where_it_belongs(quality: Any) -> None:
    search = {
        "text_to_image": {"r1": 12.34},
        "image_to_text": {"r1": 23.45},
        "rsum": 35.79,
        "interval": {"rsum": (1.04, 2.06)},
    }
    report = {"model": DEFAULT, "images": 1000, "intervals": {"seed": 0}, "exhaustive": search}
    errors = quality["models"]["reports"][DEFAULT]["calibration_error"]
    collect(quality, report)
    kept = quality["models"]["reports"][DEFAULT]
    assert kept["exhaustive"]["text_to_image"] == {"r1": 12.3}
    assert kept["exhaustive"]["interval"] == {"rsum": [1.0, 2.1]}
    assert "intervals" not in kept
    assert kept["calibration_error"] == errors
    collect(quality, report | {"images": 200})
    assert quality["first_pictures"]["report"]["images"] == 200
    collect(quality, report | {"images": 7091, "exhaustive": {"text_to_image": {"r1": 1.0}}})
    assert quality["large_gallery"]["report"]["images"] == 7091
    held_out = {"text": {"100": {"error": 0.0123}}, "image": {"100": {"error": 0.2}}}
    collect(quality, {"model": DEFAULT, "held_out": held_out})
    assert quality["models"]["reports"][DEFAULT]["calibration_error"] == {
        "100": {"text_to_image": 0.012, "image_to_text": 0.2}
    }


def test_another_seed_stands_beside_the_shipped_training(quality: Any) -> None:
    shipped = quality["models"]["reports"][DEFAULT]
    other = {**shipped, "digest": "d", "exhaustive": {**shipped["exhaustive"], "rsum": 300.04}}
    collect_seed(quality, 7, other)
    collect_seed(quality, 7, {**other, "short_questions": quality["boxes"]["short_questions"]})
    assert quality["seeds"]["reports"]["7"]["exhaustive"]["rsum"] == 300.0
    (row,) = (row for row in quality_table.seeds_table(quality).splitlines() if row.startswith("| 7 |"))
    assert "| 300.0 (" in row
    assert f"| {quality_table.rsum(shipped['difference'])} |" in row
    with pytest.raises(ValueError, match="of bfan-equal"):
        collect_seed(quality, 7, {**other, "model": "caan"})


def test_what_no_report_has_is_no_column_and_what_one_has_is_one(quality: Any) -> None:
    for report in quality["models"]["reports"].values():
        for name in ("difference", "halves"):
            report.pop(name, None)
    before = quality_table.models_table(quality)
    assert "difference" not in before
    report = quality["models"]["reports"][DEFAULT]
    report["difference"] = {"rsum": 4.8, "interval": {"rsum": [-1.2, 10.7]}}
    report["halves"] = {"second": {"exhaustive": {"rsum": 380.0, "interval": {"rsum": [370.0, 390.0]}}}}
    head, _, *rows = quality_table.models_table(quality).splitlines()
    assert head.endswith("| stage one | difference (95 %) | second half |")
    (own,) = (row for row in rows if row.startswith(f"| `{DEFAULT}` |"))
    assert own.endswith("| 4.8 (-1.2 to 10.7) | 380.0 (370.0 to 390.0) |")
    halves = sum(map(quality_table.of_half, quality["models"]["reports"].values()))
    assert sum(row.endswith("| - | - | - |") for row in rows) == len(rows) - 2 - halves
    assert {row.count("|") for row in rows} == {head.count("|")}


def test_a_model_that_was_measured_on_half_of_the_pictures_says_so_in_its_row(quality: Any) -> None:
    reports = quality["models"]["reports"]
    half = {**reports["sman"], "images": 500, "digest": "of others", "about": {"part": "second", "first": None}}
    half["exhaustive"] = {**half["exhaustive"], "rsum": 999.0}
    collect(quality, half)
    assert quality_table.of_half(reports["sman"])
    *rows, _ = quality_table.models_table(quality).splitlines()
    (own,) = (number for number, row in enumerate(rows) if row.startswith("| `sman` |"))
    assert rows[own].startswith("| `sman` | - | - | - | - | - | 999.0 (")
    assert own > max(n for n, row in enumerate(rows) if row.startswith(f"| `{DEFAULT}` |"))


@pytest.mark.parametrize(
    ("model", "images", "about", "message"),
    [
        ("sman", 500, {"part": "first", "first": None}, "part first: kept are those of all 1000, of --part second"),
        ("sman", 100, {"part": "second", "first": 100}, "part second: kept are"),
        ("sman", 750, {"part": None, "first": None}, "part None: kept are"),
        ("sman", 500, {"part": "second", "first": None}, "these weights were measured on all"),
        ("sman", 500, {"part": None, "first": 500}, "the first pictures alone are kept of bfan-equal only"),
        ("sman", 500, {}, "does not say which half they are: measure again, with --part second"),
    ],
)
def test_a_report_without_a_place_is_refused(
    quality: Any, model: str, images: int, about: dict[str, Any], message: str
) -> None:
    report = {**quality["models"]["reports"][model], "images": images} | ({"about": about} if about else {})
    before = json.dumps(quality)
    with pytest.raises(ValueError, match=message):
        collect(quality, report)
    assert json.dumps(quality) == before


def test_the_parts_of_a_report_are_those_that_the_command_tells(quality: Any) -> None:
    told = asdict(Selection(part="second"))
    half = {**quality["models"]["reports"]["caan"], "about": told}
    collect(quality, half)
    assert quality == read(FIGURES)


def test_the_first_answer_is_judged_once_it_was_measured(quality: Any) -> None:
    quality["models"]["reports"][DEFAULT].pop("first_answer", None)
    before = quality_table.calibration_error(quality)
    found = {"error": 0.01, "first": {"error": 0.0521, "brier_skill": 0.234, "answers": 5}}
    held_out = {way: {"500": found, "100": found} for way in ("text", "image")}
    collect(quality, {"model": DEFAULT, "held_out": held_out})
    assert "first answer" not in before
    assert "0.052 (0.23) from sentence to picture" in quality_table.calibration_error(quality)


def test_the_file_is_written_as_it_stands(quality: Any) -> None:
    text = FIGURES.read_text(encoding="utf-8")
    assert as_json(quality) + "\n" == text
    assert json.loads(text) == quality


def test_all_figures_can_be_shown(quality: Any) -> None:
    recalls, shortlists = quality_table.full_tables(quality)
    for model in quality["models"]["reports"]:
        assert f"| `{model}`, every pair |" in recalls
        assert f"| `{model}` |" in shortlists


def test_every_page_exists() -> None:
    assert all(Path(ROOT / page).is_file() for page in PAGES)
