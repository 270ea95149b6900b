"""Values with tensors on their way to many shards: pickled once, the tensors as numpy arrays.

PyTorch takes half a millisecond to pickle a small tensor, and a sentence has three, which every shard is sent.
"""

import io
import pickle
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")


class _TensorPickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | Any:
        """Tensors that numpy has a type for become arrays, all else is pickled as ever."""
        if type(value) is torch.Tensor and value.dtype is not torch.bfloat16:
            return torch.from_numpy, (value.detach().cpu().numpy(),)
        return NotImplemented


class Packed(Generic[T]):
    """A value as bytes, which travel as they are. Only for processes that trust each other: it is a pickle."""

    def __init__(self, value: T) -> None:
        content = io.BytesIO()
        _TensorPickler(content, pickle.HIGHEST_PROTOCOL).dump(value)
        self._content = content.getvalue()

    def unpacked(self) -> T:
        """The value; its tensors are on the processor."""
        value: T = pickle.loads(self._content)
        return value
