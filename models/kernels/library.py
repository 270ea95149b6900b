"""The built kernels, loaded by ctypes: scores of stored pictures, read where they lie, and layers of an encoder."""

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import Words, tiles
from models.kernels.forms import KernelForm
from models.kernels.targets import BUILT, built_file, processor_features, this_machine, usable_targets
from models.kernels.transformer import CTransformer, sentences_at_once

BLOCK = 16  # as in source/lanes.h
PART = 16  # candidates that one of several threads takes at a time: a fraction of a millisecond


class NoKernels(Exception):
    """There are no kernels that this machine can run; the message says what to do about it."""


class _Pictures(ctypes.Structure):
    """`pictures` of source/kernels.c."""

    _fields_ = (
        ("vectors", ctypes.c_void_p),
        ("gram", ctypes.c_void_p),
        ("mask", ctypes.c_void_p),
        ("vectors_step", ctypes.c_int64),
        ("gram_step", ctypes.c_int64),
        ("mask_step", ctypes.c_int64),
        ("regions", ctypes.c_int32),
        ("width", ctypes.c_int32),
    )


class _Sentence(ctypes.Structure):
    """`sentence` of source/kernels.c."""

    _fields_ = (
        ("packed", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("gram", ctypes.c_void_p),
        ("words", ctypes.c_int32),
        ("blocks", ctypes.c_int32),
    )


class _Form(ctypes.Structure):
    """`form` of source/kernels.c."""

    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in ("words_attend", "regions_attend", "logits", "bounded", "focal", "pooling")
        ),
        ("times", ctypes.c_float),
        ("sharpness", ctypes.c_float),
    )


@dataclass(frozen=True)
class PackedSentence:
    """The real words of one sentence, as the kernels read them."""

    packed: Float[Tensor, "blocks D 16"]
    lengths: Float[Tensor, " columns"]
    gram: Float[Tensor, "W W"]

    @classmethod
    def of(cls, vectors: Float[Tensor, "W D"]) -> "PackedSentence":
        """The words with these vectors, none of which is padding."""
        num_words, width = vectors.shape
        columns = -(-max(num_words, 1) // BLOCK) * BLOCK
        padded = vectors.new_zeros(columns, width)
        padded[:num_words] = vectors
        packed = padded.view(-1, BLOCK, width).mT.contiguous()
        return cls(packed, padded.norm(dim=1), (vectors @ vectors.T).contiguous())

    def as_structure(self) -> _Sentence:
        """Addresses of the tensors; they must be kept for as long as these are used."""
        return _Sentence(
            self.packed.data_ptr(), self.lengths.data_ptr(), self.gram.data_ptr(), len(self.gram), len(self.packed)
        )


class KernelLibrary:
    """The kernels of one built file. Safe from many threads; a score does not depend on their number."""

    device_type = "cpu"

    def __init__(self, path: Path, target: str) -> None:
        """OSError where the file cannot be loaded."""
        self.target = target
        library = ctypes.CDLL(str(path))
        self._scores, self._transform = library.regard_scores, library.regard_transform
        self._scores.restype = self._transform.restype = ctypes.c_int
        self._helpers = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), thread_name_prefix="kernels")

    def scores(
        self,
        form: KernelForm,
        records: Mapping[str, npt.NDArray[Any]],
        rows: npt.NDArray[np.int64],
        words: Words,
        threads: int = 1,
    ) -> Float[Tensor, "Q K"]:
        """Scores of float32 sentences with the pictures `rows` of `records`, the stored fields [N, ...] by name.

        Nothing of the records is copied. ValueError for records of other types or shapes, IndexError for rows that
        there are not.
        """
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(records["mask"]):
            raise IndexError(
                f"there are records 0 .. {len(records['mask']) - 1}, asked for {rows.min()} .. {rows.max()}"
            )
        pictures = _structure_of(records, form, words.vectors.shape[2])
        rows = np.ascontiguousarray(rows, np.int64)
        scores = torch.empty(len(words), len(rows))
        for own, vectors, mask in zip(scores, words.vectors.float(), words.mask, strict=True):
            self._score_sentence(form, pictures, PackedSentence.of(vectors[mask]), rows, own, threads)
        return scores

    def _score_sentence(
        self,
        form: KernelForm,
        pictures: _Pictures,
        sentence: PackedSentence,
        rows: npt.NDArray[np.int64],
        scores: Float[Tensor, " K"],
        threads: int,
    ) -> None:
        """Fill the scores, in parts that the caller's thread and up to threads - 1 others take in turn."""
        options, words = _Form(*form.numbers()), sentence.as_structure()

        def work(part: slice) -> None:
            own = scores[part]
            failed = self._scores(
                ctypes.byref(pictures),
                ctypes.byref(words),
                ctypes.byref(options),
                ctypes.c_void_p(rows[part].ctypes.data),
                ctypes.c_int64(len(own)),
                ctypes.c_void_p(own.data_ptr()),
            )
            if failed:
                raise MemoryError("there is no memory for the table of one picture and one sentence")

        self._take_turns(work, tiles(len(rows), PART if threads > 1 else max(1, len(rows))), threads)

    def transform(
        self, layers: CTransformer, states: Float[Tensor, "N D"], lengths: Sequence[int], threads: int = 1
    ) -> None:
        """Replace states of the pieces of sentences of these lengths, one after the other, by the last layer's.

        ValueError for states of another type or shape.
        """
        if states.dtype != torch.float32 or not states.is_contiguous() or states.device.type != "cpu":
            raise ValueError("states are float32 in one piece on the CPU")
        if states.shape != (sum(lengths), layers.width):
            raise ValueError(f"states must be {(sum(lengths), layers.width)}, not {tuple(states.shape)}")
        starts = list(accumulate(lengths, initial=0))

        def work(part: slice) -> None:
            count = part.stop - part.start
            own = states[starts[part.start] : starts[part.stop]]
            sizes = (ctypes.c_int32 * count)(*lengths[part])
            if self._transform(ctypes.byref(layers), sizes, ctypes.c_int32(count), ctypes.c_void_p(own.data_ptr())):
                raise MemoryError(f"there is no memory for the layers of {len(own)} pieces")

        self._take_turns(work, sentences_at_once(lengths, threads), threads)

    def _take_turns(self, work: Callable[[slice], None], parts: Sequence[slice], threads: int) -> None:
        """Do every part, in the caller's thread and up to threads - 1 others, which take them in turn."""
        waiting = iter(parts)  # shared: taking the next one is atomic

        def run(parts: Iterator[slice]) -> None:
            for part in parts:
                work(part)

        helpers = [self._helpers.submit(run, waiting) for _ in range(min(threads, len(parts)) - 1)]
        try:
            run(waiting)
        finally:  # no thread may use arrays after their owner has let go of them
            wait([helper for helper in helpers if not helper.cancel()])
        for helper in helpers:
            if not helper.cancelled():
                helper.result()


def _structure_of(records: Mapping[str, npt.NDArray[Any]], form: KernelForm, width: int) -> _Pictures:
    """The addresses of stored fields, which must be laid out as the kernels read them."""
    fields = {name: records[name] for name in form.record_fields}
    num, regions = fields["mask"].shape
    wanted = {
        "vectors": ((num, regions, width), np.dtype("<f2")),
        "gram": ((num, regions, regions), np.dtype("<f2")),
        "mask": ((num, regions), np.dtype("?")),
    }
    for name, array in fields.items():
        if (array.shape, array.dtype) != wanted[name]:
            shape, dtype = wanted[name]
            raise ValueError(f"{name} must be {shape} of {dtype}, not {array.shape} of {array.dtype}")
        if num and not array[0].flags.c_contiguous:
            raise ValueError(f"{name} of a picture must lie in one piece")
    gram = fields.get("gram", fields["mask"])  # never read where it is not among the fields
    arrays = (fields["vectors"], gram, fields["mask"])
    addresses = [array.ctypes.data for array in arrays]
    return _Pictures(*addresses, *(array.strides[0] for array in arrays), regions, width)


def load_library(folder: Path = BUILT) -> KernelLibrary:
    """The best kernels that are built and that this machine can run; NoKernels where there are none."""
    targets = usable_targets(this_machine(), processor_features())
    if not targets:
        raise NoKernels(f"there are none for this processor ({this_machine()})")
    for target in targets:
        path = built_file(target, folder)
        if path.is_file():
            try:
                return KernelLibrary(path, target)
            except (OSError, AttributeError) as fault:
                raise NoKernels(f"{path.name} cannot be loaded: {fault}") from fault
    raise NoKernels("they are not built: `make setup`, or `python -m models.kernels.build` with a C compiler, does it")
