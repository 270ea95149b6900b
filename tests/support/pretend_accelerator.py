"""A device that is not there: tensors that say they lie on it, hold their numbers in memory, and refuse to meet others.

On a GPU an operation on tensors of two devices fails. So it does here, with the same results otherwise, so that a
tensor left behind on the CPU is found on any machine, also where sizes depend on what was computed, which
FakeTensorMode cannot follow. `lazy` is a device type of PyTorch that nothing here drives; CUDA itself would be started.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("lazy", 0)
CPU = torch.device("cpu")
aten = torch.ops.aten
# What may meet tensors of another device: copies between devices, and indices on the CPU into any tensor.
COPIES = (aten._to_copy.default, aten.copy_.default)
# Lengths of sequences lie on the CPU, and so does the second of what comes out.
BY_LENGTHS = (
    aten._pack_padded_sequence.default,
    aten._pad_packed_sequence.default,
    aten._pack_padded_sequence_backward.default,
)
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default)


class Pretended(Tensor):
    """A tensor on the pretended device; `numbers` holds its numbers."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, real: Tensor) -> "Pretended":
        made = Tensor._make_wrapper_subclass(
            cls,
            real.shape,
            strides=real.stride(),
            storage_offset=real.storage_offset(),
            dtype=real.dtype,
            device=DEVICE,
            requires_grad=real.requires_grad,
        )
        made.numbers = real
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Pretended({self.numbers!r})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return run_pretended(func, args, kwargs or {})


class PretendMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets tensors be created on the pretended device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run_pretended(func, args, kwargs or {})


def run_pretended(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """The operation on the numbers; RuntimeError where tensors of both devices meet. A number is welcome anywhere."""
    given = [one for one in tree_flatten((args, dict(kwargs)))[0] if isinstance(one, Tensor)]
    there = any(isinstance(one, Pretended) for one in given)
    left = [one for one in given if not isinstance(one, Pretended) and one.dim() > 0]
    excepted = func in COPIES or func in BY_LENGTHS
    if there and left and not excepted and not (func in INDEXED and isinstance(args[0], Pretended)):
        shapes = [f"{tuple(one.shape)} on {one.device}" for one in given]
        raise RuntimeError(f"Expected all tensors to be on the same device: {func} of {', '.join(shapes)}")
    wanted = kwargs.get("device")
    target = torch.device(wanted) if wanted is not None else DEVICE if there else CPU
    if func is aten.copy_.default:
        target = args[0].device
    own = dict(kwargs) | ({"device": CPU} if wanted is not None else {})
    made = func(*tree_map(unpretended, args), **tree_map(unpretended, own))
    if func._schema.is_mutable and isinstance(made, Tensor):
        return args[0] if func._schema.arguments[0].alias_info is not None else kwargs.get("out", made)
    if target.type != DEVICE.type:
        return made
    if func in BY_LENGTHS and isinstance(made, tuple):
        return Pretended(made[0]), made[1]
    return tree_map(lambda one: Pretended(one) if isinstance(one, Tensor) else one, made)


def unpretended(value: Any) -> Any:
    """The numbers of a tensor that pretends; anything else as it is."""
    return value.numbers if isinstance(value, Pretended) else value


def move(module: nn.Module) -> None:
    """Put a module's parameters and buffers on the device."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(Pretended(parameter.data), parameter.requires_grad))
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, Pretended(buffer))


@contextmanager
def pretended_device() -> Iterator[torch.device]:
    """The device, for the length of the block."""
    with PretendMode():  # type: ignore[no-untyped-call]
        yield DEVICE
