"""The built kernels, loaded by ctypes: scores of stored pictures, read in place, and layers of an encoder."""

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
from models.kernels.calls import FUNCTIONS, NO_MEMORY, NO_SUCH_ROW, KernelCall, Records, call_of, form_structure
from models.kernels.forms import AnyForm, KernelForm, Question, SmanQuestion
from models.kernels.tables import TABLES_FUNCTION, ProductTables
from models.kernels.targets import BUILT, built_file, processor_features, this_machine, usable_targets
from models.kernels.transformer import CTransformer, sentences_at_once
from models.kernels.word_states import CEmbedding, CWordPieces, WordPieces

T = TypeVar("T")

PART = 16  # candidates that a thread takes at a time: a fraction of a millisecond


class NoKernels(Exception):
    """No kernels for this machine; the message says what to do about it."""


class KernelLibrary:
    """The kernels of one built file. Thread-safe; scores do not depend on the number of threads."""

    device_type = "cpu"

    def __init__(self, path: Path, target: str) -> None:
        """Load the file. Raises OSError if that fails."""
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
        """The library itself, which copies of a matcher share."""
        return self

    def knows(self, form: AnyForm | None) -> bool:
        """Whether it has a kernel for the score."""
        return form is not None

    def takes(self, num_regions: int, num_words: int) -> bool:
        """True: its tables grow as needed."""
        return True

    def scores(
        self, form: AnyForm, records: Records, rows: npt.NDArray[np.int64], question: Question, threads: int = 1
    ) -> Float[Tensor, "Q K"]:
        """Scores of float32 sentences with the pictures `rows` of `records`, the stored fields [N, ...] by name.

        No record is copied. Raises ValueError for records of other types or shapes, IndexError for rows that do not
        exist.
        """
        if isinstance(question, SmanQuestion) and question.region_queries.shape[1] != len(rows):
            raise ValueError(f"there are queries for {question.region_queries.shape[1]} pictures, not {len(rows)}")
        call = call_of(form, records, question)
        rows = np.ascontiguousarray(rows, np.int64)
        scores = torch.empty(len(question), len(rows))
        for row, sentence in zip(scores, call.sentences, strict=True):
            self._score_sentence(self._functions[type(form)], call, sentence, rows, row, threads)
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
        """Fill the scores in parts, with the caller's thread and up to threads - 1 others."""
        shared = [ctypes.byref(structure) for structure in (call.pictures, sentence, call.options)]
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
        """Scores of all sentences with all pictures of the tables. Raises ValueError for other types or shapes, and
        for a form without attention."""
        if form.logits == "none":
            raise ValueError("these kernels attend, and the form does not")
        read, kept = tables.structure()
        options = form_structure(form)
        scores = torch.empty(read.sentences, read.pictures)

        def work(part: slice) -> None:
            first, count = ctypes.c_int64(part.start), ctypes.c_int64(part.stop - part.start)
            scores_at = ctypes.c_void_p(scores.data_ptr())
            if self._score_tables(ctypes.byref(read), ctypes.byref(options), first, count, scores_at):
                raise MemoryError("there is no memory for the table of one picture and one sentence")

        self._take_turns(work, tiles(read.pictures, PART if threads > 1 else max(1, read.pictures)), threads)
        del kept  # the tensors must live until here
        return scores

    def transform(
        self, layers: CTransformer, states: Float[Tensor, "N D"], lengths: Sequence[int], threads: int = 1
    ) -> None:
        """Replace the states of sentences' pieces by the last layer's; sentences of these lengths are consecutive.

        Raises ValueError for states of another type or shape.
        """
        if states.dtype != torch.float32 or not states.is_contiguous() or states.device.type != "cpu":
            raise ValueError("states are float32 in one piece on the CPU")
        if states.shape != (sum(lengths), layers.width):
            raise ValueError(f"states must be {(sum(lengths), layers.width)}, not {tuple(states.shape)}")
        starts = list(accumulate(lengths, initial=0))

        def work(part: slice) -> None:
            count = part.stop - part.start
            part_states = states[starts[part.start] : starts[part.stop]]
            sizes = (ctypes.c_int32 * count)(*lengths[part])
            if self._transform(
                ctypes.byref(layers), sizes, ctypes.c_int32(count), ctypes.c_void_p(part_states.data_ptr())
            ):
                raise MemoryError(f"there is no memory for the layers of {len(part_states)} pieces")

        self._take_turns(work, sentences_at_once(lengths, threads), threads)

    def word_states(
        self, embedding: CEmbedding, layers: CTransformer, sentences: WordPieces, threads: int = 1
    ) -> Float[Tensor, "N D"]:
        """The mean states of the pieces of each word, word by word.

        Raises IndexError for a piece or position without a vector, and for words that do not consist of the pieces.
        """
        states = torch.empty(len(sentences.sizes), layers.width, dtype=torch.float32, device="cpu")

        def work(rows_and_pieces: tuple[slice, WordPieces]) -> None:
            rows, part = rows_and_pieces
            arrays = [(ctypes.c_int32 * len(numbers))(*numbers) for numbers in (part.ids, part.lengths, part.sizes)]
            pieces = CWordPieces(*map(ctypes.addressof, arrays), len(part.lengths), len(part.sizes))
            into = ctypes.c_void_p(states.data_ptr() + 4 * layers.width * rows.start)
            fault = self._word_states(ctypes.byref(embedding), ctypes.byref(layers), ctypes.byref(pieces), into)
            if fault == NO_SUCH_ROW:
                raise IndexError(f"there are {embedding.pieces} pieces, places for {embedding.places}, no empty words")
            if fault == NO_MEMORY:
                raise MemoryError(f"there is no memory for the layers of {len(part.ids)} pieces")

        self._take_turns(work, sentences.parts(sentences_at_once(sentences.lengths, threads)), threads)
        return states

    def _take_turns(self, work: Callable[[T], None], parts: Sequence[T], threads: int) -> None:
        """Process all parts with the caller's thread and up to threads - 1 others, which share one queue."""
        waiting = iter(parts)  # shared: taking the next one is atomic

        def run(parts: Iterator[T]) -> None:
            for part in parts:
                work(part)

        helpers = [self._helpers.submit(run, waiting) for _ in range(min(threads, len(parts)) - 1)]
        try:
            run(waiting)
        finally:  # no thread may use arrays after the call has returned
            wait([helper for helper in helpers if not helper.cancel()])
        for helper in helpers:
            if not helper.cancelled():
                helper.result()


def load_library(folder: Path = BUILT) -> KernelLibrary:
    """The best built kernels that this machine can run. Raises NoKernels if there are none."""
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
