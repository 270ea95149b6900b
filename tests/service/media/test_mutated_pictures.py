"""Mutated files of every format give a picture or a reason: no decoding process dies, nothing is left behind.

REGARD_MUTATIONS=10000 asks for more than a daily run has time for.
"""

import os
from pathlib import Path

import pytest

from service.media.decode_pool import DecodeFailed, DecodePool
from service.media.formats import FORMATS
from service.settings import Settings
from tests.support.mutation_run import WELL, MutationRun, failure_summary, most_memory_of_children
from tests.support.picture_mutations import MutatedFile, dimension_fields, mutated_files, right_png_checksums
from tests.support.picture_seeds import sound_files

COUNT = int(os.environ.get("REGARD_MUTATIONS", "800"))
SEED = 2


@pytest.mark.slow
@pytest.mark.timeout(600 + COUNT)
def test_a_mutated_file_gives_a_picture_or_a_reason(tmp_path: Path) -> None:
    run = MutationRun(tmp_path)
    run.run(COUNT, SEED)
    assert run.outcomes.total() == COUNT
    assert run.harm == 0, f"{run.report()}; the files are in {run.harmful}"
    for kind in FORMATS:
        seen = {outcome for one, outcome in run.outcomes if one == kind}
        assert seen >= {"shown", "refused at its header"}, f"{kind}: mutations are too wild, or too mild: {seen}"


@pytest.mark.parametrize("kind", FORMATS)
def test_what_mutations_start_from_is_taken_in(tmp_path: Path, kind: str) -> None:
    run = MutationRun(tmp_path)
    with DecodePool.from_settings(Settings(decode_workers=1), readable=[tmp_path]) as pool:
        for content in sound_files()[kind]:
            assert run.send(pool, MutatedFile(kind, (), content)) == "shown"
        assert most_memory_of_children() > 0


def test_a_seed_gives_the_same_files_again_and_another_seed_others() -> None:
    once, again = (list(mutated_files(64, 5)) for _ in range(2))
    assert once == again
    others = list(mutated_files(64, 6))
    assert sum(one.content == other.content for one, other in zip(once, others, strict=True)) <= 2
    assert {file.kind for file in once} == set(FORMATS)


@pytest.mark.parametrize("kind", FORMATS)
def test_dimensions_are_found_in_every_format(kind: str) -> None:
    assert all(dimension_fields(content) for content in sound_files()[kind] if b"VP8L" not in content[:40])


def test_checksums_of_a_png_are_made_right_again() -> None:
    whole = sound_files()["PNG"][0]
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    right_png_checksums(damaged)
    assert bytes(damaged) == whole


class DyingPool:
    """Its process dies at every file, or leaves a part."""

    def __init__(self, thumbnail: bool) -> None:
        self._thumbnail = thumbnail

    def inspect(self, path: Path) -> str:
        return "jpg"

    def decode(self, path: Path, thumbnail: Path, stripped: Path) -> None:
        if not self._thumbnail:
            raise DecodeFailed("Decoding the picture failed: its process ended with signal 11.", final=False)
        stripped.write_bytes(b"")


@pytest.mark.parametrize("thumbnail", [False, True])
def test_harm_is_counted_and_its_file_kept(tmp_path: Path, thumbnail: bool) -> None:
    run = MutationRun(tmp_path)
    outcome = run.send(DyingPool(thumbnail), MutatedFile("JPEG", (), b"harmful"))  # type: ignore[arg-type]
    assert outcome not in WELL
    assert run.harm == run.report()["harm"] == 1
    assert [path.read_bytes() for path in run.harmful.iterdir()] == [b"harmful"]


def test_failures_are_told_apart() -> None:
    assert failure_summary(DecodeFailed("It took longer.", final=False, timed_out=True)) == "too large or too slow"
    assert failure_summary(DecodeFailed("Decoding the picture takes more memory than is allowed.", final=False)) in WELL
    assert failure_summary(DecodeFailed("The file is damaged.", final=True)) in WELL
    assert failure_summary(DecodeFailed("Decoding the picture failed; the log says how.", final=False)) not in WELL
