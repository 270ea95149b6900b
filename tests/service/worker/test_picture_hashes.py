"""Hashes made afterwards: of every picture that can be decoded, and tried again of those that could not just now."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from index.records import QueuedPicture
from service.media.decode_pool import DecodeFailed
from service.media.perceptual_hash import NO_HASH, perceptual_hash
from service.storage.originals import Originals
from service.worker.maintenance.picture_hashes import HASHED_AT_ONCE, MissingHashes
from service.worker.open_store import OpenStore
from tests.support.pictures import corners

IDS = [f"{number:032x}" for number in range(2 * HASHED_AT_ONCE)]


class KeptHashes:
    """The hashes of a catalog with these pictures."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def missing(self, limit: int) -> list[QueuedPicture]:
        waiting = [one for one in IDS if one not in self.kept][:limit]
        return [cast(QueuedPicture, SimpleNamespace(image_id=one, extension="png")) for one in waiting]

    def add(self, hashes: Mapping[str, bytes]) -> None:
        self.kept.update(hashes)

    def end_round(self) -> None:
        """Nobody looked them up."""


class FailingPool:
    """Decodes one picture for all files, but those named."""

    def __init__(self, failing: dict[str, bool]) -> None:
        self.failing = failing

    def decode(self, path: Path) -> Any:
        if path.stem in self.failing:
            raise DecodeFailed("It took too long.", final=self.failing[path.stem])
        return SimpleNamespace(picture=corners())


def make_all(kept: KeptHashes, pool: FailingPool, tmp_path: Path) -> int:
    """The turns of one worker until nothing is left to it."""
    store = SimpleNamespace(
        catalog=SimpleNamespace(hashes=kept),
        originals=Originals(tmp_path),
        pool=pool,
        heartbeat=SimpleNamespace(beat=lambda: None),
    )
    hashes, turns = MissingHashes(cast(OpenStore, store)), 0
    while hashes.advance():
        turns += 1
        assert turns < 10
    return turns


def test_a_passing_fault_is_tried_again_at_the_next_start(tmp_path: Path) -> None:
    kept = KeptHashes()
    make_all(kept, FailingPool({IDS[0]: False, IDS[1]: True}), tmp_path)
    expected = perceptual_hash(corners())
    assert kept.kept == {IDS[1]: NO_HASH, **dict.fromkeys(IDS[2:], expected)}
    make_all(kept, FailingPool({}), tmp_path)
    assert kept.kept[IDS[0]] == expected


def test_those_behind_many_that_fail_are_made(tmp_path: Path) -> None:
    kept = KeptHashes()
    make_all(kept, FailingPool(dict.fromkeys(IDS[:HASHED_AT_ONCE], False)), tmp_path)
    assert list(kept.kept) == IDS[HASHED_AT_ONCE:]


def test_a_worker_ends_where_nothing_can_be_decoded_just_now(tmp_path: Path) -> None:
    kept = KeptHashes()
    assert make_all(kept, FailingPool(dict.fromkeys(IDS, False)), tmp_path) == len(IDS) // HASHED_AT_ONCE
    assert kept.kept == {}
