"""The built kernels, loaded by ctypes: scores of stored pictures, read where they lie, and layers of an encoder."""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import tiles
from models.kernels.calls import FUNCTIONS, NO_MEMORY, NO_SUCH_ROW, KernelCall, Records, call_of, form_as_read_by_c
from models.kernels.forms import AnyForm, KernelForm, Question, SmanQuestion
from models.kernels.tables import TABLES_FUNCTION, ProductTables
from models.kernels.targets import BUILT, built_file, processor_features, this_machine, usable_targets
from models.kernels.transformer import CTransformer, sentences_at_once
from models.kernels.word_states import CEmbedding, CWordPieces, WordPieces

T = TypeVar("T")

PART = 16  # candidates that one of several threads takes at a time: a fraction of a millisecond


class NoKernels(Exception):
    """There are no kernels that this machine can run; the message says what to do about it."""


class KernelLibrary:
    """The kernels of one built file. Safe from many threads; a score does not depend on their number."""

    device_type = "cpu"

    def __init__(self, path: Path, target: str) -> None:
        """OSError where the file cannot be loaded."""
        self.target = target
        library = ctypes.CDLL(str(path))
        self._functions = {form: getattr(library, name) for form, name in FUNCTIONS.items()}
        self._transform = library.regard_transform
        self._word_states = library.regard_word_states
        self._score_tables = getattr(library, TABLES_FUNCTION)
        for function in (*self._functions.values(), self._transform, self._word_states, self._score_tables):
            function.restype = ctypes.c_int
        self._helpers = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), thread_name_prefix="kernels")

    def __deepcopy__(self, memo: object) -> "KernelLibrary":
        """The library itself: copies of a matcher share what is loaded."""
        return self

    def knows(self, form: AnyForm | None) -> bool:
        """Whether it has a kernel for the score."""
        return form is not None

    def takes(self, num_regions: int, num_words: int) -> bool:
        """Always: its tables are as large as they have to be."""
        return True

    def scores(
        self, form: AnyForm, records: Records, rows: npt.NDArray[np.int64], question: Question, threads: int = 1
    ) -> Float[Tensor, "Q K"]:
        """Scores of float32 sentences with the pictures `rows` of `records`, the stored fields [N, ...] by name.

        Nothing of the records is copied. ValueError for records of other types or shapes, IndexError for rows that
        there are not.
        """
        if isinstance(question, SmanQuestion) and question.region_queries.shape[1] != len(rows):
            raise ValueError(f"there are queries for {question.region_queries.shape[1]} pictures, not {len(rows)}")
        call = call_of(form, records, question)
        rows = np.ascontiguousarray(rows, np.int64)
        scores = torch.empty(len(question), len(rows))
        for own, sentence in zip(scores, call.sentences, strict=True):
            self._score_sentence(self._functions[type(form)], call, sentence, rows, own, threads)
        return scores

    def _score_sentence(
        self,
        function: Any,
        call: KernelCall,
        sentence: ctypes.Structure,
        rows: npt.NDArray[np.int64],
        scores: Float[Tensor, " K"],
        threads: int,
    ) -> None:
        """Fill the scores, in parts that the caller's thread and up to threads - 1 others take in turn."""
        shared = [ctypes.byref(one) for one in (call.pictures, sentence, call.options)]
        rows_at, scores_at = ctypes.c_void_p(rows.__array_interface__["data"][0]), ctypes.c_void_p(scores.data_ptr())

        def work(part: slice) -> None:
            count = ctypes.c_int64(part.stop - part.start)
            fault = function(*shared, rows_at, ctypes.c_int64(part.start), count, scores_at)
            if fault == NO_SUCH_ROW:
                raise IndexError(
                    f"there are records 0 .. {call.pictures.number - 1}, asked for {rows.min()} .. {rows.max()}"
                )
            if fault == NO_MEMORY:
                raise MemoryError("there is no memory for the table of one picture and one sentence")

        self._take_turns(work, tiles(len(rows), PART if threads > 1 else max(1, len(rows))), threads)

    def scores_of_tables(self, form: KernelForm, tables: ProductTables, threads: int = 1) -> Float[Tensor, "Q K"]:
        """Scores of all sentences with all pictures of the tables; ValueError where these have other types or
        shapes, or where nothing attends."""
        if form.logits == "none":
            raise ValueError("these kernels attend, and the form does not")
        read, kept = tables.as_read_by_c()
        options = form_as_read_by_c(form)
        scores = torch.empty(read.sentences, read.pictures)

        def work(part: slice) -> None:
            first, count = ctypes.c_int64(part.start), ctypes.c_int64(part.stop - part.start)
            scores_at = ctypes.c_void_p(scores.data_ptr())
            if self._score_tables(ctypes.byref(read), ctypes.byref(options), first, count, scores_at):
                raise MemoryError("there is no memory for the table of one picture and one sentence")

        self._take_turns(work, tiles(read.pictures, PART if threads > 1 else max(1, read.pictures)), threads)
        del kept  # not before
        return scores

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

    def word_states(
        self, embedding: CEmbedding, layers: CTransformer, said: WordPieces, threads: int = 1
    ) -> Float[Tensor, "N D"]:
        """The mean states of the pieces of each word, one word after the other.

        IndexError for a piece without a vector or in a place without one, and for words not made of the pieces.
        """
        states = torch.empty(len(said.sizes), layers.width, dtype=torch.float32, device="cpu")

        def work(placed: tuple[slice, WordPieces]) -> None:
            own, part = placed
            arrays = [(ctypes.c_int32 * len(one))(*one) for one in (part.ids, part.lengths, part.sizes)]
            pieces = CWordPieces(*map(ctypes.addressof, arrays), len(part.lengths), len(part.sizes))
            into = ctypes.c_void_p(states.data_ptr() + 4 * layers.width * own.start)
            fault = self._word_states(ctypes.byref(embedding), ctypes.byref(layers), ctypes.byref(pieces), into)
            if fault == NO_SUCH_ROW:
                raise IndexError(f"there are {embedding.pieces} pieces, places for {embedding.places}, no empty words")
            if fault == NO_MEMORY:
                raise MemoryError(f"there is no memory for the layers of {len(part.ids)} pieces")

        self._take_turns(work, said.parts(sentences_at_once(said.lengths, threads)), threads)
        return states

    def _take_turns(self, work: Callable[[T], None], parts: Sequence[T], threads: int) -> None:
        """Do every part, in the caller's thread and up to threads - 1 others, which take them in turn."""
        waiting = iter(parts)  # shared: taking the next one is atomic

        def run(parts: Iterator[T]) -> None:
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
