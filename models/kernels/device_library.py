"""Scores of stored pictures on a GPU by the Triton kernel, with the interface of the kernels on a CPU (library.py)."""

import importlib.util
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import Words
from models.kernels.device_records import DeviceRecords
from models.kernels.forms import AnyForm, FormFocal, FormLogits, FormPooling, KernelForm, Question
from models.kernels.library import NoKernels

FEWEST_LANES = 16  # rows and columns of the smallest product on tensor cores
MOST_LANES = 64  # a program's tables then take 66 kB; with 128 lanes more than most GPUs have, and minutes to compile
CHUNK_NUMBERS = 64  # numbers of a region that are multiplied at a time


def lanes_for(count: int) -> int:
    """The least power of two that is at least `count` and 16."""
    return max(FEWEST_LANES, 1 << max(0, count - 1).bit_length())


class DeviceKernels:
    """The Triton kernel with one view's records, which stay on the device up to a budget of bytes."""

    def __init__(self, device: torch.device, budget: int) -> None:
        """Raise NoKernels without Triton."""
        if importlib.util.find_spec("triton") is None:
            raise NoKernels("Triton is not installed; it comes with PyTorch for Linux")
        self.target, self.device_type = "triton", device.type
        self._records = DeviceRecords(device, budget)

    def __deepcopy__(self, memo: object) -> "DeviceKernels":
        """The kernels themselves: copies of a matcher share the records on the device."""
        return self

    def knows(self, form: AnyForm | None) -> bool:
        """Whether the Triton kernel computes the score."""
        return isinstance(form, KernelForm)

    def takes(self, num_regions: int, num_words: int) -> bool:
        """Whether pictures and sentences of these sizes fit into a program's tables."""
        return lanes_for(max(num_regions, num_words)) <= MOST_LANES

    def scores(
        self,
        form: AnyForm,
        records: Mapping[str, npt.NDArray[Any]],
        rows: npt.NDArray[np.int64],
        question: Question,
        threads: int = 1,
    ) -> Float[Tensor, "Q K"]:
        """Scores of the sentences with the pictures `rows`, [K] for all of them or [Q, K]; `threads` is not used.

        Raises IndexError for rows that do not exist.
        """
        if rows.size and not 0 <= rows.min() <= rows.max() < len(records["mask"]):
            raise IndexError(
                f"there are records 0 .. {len(records['mask']) - 1}, asked for {rows.min()} .. {rows.max()}"
            )
        assert isinstance(form, KernelForm)
        assert isinstance(question, Words)
        tables, places = self._records.tables({name: records[name] for name in form.record_fields}, rows)
        if places.dim() == 1:
            places = places.expand(len(question), -1)
        return score_records(form, tables, places, question)


def score_records(form: KernelForm, tables: Mapping[str, Tensor], places: Tensor, words: Words) -> Tensor:
    """[Q, K] scores of the records at `places` [Q, K] of the tables, in one launch."""
    from models.kernels.triton_kernels import score_pairs_kernel  # noqa: PLC0415 - Triton is optional

    vectors, mask = tables["vectors"], tables["mask"]
    num_queries, num_pictures = places.shape
    _, num_regions, width = vectors.shape
    scores = torch.empty(num_queries, num_pictures, device=vectors.device)
    if not scores.numel():
        return scores
    sentences = torch.nn.functional.pad(
        words.vectors.float().masked_fill(~words.mask.unsqueeze(2), 0),
        (0, 0, 0, lanes_for(words.mask.shape[1]) - words.mask.shape[1]),
    )
    word_lanes = sentences.shape[1]
    word_mask = torch.nn.functional.pad(words.mask, (0, word_lanes - words.mask.shape[1]))
    score_pairs_kernel[(num_pictures, num_queries)](
        vectors,
        tables.get("gram", vectors),  # not read if it is not a field
        mask.view(torch.uint8),
        places.contiguous(),
        sentences.contiguous(),
        (sentences @ sentences.mT).contiguous(),
        word_mask.contiguous().view(torch.uint8),
        scores,
        num_pictures,
        num_regions,
        width,
        form.times,
        form.sharpness,
        REGIONS=lanes_for(num_regions),
        WORDS=word_lanes,
        CHUNK=CHUNK_NUMBERS,
        WORDS_ATTEND=form.words_attend,
        REGIONS_ATTEND=form.regions_attend,
        LOGITS=get_args(FormLogits).index(form.logits),
        BOUNDED=form.bounded,
        FOCAL=get_args(FormFocal).index(form.focal),
        POOLING=get_args(FormPooling).index(form.pooling),
    )
    return scores
