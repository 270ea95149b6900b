"""`regard evaluate` and the benchmarks on pictures with boxes of their objects."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import grounding, short_questions
from models.datasets.feature_store import extract_features
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor
from tests.support.library import two_coloured
from tests.support.small_matchers import small_weights

COLOURS = ("red", "green", "blue")


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """Options: nine pictures whose left half is an object of its colour's class, their features, boxes and captions."""
    pictures = [(left, right) for left in COLOURS for right in COLOURS]
    names = {f"{n}.png": both for n, both in enumerate(pictures)}
    for name, (left, right) in names.items():
        two_coloured(left, right).save(tmp_path / name)
    for _ in extract_features(FakeExtractor(), {name: tmp_path / name for name in names}, tmp_path / "features"):
        pass
    boxes = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
        "categories": [{"id": n, "name": colour} for n, colour in enumerate(COLOURS)],
        "annotations": [
            {"image_id": n, "category_id": COLOURS.index(left), "bbox": [0, 0, 20, 20]}
            for n, (left, _) in enumerate(pictures)
        ],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(boxes))
    lines = [{"image": name, "captions": [f"a {left} wall"]} for name, (left, _) in names.items()]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    weights = small_weights(tmp_path / "weights", "scan-t2i-avg")
    return {
        "model": weights, "features": tmp_path / "features", "boxes": tmp_path / "boxes.json",
        "captions": tmp_path / "captions.jsonl",
    }  # fmt: skip


def test_grounding_and_short_questions_are_measured_by_boxes(regard: Regard, given: dict[str, Any]) -> None:
    fixed = ["evaluate", "--model", given["model"], "--device", "cpu", "--features", given["features"]]
    both = ["--grounding", given["boxes"], "--short-questions", given["boxes"], "--captions", given["captions"]]
    status, said, noted = regard(*fixed, *both, "--json")
    assert status == 0, noted
    report = json.loads(said)
    assert report["grounding"]["pointing"]["captions"]["questions"] == 9
    assert report["grounding"]["coverage"]["objects"]["percent"] == 100  # the left half is a region
    assert report["short_questions"]["classes"] == {"red": 3, "green": 3, "blue": 3}
    status, said, _ = regard(*fixed, *both)
    assert (status, "any region covers" in said, "first right" in said) == (0, True, True)
    status, said, _ = regard(*fixed, "--grounding", given["boxes"], "--first", 3, "--json")
    assert (status, json.loads(said)["grounding"]["pictures"]) == (0, 3)
    assert "short_questions" not in json.loads(said)


def test_a_report_names_the_boxes_and_pictures_it_was_made_of(regard: Regard, given: dict[str, Any]) -> None:
    def digests(*options: object) -> dict[str, str]:
        fixed = ["evaluate", "--model", given["model"], "--device", "cpu", "--features", given["features"], "--json"]
        status, said, noted = regard(*fixed, "--grounding", given["boxes"], *options)
        assert status == 0, noted
        found: dict[str, str] = json.loads(said)["about"]["digests"]["grounding"]
        return found

    def changed_by(*options: object) -> set[str]:
        return {name for name, digest in digests(*options).items() if digest != whole[name]}

    whole = digests()
    assert sorted(whole) == ["boxes", "captions", "extractor", "features"]
    assert changed_by() == set()
    assert changed_by("--first", 3) == {"captions", "features"}
    assert changed_by("--captions", given["captions"]) == {"captions"}
    given["boxes"].write_text(given["boxes"].read_text().replace("20, 20", "20, 19"))
    assert changed_by() == {"boxes"}


def test_what_cannot_be_measured_is_said(regard: Regard, given: dict[str, Any], tmp_path: Path) -> None:
    fixed = ["evaluate", "--model", given["model"], "--device", "cpu"]
    status, _, errors = regard(*fixed, "--grounding", given["captions"], "--features", given["features"])
    assert (status, "COCO" in errors) == (1, True)
    status, _, errors = regard(*fixed, "--grounding", given["boxes"])
    assert (status, "--features" in errors) == (2, True)
    status, _, errors = regard(*fixed, "--grounding", given["boxes"], "--features", given["features"], "--halves")
    assert (status, "only" in errors) == (2, True)
    (tmp_path / "empty").mkdir()
    status, _, errors = regard(*fixed, "--grounding", given["boxes"], "--images", tmp_path / "empty")
    assert (status, f"empty holds none of the 9 pictures of {given['boxes']}, such as 0.png" in errors) == (1, True)


def changed_boxes(given: dict[str, Any], name: str, value: dict[str, Any]) -> None:
    """Add to every picture of the boxes file, or to every annotation."""
    boxes = json.loads(given["boxes"].read_text())
    boxes[name] = [one | value for one in boxes[name]]
    given["boxes"].write_text(json.dumps(boxes))


def test_pictures_that_are_not_there_are_left_out_and_told(regard: Regard, given: dict[str, Any]) -> None:
    boxes = json.loads(given["boxes"].read_text())
    boxes["images"].insert(0, {"id": 99, "file_name": "gone.png"})
    given["boxes"].write_text(json.dumps(boxes))
    fixed = ["evaluate", "--model", given["model"], "--device", "cpu", "--features", given["features"]]
    both = ["--grounding", given["boxes"], "--short-questions", given["boxes"]]
    status, said, noted = regard(*fixed, *both, "--json")
    assert status == 0, noted
    assert json.loads(said)["grounding"]["pictures"] == json.loads(said)["short_questions"]["pictures"] == 9
    assert noted.count(f"lacks 1 of the 10 pictures of {given['boxes']}, such as gone.png: they are left out") == 1


def test_captions_of_other_pictures_are_told(regard: Regard, given: dict[str, Any], tmp_path: Path) -> None:
    fixed = ["evaluate", "--model", given["model"], "--device", "cpu", "--features", given["features"]]
    asked = [*fixed, "--grounding", given["boxes"], "--captions", tmp_path / "others.jsonl"]
    for image, why in (("other.png", "is of one of these pictures"), ("0.png", "names a class that is marked in its")):
        (tmp_path / "others.jsonl").write_text(json.dumps({"image": image, "captions": ["nothing"]}))
        status, _, noted = regard(*asked)
        assert (status, f"no row for captions: none in {tmp_path / 'others.jsonl'} {why}" in noted) == (0, True)
    (tmp_path / "others.jsonl").write_text(json.dumps({"image": "0.png", "captions": ["a red wall"]}))
    assert "no row for captions" not in regard(*asked)[2]


def test_a_model_that_says_nothing_of_words_shows_no_regions(
    regard: Regard, given: dict[str, Any], tmp_path: Path
) -> None:
    model = small_weights(tmp_path / "sman", "sman")
    fixed = ["evaluate", "--model", model, "--device", "cpu", "--features", given["features"]]
    status, said, _ = regard(*fixed, "--grounding", given["boxes"])
    assert (status, "people are shown: no regions of words" in said) == (0, True)


def test_boxes_on_another_scale_are_scaled_or_refused(regard: Regard, given: dict[str, Any]) -> None:
    fixed = ["evaluate", "--model", given["model"], "--device", "cpu", "--features", given["features"], "--json"]
    asked = [*fixed, "--grounding", given["boxes"]]
    expected = json.loads(regard(*asked)[1])["grounding"]
    changed_boxes(given, "annotations", {"bbox": [0, 0, 200, 200]})  # the pictures are 40 x 20
    status, _, errors = regard(*asked)
    assert (status, "0.png is 40 x 20 pixels, and a box ends outside" in errors) == (1, True)
    assert regard(*fixed, "--short-questions", given["boxes"])[0] == 0  # which go by no boxes
    changed_boxes(given, "images", {"width": 400, "height": 200})
    assert json.loads(regard(*asked)[1])["grounding"] == expected
    changed_boxes(given, "images", {"width": 200, "height": 400})
    status, _, errors = regard(*asked)
    assert (status, "0.png is 200 x 400 there, and 40 x 20 as found" in errors) == (1, True)


@pytest.mark.parametrize("program", [grounding, short_questions])
def test_a_table_of_several_models_is_printed(
    program: Any, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--features", given["features"], "--boxes", given["boxes"], "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["", str(given["model"]), *map(str, options)])
    program.main()
    printed = capsys.readouterr().out
    assert "| a X" in printed
    assert printed.startswith("| model |")


def test_pictures_of_numbers_that_are_not_finite_are_refused(regard: Regard, given: dict[str, Any]) -> None:
    np.load(given["features"] / "features.npy", mmap_mode="r+")[4, 0, 0] = np.nan
    fixed = ["evaluate", "--model", given["model"], "--device", "cpu", "--features", given["features"]]
    lines = given["captions"].read_text().splitlines()
    split = [json.dumps(json.loads(line) | {"split": "dev" if n else "test"}) for n, line in enumerate(lines)]
    given["captions"].write_text("\n".join(split) + "\n")
    with_gallery = ["--captions", given["captions"], "--split", "test", "--gallery", "dev"]
    for asked in (["--grounding", given["boxes"]], ["--short-questions", given["boxes"]], with_gallery):
        status, said, noted = regard(*fixed, *asked)
        assert (status, said) == (1, "")
        assert "the features of 4.png hold numbers that are not finite: extract them again" in noted
