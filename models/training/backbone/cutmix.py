"""CutMix (Yun et al., ICCV 2019, section 3.1): rectangles of other photographs pasted into those of a batch."""

import math

import torch
from jaxtyping import Float, UInt8
from torch import Tensor


def cut_mix(pixels: UInt8[Tensor, "K 3 H W"], most: float) -> tuple[UInt8[Tensor, "K 3 H W"], Float[Tensor, "K K"]]:
    """Every picture with a rectangle of the next one pasted into it, and the resulting shares of area.

    Row k of the weights holds the shares of picture k's area that come from each picture of the batch; they add up to
    1. The rectangle has the pictures' aspect ratio, an area uniform up to `most` of theirs, and one random position in
    all of them. The random numbers are torch's, so that a checkpoint holds their state.
    """
    height, width = pixels.shape[2:]
    side = math.sqrt(float(torch.rand(())) * most)
    cut = round(side * height), round(side * width)
    top, left = (int(torch.randint(whole - part + 1, ())) for whole, part in zip((height, width), cut, strict=True))
    window = (..., slice(top, top + cut[0]), slice(left, left + cut[1]))
    mixed = pixels.clone()
    mixed[window] = pixels.roll(-1, 0)[window]
    identity = torch.eye(len(pixels), device=pixels.device)
    share = cut[0] * cut[1] / (height * width)
    return mixed, torch.lerp(identity, identity.roll(-1, 0), share)
