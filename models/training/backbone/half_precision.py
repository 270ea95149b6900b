"""Half precision for the parts of a training without gradients: less than half the time, for rounding errors far below
the effect of augmentation."""

from contextlib import AbstractContextManager, nullcontext

import torch


def half_precision(device: torch.device) -> AbstractContextManager[object]:
    """A block that computes in bfloat16 on a GPU, and on a processor with instructions for it; others would be
    slower."""
    if device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)
