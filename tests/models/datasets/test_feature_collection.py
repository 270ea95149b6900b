"""Features without pictures, read from every layout as the same thing."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from models.datasets.bottom_up_tsv import convert_tsv
from models.datasets.feature_collection import FeatureRecord, open_collection
from models.datasets.feature_store import extract_features
from models.extractors.precomputed import NoDetector, PrecomputedConfig, PrecomputedExtractor
from models.extractors.registry import load_extractor
from tests.models.datasets.test_bottom_up_tsv import regions, six, ten
from tests.support.fakes import FakeExtractor
from tests.support.feature_layouts import THEIRS, arrays, scan_layout
from tests.support.library import two_coloured


def test_scans_arrays_say_no_more_than_features_and_captions(tmp_path: Path) -> None:
    features = arrays()
    collection = open_collection([scan_layout(tmp_path, features)], extractor=THEIRS)
    assert (collection.extractor, collection.num_regions, collection.feature_dim) == (THEIRS, 4, 16)
    pictures = list(collection.pictures())
    assert collection.total == len(pictures) == 5
    assert [one.name for one in pictures] == ["100", "101", "102", "103", "104"]
    assert pictures[1].captions == ("1 0", "1 1", "1 2", "1 3", "1 4")
    np.testing.assert_array_equal(pictures[1].features, features[1].astype(np.float16))
    assert (pictures[1].boxes, pictures[1].confidence, pictures[1].size) == (None, None, None)
    assert set(pictures[1].labels) == {"region"}


def test_without_ids_pictures_are_numbered(tmp_path: Path) -> None:
    scan_layout(tmp_path, arrays(), split="dev", ids=False)
    names = [one.name for one in open_collection([tmp_path], split="dev").pictures()]
    assert names == ["dev 0", "dev 1", "dev 2", "dev 3", "dev 4"]


def test_an_extraction_keeps_its_boxes_names_and_the_pictures_size(tmp_path: Path) -> None:
    two_coloured("red", "blue", 40, 20).save(tmp_path / "wide.png")
    PIL.Image.new("RGB", (5, 9)).save(tmp_path / "thin.png")  # has one region alone
    files = {name: tmp_path / name for name in ("wide.png", "thin.png")}
    list(extract_features(FakeExtractor(), files, tmp_path / "out"))
    collection = open_collection([tmp_path / "out"], captions={"thin.png": ["black"]})
    wide, thin = collection.pictures()
    assert collection.extractor == "fake-extractor"
    assert wide.labels == ("picture", "left", "right", "centre")
    assert (wide.size, thin.size) == ((40, 20), (5, 9))
    assert (wide.captions, thin.captions) == ((), ("black",))
    assert wide.boxes is not None
    assert wide.boxes[1].tolist() == [0, 0, 20, 20]
    assert thin.features.shape == (1, 16)


def test_both_layouts_of_a_tsv_say_what_they_know(tmp_path: Path) -> None:
    (tmp_path / "six.tsv").write_text(six("11", 2, seed=1) + six("12", 3, seed=2))
    (tmp_path / "ten.tsv").write_text(ten("x", 2, [1, 0]))
    (tmp_path / "objects.txt").write_text("dog,hound\ncat")
    eleven, twelve = open_collection([tmp_path / "six.tsv"]).pictures()
    boxes, vectors = regions(2, 1)
    np.testing.assert_array_equal(eleven.boxes, boxes)
    np.testing.assert_array_equal(eleven.features, vectors.astype(np.float16))
    assert (eleven.labels, eleven.confidence, eleven.size) == (("region",) * 2, None, (640, 480))
    assert len(twelve.features) == 3
    (seen,) = open_collection([tmp_path / "ten.tsv"], objects=tmp_path / "objects.txt").pictures()
    assert (seen.labels, seen.size) == (("cat", "dog"), (640, 480))
    assert seen.confidence is not None
    assert seen.confidence.tolist() == [1, 0.5]


def test_a_tsv_and_the_folder_made_of_it_are_the_same_pictures(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(six("11", 2, seed=1) + six("12", 3, seed=2))
    list(convert_tsv([tmp_path / "a.tsv"], tmp_path / "out", num_regions=5))
    ids = [
        [one.image_id("bottom-up-36") for one in open_collection([tmp_path / source]).pictures()]
        for source in ("a.tsv", "out")
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2


def feature_record(**changes: object) -> FeatureRecord:
    fields = {
        "name": "a",
        "features": np.arange(8, dtype=np.float16).reshape(2, 4),
        "boxes": np.ones((2, 4), np.float32),
        "labels": ("dog", "cat"),
        "confidence": np.ones(2, np.float32),
    }
    return FeatureRecord(**{**fields, **changes})  # type: ignore[arg-type]


def test_an_id_is_of_the_regions_and_what_made_them() -> None:
    ids = [
        feature_record().image_id(THEIRS),
        feature_record().image_id("others"),
        feature_record(features=np.arange(8, dtype=np.float16).reshape(2, 4) + 1).image_id(THEIRS),
        feature_record(boxes=None).image_id(THEIRS),
        feature_record(confidence=None).image_id(THEIRS),
        feature_record(boxes=np.zeros((2, 4), np.float32)).image_id(THEIRS),
        feature_record(labels=("cat", "dog")).image_id(THEIRS),
        feature_record(features=np.arange(8, dtype=np.float16).reshape(4, 2), labels=("a",) * 4).image_id(THEIRS),
    ]
    assert len(set(ids)) == len(ids)
    assert all(len(one) == 32 and set(one) <= set("0123456789abcdef") for one in ids)
    same = feature_record(
        name="b", captions=("a dog",), size=(640, 480), features=np.asfortranarray(feature_record().features)
    )
    assert same.image_id(THEIRS) == ids[0]
    assert ids[0] == "ed52007b7ec5e3994f5c5e7b32af7b4a"  # today and for ever: what was stored is known again


def test_what_is_none_of_the_layouts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"neither manifest\.json.* nor test_ims\.npy"):
        open_collection([tmp_path])
    (tmp_path / "empty.tsv").touch()
    with pytest.raises(ValueError, match=r"no picture in .*empty\.tsv"):
        open_collection([tmp_path / "empty.tsv"])
    with pytest.raises(ValueError, match="give one folder, or TSV files"):
        open_collection([tmp_path, tmp_path])
    scan_layout(tmp_path, arrays())
    with pytest.raises(ValueError, match=r"has captions of its own, test_caps\.txt"):
        open_collection([tmp_path], captions={"100": ["a"]})


def test_what_made_features_elsewhere_is_written_down_and_looks_at_no_picture(tmp_path: Path) -> None:
    made = PrecomputedConfig(digest=THEIRS, num_regions=4, feature_dim=16, labels=("dog", "cat"))
    (tmp_path / "config.json").write_bytes(made.to_json())
    extractor = load_extractor(tmp_path)
    assert isinstance(extractor, PrecomputedExtractor)
    assert (extractor.config, extractor.digest, extractor.labels) == (made, THEIRS, ("dog", "cat"))
    with pytest.raises(NoDetector, match="their-features is known by its features alone"):
        extractor.extract([PIL.Image.new("RGB", (4, 4))])
