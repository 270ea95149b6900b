"""Digests of what a training learns from."""

from pathlib import Path

from models.training.inputs import SAMPLED_BYTES, digest_of_photographs


def test_photographs_are_known_by_their_sizes_and_some_of_their_bytes(tmp_path: Path) -> None:
    files = [tmp_path / name for name in "abc"]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * (3 * SAMPLED_BYTES))
    first = digest_of_photographs(files)
    assert digest_of_photographs(files) == first
    assert digest_of_photographs(files[::-1]) != first
    assert digest_of_photographs(files[:2]) != first
    files[2].write_bytes(bytes([2]) * (3 * SAMPLED_BYTES + 1))
    longer = digest_of_photographs(files)
    files[2].write_bytes(bytes([2]) * SAMPLED_BYTES + bytes([3]) * SAMPLED_BYTES + bytes([2]) * SAMPLED_BYTES)
    assert len({first, longer, digest_of_photographs(files)}) == 3


def test_of_many_photographs_no_more_are_read_than_asked_for(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(9)]
    for number in (0, 4, 8):
        files[number].write_bytes(b"pixels")  # the others are not there
    assert digest_of_photographs(files, most=3) == digest_of_photographs([files[n] for n in (0, 4, 8)])
