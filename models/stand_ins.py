"""Stand-ins for modules that a library imports but hardly ever uses."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def stand_ins(*modules: ModuleType) -> Iterator[None]:
    """Register modules under their names for imports in the block, and remove them afterwards."""
    named = {module.__name__: module for module in modules}
    sys.modules.update(named)
    try:
        yield
    finally:
        for name, module in named.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
