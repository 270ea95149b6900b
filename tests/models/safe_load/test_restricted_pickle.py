"""Pickles are data: what they name is not looked up, and what they ask for does not happen."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from models.safe_load.restricted_pickle import Refused, read_pickle, read_torch
from tests.support import authors_checkpoints as authors


class Payload:
    """Touches a file when it is unpickled by a reader that lets it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """What the payload leaves behind; first it is shown to work."""
    pickle.loads(pickle.dumps(Payload(tmp_path / "shown")))
    assert (tmp_path / "shown").exists()
    return tmp_path / "owned"


@pytest.mark.parametrize("zipped", [False, True])
def test_a_payload_in_a_checkpoint_is_refused_by_name_and_does_not_run(
    zipped: bool, owned: Path, tmp_path: Path
) -> None:
    stored = {"model": authors.encoders(), "opt": Payload(owned)}
    torch.save(stored, tmp_path / "bad.pth.tar", _use_new_zipfile_serialization=zipped)
    with pytest.raises(Refused, match=f"names {os.name}.mkdir"):
        read_torch(tmp_path / "bad.pth.tar")
    assert not owned.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_a_payload_in_a_vocabulary_is_refused_by_name_and_does_not_run(
    protocol: int, owned: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps({"word2idx": Payload(owned)}, protocol))
    with pytest.raises(Refused, match=f"{os.name}.mkdir, which is not among __main__.Vocabulary"):
        read_pickle(tmp_path / "bad.pkl", ["__main__.Vocabulary"])
    assert not owned.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__main__\nVocabulary\n(S'1'\ntR.",  # a call of the class that is known
        b"(S'1'\ni__main__\nOther\n.",
        b"c__main__\nVocabulary.__init__\n.",
        b"\x80\x04\x95",
        b"",
        b"P1\n.",
    ],
)
def test_what_is_no_plain_object_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "v.pkl").write_bytes(content)
    with pytest.raises(Refused, match=r"v\.pkl"):
        read_pickle(tmp_path / "v.pkl", ["__main__.Vocabulary"])


def test_a_known_class_becomes_an_object_that_holds_what_the_file_says(tmp_path: Path) -> None:
    held = read_pickle(authors.write_camp_vocabulary(tmp_path / "v.pkl"), ["__main__.Vocabulary"])
    assert held.idx2word == dict(enumerate(authors.WORDS))
    again = read_pickle(authors.write_camp_vocabulary(tmp_path / "v.pkl"), ["__main__.Vocabulary"])
    assert type(held) is not type(again)  # nothing that a file does to a class outlives its reading


def test_files_of_another_time_and_device_read_the_same(tmp_path: Path) -> None:
    now = authors.write(tmp_path / "now.pth.tar", authors.encoders(), authors.SCAN)
    then = tmp_path / "then.pth.tar"
    then.write_bytes(authors.from_python_2_and_a_gpu(now.read_bytes()))
    first, second = read_torch(now), read_torch(then)
    assert vars(first["opt"]) == vars(second["opt"]) == authors.SCAN
    for one, other in zip(first["model"], second["model"], strict=True):
        for name in one:
            assert torch.equal(one[name], other[name])


def test_nested_easydicts_become_dicts(tmp_path: Path) -> None:
    stored = read_torch(authors.write_camp(tmp_path / "camp.pth.tar", [], authors.CAMP))
    assert dict(stored["opt"]) == authors.CAMP


@pytest.mark.parametrize("content", [b"", b"\x80\x02}.", b"PK\x03\x04 no zip", b"text", bytes(200)])
def test_what_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.pth.tar").write_bytes(content)
    with pytest.raises(Refused, match=r"m\.pth\.tar is not read"):
        read_torch(tmp_path / "m.pth.tar")
