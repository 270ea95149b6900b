"""Libraries that ask for another one when they are imported, and hardly ever use it, are imported without it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def stand_ins(*modules: ModuleType) -> Iterator[None]:
    """Modules that are found under their names while the block imports what asks for them, and not afterwards."""
    named = {module.__name__: module for module in modules}
    sys.modules.update(named)
    try:
        yield
    finally:
        for name, module in named.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
