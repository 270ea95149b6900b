"""Digests of the inputs of a training, which can only be resumed with the same inputs."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import CaptionedPhotographs

DIGITS = 16  # of hexadecimal
SAMPLED_BYTES = 4096  # of a photograph's file


def digests_of_captioned(photographs: CaptionedPhotographs) -> dict[str, str]:
    """Kind of input of captioned photographs -> its digest."""
    names, captions = zip(*((line.image, line.captions) for line in photographs.train), strict=True)
    return {
        "captions": digest_of_pictures(captions, names),
        "contents of photographs": digest_of_photographs([photographs.folder / name for name in names]),
    }


def digest_of_pictures(captions: Iterable[Sequence[str]], names: Iterable[str | int]) -> str:
    """The digest of pictures by name, or by row in arrays of features, with their captions, in order.

    The order decides which pictures come together in a batch.
    """
    content = json.dumps([[name, list(texts)] for name, texts in zip(names, captions, strict=True)])
    return hashlib.sha256(content.encode()).hexdigest()[:DIGITS]


def digest_of_photographs(files: Sequence[Path], most: int = 2000) -> str:
    """The digest of the sizes of at most `most` evenly spaced files, and of bytes in the middle of each, where a
    photograph has its pixels."""
    content = hashlib.sha256()
    for chosen in np.linspace(0, len(files) - 1, min(most, len(files)), dtype=np.int64):
        with files[chosen].open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - SAMPLED_BYTES) // 2)
            content.update(f"{size} ".encode() + opened.read(SAMPLED_BYTES))
    return content.hexdigest()[:DIGITS]


def digest_of_features(data: CaptionedFeatures, most: int = 2000) -> str:
    """The digest of one region, at a changing index, of each of at most `most` evenly spaced pictures.

    Reading all of them would take minutes for tens of gigabytes of features.
    """
    chosen = np.linspace(0, len(data) - 1, min(most, len(data)), dtype=np.int64)
    rows, places = data.rows[chosen], chosen % data.features.shape[1]
    content = hashlib.sha256(np.ascontiguousarray(data.features[rows, places]).tobytes())
    content.update(np.ascontiguousarray(data.mask[rows]).tobytes())
    return content.hexdigest()[:DIGITS]


def digest_of_file(file: Path) -> str:
    """The digest of a file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:DIGITS]


def digest_of_weights(module: nn.Module) -> str:
    """The digest of all weights of a module, with their names."""
    state = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        state.update(name.encode())
        state.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return state.hexdigest()[:DIGITS]
