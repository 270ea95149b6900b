"""Pickles and files of `torch.save` read as data: no name in them is imported, nothing in them is called.

A pickle may name any callable and have it called while it is read. Here every name is looked up in a short list. For
most of them the unpickler gets an empty class made for the one reading, which holds what the file says and does
nothing; for NumPy's arrays it gets stand-ins that keep the raw bytes, from which the arrays are rebuilt afterwards, so
that NumPy's own functions are never reached by name.
"""

import argparse
import pickle
import re
from collections import OrderedDict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

# Every exception that reading damaged or forged bytes can raise: such bytes are a program's instructions out of step.
_MALFORMED = (
    pickle.UnpicklingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
_PLAIN_DTYPE = re.compile(r"[fiu][1248]|b1")  # numbers and truth values: no objects, no structures


class RefusedFile(ValueError):
    """A file whose content is not accepted; the message names the file and the reason."""


class _RestrictedUnpickler(pickle.Unpickler):
    """Finds an empty class for each of `names`, the given object for each of `stand_ins`, and nothing else."""

    def __init__(self, file: BinaryIO, names: Collection[str], stand_ins: Mapping[str, Any], encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self.stand_ins = {**{name: type(name, (), {}) for name in names}, **stand_ins}

    def find_class(self, module: str, name: str) -> Any:
        wanted = f"{module}.{name}"
        if wanted not in self.stand_ins:
            raise RefusedFile(
                f"it names {wanted}, which is not among {', '.join(sorted(self.stand_ins)) or 'no names'}"
            )
        return self.stand_ins[wanted]


def read_pickle(
    path: Path, names: Collection[str] = (), stand_ins: Mapping[str, Any] | None = None, encoding: str = "utf-8"
) -> Any:
    """The object in a pickle that names nothing but `names` ("module.class") and `stand_ins`.

    Instances of `names` come back as objects of an empty class with the file's attributes. `stand_ins` maps further
    names to the callables that the file gets instead. `encoding` is that of text which Python 2 wrote. RefusedFile
    where the file names anything else or cannot be read.
    """
    try:
        with path.open("rb") as file:
            return _RestrictedUnpickler(file, names, stand_ins or {}, encoding).load()
    except RefusedFile as problem:
        raise RefusedFile(f"{path} is not read: {problem}") from None
    except _MALFORMED as problem:
        raise RefusedFile(f"{path} is not a pickle that can be read: {problem}") from problem


def read_torch_file(path: Path) -> Any:
    """The object in a file of `torch.save`, of any release and from any device, in memory of the CPU.

    It may hold tensors, containers, an `argparse.Namespace` and an `easydict.EasyDict` (read as an ordered dict).
    RefusedFile where it names anything else or is no such file.
    """

    class EasyDict:
        """Creates a plain ordered dict: the real class runs code for every key."""

        def __new__(cls, *_: object) -> Any:
            return OrderedDict[str, Any]()

    try:
        with torch.serialization.safe_globals([argparse.Namespace, (EasyDict, "easydict.EasyDict")]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except _MALFORMED as problem:
        # torch's own message says how to go on without the check.
        named = re.search(r"GLOBAL (\S+)", str(problem))
        what = f"it names {named[1]}, which no checkpoint needs" if named else "it is no checkpoint of torch.save"
        raise RefusedFile(f"{path} is not read: {what}") from problem


class _PickledDtype:
    """The arguments and the state that a pickle gives `numpy.dtype`."""

    def __init__(self, code: str, *_: object) -> None:
        self.code, self.byte_order = code, "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.byte_order = state[1]

    def dtype(self) -> np.dtype[Any]:
        """The type; ValueError unless it is one of plain numbers."""
        plain = isinstance(self.code, str) and _PLAIN_DTYPE.fullmatch(self.code)
        if not plain or self.byte_order not in ("<", ">", "=", "|"):
            raise ValueError(f"an array of {self.code!r}")
        dtype: np.dtype[Any] = np.dtype(("" if self.byte_order == "|" else self.byte_order) + self.code)
        return dtype


class _PickledArray:
    """The state that a pickle gives `numpy.ndarray`, still as bytes."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.pickled_dtype, self.is_column_major, self.content = state

    def array(self) -> np.ndarray:
        """The array, writable and in this machine's byte order."""
        content = self.content.encode("latin1") if isinstance(self.content, str) else self.content
        numbers = np.frombuffer(content, self.pickled_dtype.dtype())
        shaped: np.ndarray = numbers.reshape(self.shape, order="F" if self.is_column_major else "C")
        return shaped.astype(shaped.dtype.newbyteorder("="))


def _reconstruct(*_: object) -> _PickledArray:
    return _PickledArray()


def _encode_latin1(text: str, *_: object) -> bytes:
    """Stands for `_codecs.encode`, by which Python 3 writes bytes for readers of Python 2."""
    return text.encode("latin1")


_ARRAY_STAND_INS = {
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy.ndarray": _PickledArray,
    "numpy.dtype": _PickledDtype,
    "_codecs.encode": _encode_latin1,
    "collections.OrderedDict": dict,
}


def read_pickled_arrays(path: Path) -> dict[str, Any]:
    """A pickled dict of arrays, text and numbers, and of dicts of such; RefusedFile where it holds anything else.

    Written by Python 2 or 3, by any release of NumPy, at pickle protocols 0 to 4.
    """
    stored = read_pickle(path, stand_ins=_ARRAY_STAND_INS, encoding="latin1")
    if not isinstance(stored, dict):
        raise RefusedFile(f"{path} holds a {type(stored).__name__}, not arrays by name")
    try:
        return _rebuild_arrays(stored)
    except _MALFORMED as problem:
        raise RefusedFile(f"{path} is not read: {problem}") from problem


def _rebuild_arrays(stored: Mapping[Any, Any]) -> dict[str, Any]:
    rebuilt: dict[str, Any] = {}
    for name, value in stored.items():
        if isinstance(value, _PickledArray):
            rebuilt[name] = value.array()
        elif isinstance(value, dict):
            rebuilt[name] = _rebuild_arrays(value)
        elif value is None or isinstance(value, str | int | float):
            rebuilt[name] = value
        else:
            raise TypeError(f"{name} is a {type(value).__name__}")
    return rebuilt
