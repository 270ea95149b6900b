"""torchvision, imported without PyTorch's compiler.

One of its modules asks `torch._dynamo`, the compiler's front end, for a single function, which it calls only where its
own operators are missing. The import brings sympy and hundreds of modules: nine tenths of the time that torchvision
takes, and 80 MB. So a stand-in with that function is there during the import, and the compiler is imported when the
function is called, or by whoever wants it.
"""

import sys
from types import ModuleType

from models.stand_ins import stand_ins

COMPILER, UTILITIES = "torch._dynamo", "torch._dynamo.utils"


def _is_compile_supported(device_type: str) -> bool:
    from torch._dynamo.utils import is_compile_supported  # noqa: PLC0415 - what all of this is about

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
