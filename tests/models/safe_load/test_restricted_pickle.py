"""Pickles are data: what they name is not looked up, what they ask for does not happen, and arrays come back."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.safe_load.restricted_pickle import RefusedFile, read_pickle, read_pickled_arrays, read_torch_file
from tests.support import authors_checkpoints as authors

ITSELF = dict[str, Any]()
ITSELF["w"] = ITSELF


class Payload:
    """Makes a folder when it is unpickled by a reader that lets it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """The folder that the payload would make; the payload is first shown to work."""
    pickle.loads(pickle.dumps(Payload(tmp_path / "shown")))
    assert (tmp_path / "shown").exists()
    return tmp_path / "owned"


@pytest.mark.parametrize("zipped", [False, True])
def test_a_payload_in_a_checkpoint_is_refused_by_name_and_does_not_run(
    zipped: bool, owned: Path, tmp_path: Path
) -> None:
    stored = {"model": authors.encoders(), "opt": Payload(owned)}
    torch.save(stored, tmp_path / "bad.pth.tar", _use_new_zipfile_serialization=zipped)
    with pytest.raises(RefusedFile, match=f"names {os.name}.mkdir"):
        read_torch_file(tmp_path / "bad.pth.tar")
    assert not owned.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_a_payload_in_a_vocabulary_is_refused_by_name_and_does_not_run(
    protocol: int, owned: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps({"word2idx": Payload(owned)}, protocol))
    with pytest.raises(RefusedFile, match=f"{os.name}.mkdir, which is not among __main__.Vocabulary"):
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
    with pytest.raises(RefusedFile, match=r"v\.pkl"):
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
    first, second = read_torch_file(now), read_torch_file(then)
    assert vars(first["opt"]) == vars(second["opt"]) == authors.SCAN
    for one, other in zip(first["model"], second["model"], strict=True):
        for name in one:
            assert torch.equal(one[name], other[name])


def test_nested_easydicts_become_dicts(tmp_path: Path) -> None:
    stored = read_torch_file(authors.write_camp(tmp_path / "camp.pth.tar", [], authors.CAMP))
    assert dict(stored["opt"]) == authors.CAMP


@pytest.mark.parametrize("content", [b"", b"\x80\x02}.", b"PK\x03\x04 no zip", b"text", bytes(200)])
def test_what_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.pth.tar").write_bytes(content)
    with pytest.raises(RefusedFile, match=r"m\.pth\.tar is not read"):
        read_torch_file(tmp_path / "m.pth.tar")


def written(path: Path, held: Any, protocol: int) -> Path:
    path.write_bytes(pickle.dumps(held, protocol))
    return path


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("kind", ["<f4", ">f4", "f8", "f2", "i8", "u1", "?"])
def test_arrays_of_every_protocol_come_back(kind: str, protocol: int, tmp_path: Path) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(kind)
    arrays = {"a": array, "columns": np.asfortranarray(array), "one": array[0, 0, 1:2]}
    held = {"model": arrays, "__author__": "x"}
    read = read_pickled_arrays(written(tmp_path / "w.pkl", held, protocol))
    assert read["__author__"] == "x"
    for name, expected in arrays.items():
        np.testing.assert_array_equal(read["model"][name], expected)
        assert read["model"][name].dtype.isnative
        assert read["model"][name].flags.writeable


def test_an_array_of_python_2_comes_back(tmp_path: Path) -> None:
    # What Python 2 wrote at protocol 0 or 1 holds the bytes as a plain string.
    raw = np.array([1.5, -2.0], "<f4").tobytes()
    opcodes = b"".join(
        [
            b"}U\x01wcnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR",
            b"(K\x01(K\x02tcnumpy\ndtype\n(U\x02f4K\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
            b"I00\nU" + bytes([len(raw)]) + raw + b"tbs.",
        ]
    )
    (tmp_path / "w.pkl").write_bytes(opcodes)
    np.testing.assert_array_equal(read_pickled_arrays(tmp_path / "w.pkl")["w"], np.array([1.5, -2.0], np.float32))


@pytest.mark.parametrize("protocol", range(5))
def test_a_payload_beside_or_within_an_array_is_refused_and_does_not_run(protocol: int, tmp_path: Path) -> None:
    payload = Payload(tmp_path / "owned")
    for held in ({"w": np.zeros(3), "x": payload}, {"w": np.array([payload], dtype=object)}, {payload: 1}):
        with pytest.raises(RefusedFile, match=r"names \w+\.mkdir"):
            read_pickled_arrays(written(tmp_path / "bad.pkl", held, protocol))
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "held",
    [
        [1, 2],
        {"w": [np.zeros(2)]},
        {"w": np.array([None, 1], dtype=object)},
        {"w": np.zeros(2, [("a", "f4")])},
        {"w": np.array(["text"])},
        {"w": np.dtype("f4")},
        ITSELF,
    ],
)
def test_what_is_no_array_of_numbers_is_refused(held: Any, tmp_path: Path) -> None:
    with pytest.raises(RefusedFile, match=r"w\.pkl"):
        read_pickled_arrays(written(tmp_path / "w.pkl", held, 4))


def test_an_array_with_too_few_bytes_is_refused(tmp_path: Path) -> None:
    whole = pickle.dumps({"w": np.arange(4, dtype="u1")}, 2)
    (tmp_path / "w.pkl").write_bytes(whole.replace(b"K\x04\x85", b"K\x05\x85"))
    with pytest.raises(RefusedFile, match="reshape"):
        read_pickled_arrays(tmp_path / "w.pkl")
