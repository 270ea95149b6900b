"""Half precision for what a training computes without gradients: less than half of the time, for digits that the
augmentation of the pictures changes far more."""

from contextlib import AbstractContextManager, nullcontext

import torch


def half_precision(device: torch.device) -> AbstractContextManager[object]:
    """A block that computes in bfloat16, on a GPU and on a processor that has instructions for it; others would lose
    time by it."""
    if device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)
