"""Pointing against plain loops: boxes by their formula, words by their places, random regions by their mean."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.coco_boxes import BoxedPictures, PictureObjects, read_coco_boxes
from models.evaluation.class_names import TEMPLATES, class_places, from_template, plural
from models.evaluation.confidence import interval_of_ratio, resample_counts
from models.evaluation.grounding import box_overlaps, centres_inside, measure_grounding
from models.matching.ensemble import build_ensemble
from models.matching.single_matcher import SingleMatcher
from tests.support.small_matchers import small_matcher

WORDS = ("dog", "dogs", "traffic", "light", "lights", "photo", "beside")
box = st.tuples(*[st.integers(0, 30)] * 2, *[st.integers(1, 30)] * 2).map(
    lambda b: [b[0], b[1], b[0] + b[2], b[1] + b[3]]
)


@given(st.lists(box, min_size=1, max_size=4), st.lists(box, min_size=1, max_size=3))
def test_overlaps_and_centres_are_those_counted_pixel_by_pixel(
    regions: list[list[int]], objects: list[list[int]]
) -> None:
    overlaps = box_overlaps(np.array(regions, float), np.array(objects, float))
    inside = centres_inside(np.array(regions, float), np.array(objects, float))
    for r, one in enumerate(regions):
        pixels = {(x, y) for x in range(one[0], one[2]) for y in range(one[1], one[3])}
        for n, other in enumerate(objects):
            others = {(x, y) for x in range(other[0], other[2]) for y in range(other[1], other[3])}
            assert overlaps[r, n] == pytest.approx(len(pixels & others) / len(pixels | others))
            x, y = (one[0] + one[2]) / 2, (one[1] + one[3]) / 2
            assert inside[r, n] == (other[0] <= x <= other[2] and other[1] <= y <= other[3])


def test_an_empty_box_covers_nothing() -> None:
    assert box_overlaps(np.zeros((1, 4)), np.zeros((1, 4))).tolist() == [[0.0]]


def made_matcher(name: str = "scan-t2i-avg", seed: int = 1) -> SingleMatcher:
    return small_matcher(name, seed, words=WORDS)


def boxed(count: int = 5) -> tuple[CaptionedFeatures, np.ndarray, list[PictureObjects]]:
    random = np.random.default_rng(3)
    features = random.normal(size=(count, 4, 16)).astype(np.float16)
    mask = np.arange(4) < np.array([4, 3, 4, 2, 4])[:count, None]
    corners = random.uniform(0, 60, (count, 4, 2))
    regions = np.concatenate([corners, corners + random.uniform(20, 60, (count, 4, 2))], 2)
    objects = []
    for k in range(count):
        near = {"dog": regions[k, :1] + 5, "traffic light": regions[k, 1:3] + 40, "cat": regions[k, 1:2]}
        shown = [name for n, name in enumerate(near) if (k + n) % 3]
        objects.append(PictureObjects(f"{k}.jpg", {name: near[name] for name in shown}, frozenset(shown)))
    captions = [["two dogs beside a traffic light", "nothing"], [], ["Traffic lights"], ["a dog"], ["dogs"]][:count]
    return CaptionedFeatures.from_arrays(features, mask, captions, "fake-extractor"), regions, objects


@pytest.mark.parametrize("name", ["scan-t2i-avg", "scan-i2t-avg", "bfan-equal", "caan", "camp"])
@torch.no_grad()
def test_pointing_is_what_a_loop_over_pairs_finds(name: str) -> None:
    matcher = made_matcher(name)
    data, regions, objects = boxed()
    found = measure_grounding(matcher, data, regions, objects)
    hits: dict[tuple[str, str, str], list[float]] = {}
    for k, picture in enumerate(objects):
        images, _ = matcher.encode_regions(data.regions(slice(k, k + 1)))
        real = [r for r in range(4) if data.mask[k, r]]
        for thing, own in picture.boxes.items():
            right = {
                "overlap": [bool((box_overlaps(regions[k, r : r + 1], own) >= 0.3).any()) for r in real],
                "centre": [bool(centres_inside(regions[k, r : r + 1], own).any()) for r in real],
            }
            asked = [("a X", f"a {thing}"), ("X", thing)]
            asked += [("captions", text) for text in data.captions[k]]
            for kind, sentence in asked:
                words = matcher.words(sentence)
                forms = (thing.split(), plural(thing).split())
                places = [n for n, word in enumerate(words) if any(word in form for form in forms)]
                if not places:
                    continue
                explanation = matcher.explain(images, matcher.encode_sentences([sentence])[0])
                for way, matrix in (("shares", explanation.shares), ("attention", explanation.attention)):
                    if matrix is None:
                        continue
                    sums = [sum(float(matrix[0, 0, w, r]) for w in places) for r in real]
                    pointed = sums.index(max(sums))
                    for criterion, each in right.items():
                        hits.setdefault((kind, way, criterion), []).append(each[pointed])
                for criterion, each in right.items():
                    hits.setdefault((kind, "random", criterion), []).append(float(np.mean(each)))
    for (kind, way, criterion), values in hits.items():
        own = found["pointing"][kind][way]
        assert own[criterion] == pytest.approx(100 * np.mean(values)), (kind, way, criterion)
        low, high = own["interval"][criterion]
        assert low - 1e-9 <= own[criterion] <= high + 1e-9
    assert found["pointing"]["a X"]["questions"] == len(hits["a X", "random", "overlap"])
    assert found["shown_by"] == ("attention" if name == "camp" else "shares")
    assert set(found["pointing"]) == {"a X", "X", "captions"}


def test_coverage_counts_pairs_and_objects() -> None:
    data, regions, objects = boxed()
    found = measure_grounding(made_matcher(), data, regions, objects)["coverage"]
    pairs, all_objects = [], []
    for k, picture in enumerate(objects):
        real = regions[k][data.mask[k]]
        for own in picture.boxes.values():
            covered = [any(box_overlaps(r[None], o[None])[0, 0] >= 0.3 for r in real) for o in own]
            pairs.append(any(covered))
            all_objects += covered
    assert found["pairs"]["percent"] == pytest.approx(100 * np.mean(pairs))
    assert found["objects"]["percent"] == pytest.approx(100 * np.mean(all_objects))


def test_models_without_a_matrix_have_the_random_region_alone() -> None:
    data, regions, objects = boxed()
    found = measure_grounding(made_matcher("sman"), data, regions, objects)
    assert found["shown_by"] is None
    assert set(found["pointing"]["a X"]) == {"questions", "random"}
    both = build_ensemble([made_matcher(), made_matcher(seed=2)])
    assert measure_grounding(both, data, regions, objects)["shown_by"] == "shares"
    nothing = [PictureObjects(one.image, {}, frozenset()) for one in objects]
    with pytest.raises(ValueError, match="no object"):
        measure_grounding(made_matcher(), data, regions, nothing)


def test_pictures_without_regions_have_nothing_that_points() -> None:
    data, regions, objects = boxed()
    found = measure_grounding(made_matcher(), replace(data, mask=np.zeros_like(data.mask)), regions, objects)
    assert (found["pointing"], found["shown_by"], found["coverage"]["objects"]["percent"]) == ({}, None, 0)


def test_words_that_name_a_class_are_found_as_a_run() -> None:
    forms = [("traffic", "light"), ("traffic", "lights")]
    assert class_places(["<start>", "a", "traffic", "light", "<end>"], forms) == [2, 3]
    assert class_places(["a", "light", "in", "traffic"], forms) == []
    assert class_places(["traffic", "lights", "and", "traffic", "light"], forms) == [0, 1]


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("person", "people"),
        ("bus", "buses"),
        ("wine glass", "wine glasses"),
        ("knife", "knives"),
        ("toothbrush", "toothbrushes"),
        ("teddy bear", "teddy bears"),
        ("toy", "toys"),
        ("baby", "babies"),
        ("scissors", "scissors"),
    ],
)
def test_plurals(one: str, many: str) -> None:
    assert plural(one) == many


def test_templates_are_sentences() -> None:
    assert [from_template(template, "apple") for template in TEMPLATES] == [
        "apple", "an apple", "a photo of an apple", "is there an apple?", "apples",
    ]  # fmt: skip


def test_the_interval_of_a_ratio_is_over_pictures() -> None:
    hits, questions = np.array([1.0, 0, 2, 0]), np.array([1.0, 0, 3, 2])
    ratios = [100 * (c @ hits) / (c @ questions) for c in resample_counts(4) if c @ questions]
    assert interval_of_ratio(hits, questions) == pytest.approx(np.percentile(ratios, [2.5, 97.5]))


def test_coco_files_are_read_in_the_order_of_their_pictures(tmp_path: Path) -> None:
    stored = {
        "images": [{"id": 7, "file_name": "b.jpg"}, {"id": 3, "file_name": "a.jpg"}],
        "categories": [{"id": 1, "name": "Dog"}, {"id": 5, "name": "cup"}],
        "annotations": [
            {"image_id": 3, "category_id": 1, "bbox": [1, 2, 10, 20]},
            {"image_id": 3, "category_id": 1, "bbox": [0, 0, 4, 4], "iscrowd": 0},
            {"image_id": 3, "category_id": 5, "bbox": [0, 0, 9, 9], "iscrowd": 1},
        ],
    }
    path = tmp_path / "boxes.json"
    path.write_text(json.dumps(stored))
    found = read_coco_boxes(path)
    assert [picture.image for picture in found.pictures] == ["b.jpg", "a.jpg"]
    assert found.pictures[1].boxes["dog"].tolist() == [[1, 2, 11, 22], [0, 0, 4, 4]]
    assert found.pictures[1].shown == {"dog", "cup"}
    assert list(found.pictures[1].boxes) == ["dog"]
    assert (found.classes, found.showing("cup"), found.pictures[0].boxes) == (["dog", "cup"], [1], {})
    assert isinstance(found.first(1), BoxedPictures)
    assert len(found.first(1).pictures) == 1
    for broken in (
        "[]",
        "{}",
        "nonsense",
        json.dumps({**stored, "images": []}),
        json.dumps(stored).replace("[1, 2, ", "["),
    ):
        path.write_text(broken)
        with pytest.raises(ValueError, match="COCO"):
            read_coco_boxes(path)
    for change, words in (
        ({"image_id": 9}, "annotation 2 has the image_id 9"),
        ({"category_id": 9}, "annotation 2 has the category_id 9"),
        ({"bbox": [0, 0, -3, 4]}, "annotation 2 has a box of -3 x 4"),
    ):
        last = {**stored["annotations"][2], **change}
        path.write_text(json.dumps({**stored, "annotations": [*stored["annotations"][:2], last]}))
        with pytest.raises(ValueError, match=words):
            read_coco_boxes(path)
