"""PyTorch, imported without parts that only its compiler and fake tensors need, for processes that serve.

Its last import, `torch._meta_registrations`, registers Python kernels for the shapes of the results of hundreds of
operators, and loads their decompositions: a quarter of PyTorch's import time, and 17 MB. A stand-in replaces it. Code
that compiles, exports or fakes tensors must import all of PyTorch.
"""

import sys
from types import ModuleType

from models.stand_ins import stand_ins

if "torch" not in sys.modules:
    with stand_ins(ModuleType("torch._meta_registrations")):
        import torch  # noqa: F401
