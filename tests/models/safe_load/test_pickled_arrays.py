"""Arrays are rebuilt from bytes, whoever pickled them; anything else in the file is refused."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.safe_load.pickled_arrays import read_arrays
from models.safe_load.restricted_pickle import Refused


def written(path: Path, held: Any, protocol: int) -> Path:
    path.write_bytes(pickle.dumps(held, protocol))
    return path


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("kind", ["<f4", ">f4", "f8", "f2", "i8", "u1", "?"])
def test_arrays_of_every_protocol_come_back(kind: str, protocol: int, tmp_path: Path) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(kind)
    held = {"model": {"a": array, "columns": np.asfortranarray(array), "one": array[0, 0, 1:2]}, "__author__": "x"}
    read = read_arrays(written(tmp_path / "w.pkl", held, protocol))
    assert read["__author__"] == "x"
    for name, expected in held["model"].items():
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
    np.testing.assert_array_equal(read_arrays(tmp_path / "w.pkl")["w"], np.array([1.5, -2.0], np.float32))


class Payload:
    """Makes a folder when it is unpickled by a reader that lets it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("protocol", range(5))
def test_a_payload_beside_or_within_an_array_is_refused_and_does_not_run(protocol: int, tmp_path: Path) -> None:
    payload = Payload(tmp_path / "owned")
    for held in ({"w": np.zeros(3), "x": payload}, {"w": np.array([payload], dtype=object)}, {payload: 1}):
        with pytest.raises(Refused, match=r"names \w+\.mkdir"):
            read_arrays(written(tmp_path / "bad.pkl", held, protocol))
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
    ],
)
def test_what_is_no_array_of_numbers_is_refused(held: Any, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"w\.pkl"):
        read_arrays(written(tmp_path / "w.pkl", held, 4))


def test_an_array_with_too_few_bytes_is_refused(tmp_path: Path) -> None:
    whole = pickle.dumps({"w": np.arange(4, dtype="u1")}, 2)
    (tmp_path / "w.pkl").write_bytes(whole.replace(b"K\x04\x85", b"K\x05\x85"))
    with pytest.raises(Refused, match="reshape"):
        read_arrays(tmp_path / "w.pkl")
