"""NumPy arrays out of a pickle, rebuilt here from their bytes: NumPy's own functions are never reached by name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from models.safe_load.restricted_pickle import Refused, read_pickle

PLAIN = re.compile(r"[fiu][1248]|b1")  # numbers and truth values: no objects, no structures


class _Kind:
    """What a pickle says of an array's numbers."""

    def __init__(self, code: str, *_: object) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]

    def dtype(self) -> np.dtype[Any]:
        """The type; ValueError unless it is one of plain numbers."""
        if not isinstance(self.code, str) or not PLAIN.fullmatch(self.code) or self.order not in ("<", ">", "=", "|"):
            raise ValueError(f"an array of {self.code!r}")
        kind: np.dtype[Any] = np.dtype(("" if self.order == "|" else self.order) + self.code)
        return kind


class _Array:
    """An array that is still bytes."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.kind, self.columns_first, self.content = state

    def array(self) -> np.ndarray:
        """The array itself, writable, in this machine's byte order."""
        content = self.content.encode("latin1") if isinstance(self.content, str) else self.content
        numbers = np.frombuffer(content, self.kind.dtype())
        shaped: np.ndarray = numbers.reshape(self.shape, order="F" if self.columns_first else "C")
        return shaped.astype(shaped.dtype.newbyteorder("="))


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encoded(text: str, *_: object) -> bytes:
    """How Python 3 writes bytes for readers of Python 2."""
    return text.encode("latin1")


STAND_INS = {
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy.ndarray": _Array,
    "numpy.dtype": _Kind,
    "_codecs.encode": _encoded,
    "collections.OrderedDict": dict,
}


def read_arrays(path: Path) -> dict[str, Any]:
    """A pickled dict of arrays, text and numbers, and of dicts of such; Refused where it holds or names anything else.

    Written by Python 2 or 3, by any NumPy, at pickle protocols 0 to 4.
    """
    stored = read_pickle(path, stand_ins=STAND_INS, encoding="latin1")
    if not isinstance(stored, dict):
        raise Refused(f"{path} holds a {type(stored).__name__}, not arrays by name")
    try:
        return _unpacked(stored)
    except (AttributeError, TypeError, ValueError) as problem:
        raise Refused(f"{path} is not read: {problem}") from problem


def _unpacked(stored: Mapping[Any, Any]) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for name, value in stored.items():
        if isinstance(value, _Array):
            held[name] = value.array()
        elif isinstance(value, dict):
            held[name] = _unpacked(value)
        elif value is None or isinstance(value, str | int | float):
            held[name] = value
        else:
            raise TypeError(f"{name} is a {type(value).__name__}")
    return held
