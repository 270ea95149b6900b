"""torchvision, imported without PyTorch's compiler.

One of its modules imports a single function from `torch._dynamo`, the compiler's front end, and calls it only if its
own operators are missing. That import loads sympy and hundreds of modules: nine tenths of torchvision's import time,
and 80 MB. So a stand-in provides the function during the import, and the compiler is imported when the function is
called, or by other code that needs it.
"""

import sys
from types import ModuleType

from models.stand_ins import stand_ins

COMPILER, UTILITIES = "torch._dynamo", "torch._dynamo.utils"


def _is_compile_supported(device_type: str) -> bool:
    from torch._dynamo.utils import is_compile_supported  # noqa: PLC0415 - the import to defer

    return bool(is_compile_supported(device_type))


def _import_without_compiler() -> None:
    compiler, utilities = ModuleType(COMPILER), ModuleType(UTILITIES)
    utilities.is_compile_supported = _is_compile_supported  # type: ignore[attr-defined]
    compiler.utils = utilities  # type: ignore[attr-defined]
    compiler.__path__ = []  # nothing else is found inside
    with stand_ins(compiler, utilities):
        import torchvision  # noqa: F401, PLC0415


if COMPILER not in sys.modules and "torchvision" not in sys.modules:
    _import_without_compiler()
