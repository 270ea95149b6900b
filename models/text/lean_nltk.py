"""nltk's tokenizer, imported without scipy even if that is installed.

One of nltk's modules imports a significance test from scipy, which nothing here calls. That import would load hundreds
of modules: five sixths of nltk's import time. So a stand-in provides the function, and imports scipy when it is called.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from models.stand_ins import stand_ins

SCIPY, STATISTICS = "scipy", "scipy.stats"


def _fisher_exact(*arguments: Any, **options: Any) -> Any:
    return import_module(STATISTICS).fisher_exact(*arguments, **options)


def _import_without_scipy() -> None:
    scipy, statistics = ModuleType(SCIPY), ModuleType(STATISTICS)
    statistics.fisher_exact = _fisher_exact  # type: ignore[attr-defined]
    scipy.__path__ = []  # nothing else is found inside
    with stand_ins(scipy, statistics):
        import nltk  # noqa: F401, PLC0415


if SCIPY not in sys.modules and "nltk" not in sys.modules:
    _import_without_scipy()

from nltk.tokenize import NLTKWordTokenizer  # noqa: E402

__all__ = ["NLTKWordTokenizer"]
