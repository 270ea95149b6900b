"""PyTorch, imported without what only its compiler and tensors without data need, for processes that serve.

Its last import registers kernels in Python that tell the shapes of results (`torch._meta_registrations`), of hundreds
of operators, and brings the decompositions of as many: a quarter of the time that PyTorch takes, and 17 MB. A stand-in
is there during the import. Whoever compiles, exports or fakes tensors must import PyTorch as it is.
"""

import sys
from types import ModuleType

from models.stand_ins import stand_ins

if "torch" not in sys.modules:
    with stand_ins(ModuleType("torch._meta_registrations")):
        import torch  # noqa: F401
