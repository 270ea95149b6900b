"""Features without pictures in a data directory: taken in whole or not at all, beside others of their make alone."""

import json
import random
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.catalog.catalog import Catalog
from index.lock import Locked, WriterLock
from models.datasets.feature_collection import FeatureCollection, FeatureRecord, open_collection
from service.errors import Misconfigured
from service.ingest.import_features import import_features
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.regions.folders import features_extractor
from tests.models.datasets.test_bottom_up_tsv import six
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor
from tests.support.feature_layouts import THEIRS, arrays, built, jsonl, scan_layout, state, take_in, totals
from tests.support.library import two_coloured
from tests.support.pictures import encoded
from tests.support.project_files import ROOT
from tests.support.web_app import Web
from tests.support.worker_store import Store, noise


def collection(*pictures: FeatureRecord) -> FeatureCollection:
    return FeatureCollection(extractor=THEIRS, num_regions=3, feature_dim=4, pictures=lambda: iter(pictures))


def feature_record(name: str, num: int = 2, width: int = 4, **fields: Any) -> FeatureRecord:
    features = np.full((num, width), len(name), np.float16)
    return FeatureRecord(name=name, labels=("region",) * num, **{"features": features, **fields})


def test_a_picture_that_does_not_fit_holds_up_no_other(tmp_path: Path) -> None:
    endless = np.full((2, 4), np.inf, np.float16)
    nowhere = np.full((2, 4), np.nan, np.float32)
    (taken,) = take_in(
        collection(
            feature_record("a"),
            feature_record("many", num=4),
            feature_record("none", num=0),
            feature_record("wide", width=5),
            feature_record("endless", features=endless),
            feature_record("nowhere", boxes=nowhere),
            feature_record("bb"),
        ),
        tmp_path,
        batch=10,
    )
    assert totals([taken]) == (2, 0, 5)
    told = {one.filename: one.problem for one in taken.rejected}
    assert "room for 3" in told["many"]
    assert told["none"] == "It has no regions."
    assert "5 numbers, not 4" in told["wide"]
    assert "not finite" in told["endless"]
    assert "boxes" in told["nowhere"]
    assert [name for _, name, *_ in state(tmp_path)] == ["a", "bb"]


def test_features_of_another_make_are_refused_with_what_to_do(tmp_path: Path) -> None:
    take_in(collection(feature_record("a")), tmp_path)
    other = FeatureCollection(
        extractor="others", num_regions=3, feature_dim=4, pictures=lambda: iter([feature_record("b")])
    )
    with pytest.raises(Misconfigured, match=r"holds features of their-features, these are of others.*--data-dir"):
        take_in(other, tmp_path)
    wider = FeatureCollection(
        extractor=THEIRS, num_regions=3, feature_dim=5, pictures=lambda: iter([feature_record("b", width=5)])
    )
    with pytest.raises(Misconfigured, match=r"have 4 numbers in .*, these have 5: .*--extractor"):
        take_in(wider, tmp_path)


def test_an_import_that_stored_nothing_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    take_in(collection(feature_record("none", num=0)), tmp_path, batch=10)
    assert features_extractor(DataDir(tmp_path), "shipped") is None
    take_in(collection(feature_record("a")), tmp_path, batch=10)
    found = features_extractor(DataDir(tmp_path), "shipped")
    assert found is not None
    assert found.digest == THEIRS


def test_a_worker_on_the_data_directory_keeps_them_out(tmp_path: Path) -> None:
    with WriterLock(tmp_path), pytest.raises(Locked, match="only one worker may write"):
        take_in(collection(feature_record("a")), tmp_path)


def test_pictures_that_wait_for_a_detector_are_not_left_without_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.accept(encoded(noise(1), "PNG"))
    store.catalog.close()
    with pytest.raises(Misconfigured, match=r"1 pictures in .* wait for a detector"):
        take_in(collection(feature_record("a")), tmp_path)


def test_a_directory_laid_out_for_other_regions_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.drain()
    store.catalog.close()
    with pytest.raises(Misconfigured, match=r"laid out for regions of another shape than 3 x 4.*--data-dir"):
        take_in(collection(feature_record("a")), tmp_path)


def test_features_of_the_detector_here_stand_beside_pictures(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    alone = store.accept(encoded(two_coloured("red", "red"), "PNG"))
    store.drain()
    ours = FeatureCollection(
        extractor="fake-extractor",
        num_regions=4,
        feature_dim=16,
        labels=FakeExtractor.labels,
        pictures=open_collection([scan_layout(tmp_path / "precomp", arrays())]).pictures,
    )
    assert totals(take_in(ours, tmp_path / "data")) == (5, 0, 0)
    assert not (tmp_path / "data" / "extractor" / "config.json").exists()
    more = store.accept(encoded(two_coloured("blue", "red"), "PNG"))
    store.drain()
    assert [image.pictured for image in store.catalog.list_images(None, 10)] == [True, *[False] * 5, True]
    assert [store.image(one).slot for one in (alone, more)] == [0, 6]
    store.catalog.close()


def test_running_again_adds_captions_and_what_is_missing_and_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(six("11", 2, seed=1) + six("12", 3, seed=2))
    first = open_collection([tmp_path / "a.tsv"], extractor=THEIRS)
    assert totals(take_in(first, tmp_path / "data")) == (2, 0, 0)
    lines = six("11", 2, seed=1) + six("13", 1, seed=3) + six("again", 1, seed=3)
    (tmp_path / "b.tsv").write_text(lines)
    captions = {"11": ["a dog", "a cat"], "again": ["once more"]}
    again = open_collection([tmp_path / "b.tsv"], extractor=THEIRS, captions=captions)
    assert totals(take_in(again, tmp_path / "data", batch=3)) == (1, 2, 0)
    found = state(tmp_path / "data")
    assert [(name, slot, texts) for _, name, slot, _, _, _, texts in found] == [
        ("11", 0, ("a dog", "a cat")),
        ("12", 1, ()),
        ("13", 2, ("once more",)),
    ]
    assert totals(take_in(again, tmp_path / "data")) == (0, 3, 0)
    assert state(tmp_path / "data") == found


def test_a_picture_deleted_longer_ago_than_the_grace_comes_as_if_it_had_never_been_there(tmp_path: Path) -> None:
    def take_in_at(now: float, *records: FeatureRecord) -> list[tuple[int, int]]:
        took = import_features(collection(*records), tmp_path, FakeExtractor, delete_grace_s=10.0, clock=lambda: now)
        return [(one.accepted, one.restored) for one in took]

    pictures = [feature_record(name, captions=(f"{name} before",)) for name in ("a", "bb")]
    take_in_at(1.0, *pictures)
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
        for image, deleted_at in zip(catalog.list_images(None, 2), (2.0, 5.0), strict=True):
            catalog.delete(image.image_id, deleted_at)
    again = [replace(one, captions=(f"{one.name} again",)) for one in pictures]
    assert take_in_at(13.0, *again) == [(2, 1)]
    assert [(name, slot, captions) for _, name, slot, *_, captions in state(tmp_path)] == [
        ("bb", 1, ("bb before", "bb again")),
        ("a", 2, ("a again",)),
    ]


def test_a_description_of_features_that_is_missing_or_damaged_is_told_of(tmp_path: Path) -> None:
    take_in(collection(feature_record("a")), tmp_path)
    described = tmp_path / "extractor" / "config.json"
    described.write_text("{")
    for look in (lambda: take_in(collection(), tmp_path), lambda: features_extractor(DataDir(tmp_path), "shipped")):
        with pytest.raises(Misconfigured, match=r"extractor/config.json .* restore the file from a backup; or remove"):
            look()
    described.unlink()
    with pytest.raises(Misconfigured, match=r"copy .*regions/config.json there"):
        take_in(collection(), tmp_path)


KILLED = """
import os, signal, sys, time
from pathlib import Path
from models.datasets.feature_collection import open_collection
from service.ingest.import_features import import_features
from tests.support.fakes import FakeExtractor
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        source = open_collection([Path(sys.argv[1])], extractor="their-features")
        for taken in import_features(source, Path(sys.argv[2]), FakeExtractor, 0.0, batch=3):
            pass
        os._exit(0)
    if float(line):
        time.sleep(float(line))
        os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    features = np.random.default_rng(0).random((240, 4, 16), dtype=np.float32)
    source = scan_layout(tmp_path / "precomp", features)
    take_in(open_collection([source], extractor=THEIRS), tmp_path / "whole")
    rng = random.Random(5)
    delays = [f"{rng.random() * 0.1 + 0.001}" for _ in range(20)] + ["0"]
    command = [sys.executable, "-c", KILLED, str(source), str(tmp_path / "data")]
    ran = subprocess.run(command, input="\n".join(delays), capture_output=True, text=True, check=True, cwd=ROOT)
    statuses = [int(line) for line in ran.stdout.split()]
    assert statuses.count(signal.SIGKILL) > 2
    assert statuses[-1] == 0
    assert state(tmp_path / "data") == state(tmp_path / "whole")
    loaded = built(tmp_path / "data")
    assert [slot for _, _, slot, *_ in state(tmp_path / "data")] == list(range(240))
    web = Web(Settings(data_dir=tmp_path / "data", decode_workers=1), loaded)
    regions = web.services.storage.regions.of(THEIRS)
    assert regions is not None
    for slot in (0, 100, 239):
        np.testing.assert_array_equal(regions.features(slot).features, features[slot].astype(np.float16))
    web.close()


@pytest.mark.slow
def test_the_command_says_what_became_of_them(regard: Regard, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(six("11", 2, seed=1) + six("12", 3, seed=2))
    captions = jsonl(tmp_path / "captions.jsonl", {"11": ["a dog"], "99": ["nobody"]})
    options = ["--data-dir", tmp_path / "data", "--captions", captions, "--regions", 2]
    status, said, noted = regard("ingest-features", tmp_path / "a.tsv", *options, "--json")
    assert status == 1
    problem_said = json.loads(said)["rejected"][0]["problem"]
    assert json.loads(said) == {
        "accepted": 1,
        "restored": 0,
        "duplicates": 0,
        "left_deleted": 0,
        "left_out": 0,
        "described": 0,
        "unread_sidecars": {},
        "rejected": [{"filename": "12", "problem": problem_said}],
        "failed": [],
        "skipped": {},
    }
    assert "1 captioned pictures are not among the features, such as 99" in noted
    (tmp_path / "b.tsv").write_text(six("11", 2, seed=1))
    status, said, _ = regard("ingest-features", tmp_path / "b.tsv", "--data-dir", tmp_path / "data")
    assert (status, said) == (0, "outcome        files\nthere already  1\n")
    status, _, noted = regard(
        "ingest-features", tmp_path / "b.tsv", "--data-dir", tmp_path / "data", "--extractor", "x"
    )
    assert status == 1
    assert noted.splitlines()[-1].startswith("regard: ")
    assert "holds features of bottom-up-36, these are of x" in noted


@pytest.mark.parametrize("captions", ["a dog", ["a dog", 3], ["a dog", " "], {"a": "dog"}])
def test_captions_that_are_none_are_refused_with_their_line(regard: Regard, tmp_path: Path, captions: Any) -> None:
    (tmp_path / "a.tsv").write_text(six("11", 2, seed=1))
    said = jsonl(tmp_path / "captions.jsonl", {"12": ["fine"], "11": captions})
    options = ["--data-dir", tmp_path / "data", "--captions", said]
    status, _, noted = regard("ingest-features", tmp_path / "a.tsv", *options)
    assert (status, "captions.jsonl:2: expected" in noted) == (1, True)
    assert not (tmp_path / "data").exists()
