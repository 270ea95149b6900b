"""Python's pickles read as data: no name in them is imported, nothing in them is called.

A pickle may name any callable and have it called while it is read. Here every name is looked up in a short list, and
what is found there is an empty class made for the one reading: it holds what the file says and does nothing.
Where an empty class is not enough (pickled_arrays.py), its caller gives a stand-in of our own for the name.
"""

import argparse
import pickle
import re
from collections import OrderedDict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

# All that a reader of damaged or forged bytes raises: they are another program's instructions, out of step.
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


class Refused(ValueError):
    """A file that is not read any further; the message says what it holds."""


class _Inert(pickle.Unpickler):
    """Knows the names it is given, as classes without behaviour, and `stand_ins` for others."""

    def __init__(self, file: BinaryIO, names: Collection[str], stand_ins: Mapping[str, Any], encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self.stand_ins = {**{name: type(name, (), {}) for name in names}, **stand_ins}

    def find_class(self, module: str, name: str) -> Any:
        wanted = f"{module}.{name}"
        if wanted not in self.stand_ins:
            raise Refused(f"it names {wanted}, which is not among {', '.join(sorted(self.stand_ins)) or 'no names'}")
        return self.stand_ins[wanted]


def read_pickle(
    path: Path, names: Collection[str] = (), stand_ins: Mapping[str, Any] | None = None, encoding: str = "utf-8"
) -> Any:
    """A pickle that names nothing but `names` ("module.class"): objects with the file's attributes; else Refused.

    `stand_ins` are names for which the file gets a callable of the caller's. Text that Python 2 wrote is in `encoding`.
    """
    try:
        with path.open("rb") as file:
            return _Inert(file, names, stand_ins or {}, encoding).load()
    except Refused as problem:
        raise Refused(f"{path} is not read: {problem}") from None
    except _MALFORMED as problem:
        raise Refused(f"{path} is not a pickle that can be read: {problem}") from problem


def read_torch(path: Path) -> Any:
    """A file of torch.save, of any age and from any device: tensors, containers and `opt` as a namespace or dict."""

    class EasyDict:
        """Becomes a plain ordered dict: the real one runs code for every key."""

        def __new__(cls, *_: object) -> Any:
            return OrderedDict[str, Any]()

    try:
        with torch.serialization.safe_globals([argparse.Namespace, (EasyDict, "easydict.EasyDict")]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except _MALFORMED as problem:
        # torch's own message says how to go on without the check.
        named = re.search(r"GLOBAL (\S+)", str(problem))
        what = f"it names {named[1]}, which no checkpoint needs" if named else "it is no checkpoint of torch.save"
        raise Refused(f"{path} is not read: {what}") from problem
