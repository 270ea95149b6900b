"""nltk's tokenizer, imported without scipy where that is installed.

One of nltk's modules takes a test of significance from it, which nothing here calls. The import would bring hundreds of
modules: five sixths of the time that nltk takes. So a stand-in with that function is there meanwhile, which has scipy
imported when it is called.
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
