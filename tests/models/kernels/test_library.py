"""The loaded kernels: rows in any order, records where they lie, any number of threads, refusals in words."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.batches import Words
from models.kernels import calls, library
from models.kernels.forms import KernelForm, SmanForm
from models.kernels.interface import field_reader
from models.kernels.library import KernelLibrary, NoKernels, load_library
from models.kernels.targets import built_file, processor_features, this_machine, usable_targets
from models.rerankers.base import Reranker
from tests.support.kernels import (
    Stored,
    kernel_scores,
    random_regions,
    random_words,
    scores_in,
    small_reranker,
)

K, R, W, D = 50, 9, 5, 40


@pytest.fixture(scope="module")
def reranker() -> Reranker[Any]:
    return small_reranker("scan-t2i-avg", D)


@pytest.fixture(scope="module")
def stored(reranker: Reranker[Any]) -> Stored:
    return Stored.of(reranker, random_regions(K, R, D, 0.2, torch.Generator().manual_seed(1)))


@pytest.fixture(scope="module")
def words() -> Words:
    return random_words(2, W, D, 0.2, torch.Generator().manual_seed(2))


def scores(kernels: KernelLibrary, reranker: Reranker[Any], records: Any, rows: Any, words: Words, threads: int) -> Any:
    assert reranker.kernel_form is not None
    return kernels.scores(reranker.kernel_form, records, np.asarray(rows, np.int64), words, threads)


@pytest.mark.parametrize("rows", [[], [7], [3, 3, 49, 0], list(range(49, -1, -1))])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_are_scored_in_the_order_asked(
    kernels: KernelLibrary, reranker: Reranker[Any], stored: Stored, words: Words, rows: list[int], threads: int
) -> None:
    every = kernel_scores(kernels, reranker, stored, words)
    found = scores(kernels, reranker, stored.records, rows, words, threads)
    assert found.double().equal(every[:, rows])


def test_records_are_read_where_they_lie(
    kernels: KernelLibrary, reranker: Reranker[Any], stored: Stored, words: Words
) -> None:
    """In a file's records one picture's fields lie together, with other bytes between."""
    fields = {name: (array.dtype, array.shape[1:]) for name, array in stored.records.items()}
    packed = np.zeros(K, np.dtype([("hubness", "<f4"), *((name, *about) for name, about in fields.items())]))
    for name, array in stored.records.items():
        packed[name] = array
    packed.flags.writeable = False
    records = {name: packed[name] for name in packed.dtype.names or ()}
    assert not records["vectors"].flags.c_contiguous
    found = scores(kernels, reranker, records, range(K), words, 1)
    assert found.double().equal(kernel_scores(kernels, reranker, stored, words))


@pytest.mark.parametrize("rows", [[K], [0, -1]])
def test_rows_that_are_not_there_are_refused(
    kernels: KernelLibrary, reranker: Reranker[Any], stored: Stored, words: Words, rows: list[int]
) -> None:
    with pytest.raises(IndexError, match=r"there are records 0 \.\. 49"):
        scores(kernels, reranker, stored.records, rows, words, 1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("vectors", lambda array: array.astype(np.float32)),
        ("vectors", lambda array: array[:, :, :-1]),
        ("vectors", lambda array: array[:, ::-1]),
        ("gram", lambda array: array[:, :-1]),
        ("gram", lambda array: array.transpose(0, 2, 1)),
        ("gram", lambda array: array[:-1]),
        ("mask", lambda array: array.astype(np.uint8)),
        ("mask", lambda array: array[:, :-1]),
    ],
)
def test_records_of_another_layout_are_refused(
    kernels: KernelLibrary, reranker: Reranker[Any], stored: Stored, words: Words, name: str, change: Any
) -> None:
    records = stored.records | {name: change(stored.records[name])}
    with pytest.raises(ValueError, match="must"):
        scores(kernels, reranker, records, [0], words, 1)


def test_a_failed_allocation_is_told_and_leaves_no_thread_behind(
    kernels: KernelLibrary,
    reranker: Reranker[Any],
    stored: Stored,
    words: Words,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(kernels._functions, KernelForm, lambda *arguments: 1)
    with pytest.raises(MemoryError, match="no memory"):
        scores(kernels, reranker, stored.records, range(K), words, 2)


@pytest.mark.parametrize("name", ["caan", "sman", "bfan-prob"])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_family_reads_any_rows_where_they_lie(name: str, threads: int) -> None:
    """On every target: rows in any order and twice, records with other bytes between, one and more threads."""
    torch.manual_seed(0)
    reranker = small_reranker(name, 48)
    generator = torch.Generator().manual_seed(6)
    stored = Stored.of(reranker, random_regions(K, R, 48, 0.2, generator))
    words, rows = random_words(2, 19, 48, 0.2, generator), np.array([7, 3, 3, 49, 0, *range(40, 20, -1)])
    fields = {field: (array.dtype, array.shape[1:]) for field, array in stored.records.items()}
    packed = np.zeros(K, np.dtype([("hubness", "<f4"), *((field, *about) for field, about in fields.items())]))
    for field, array in stored.records.items():
        packed[field] = array
    records = {field: packed[field] for field in fields}
    expected = scores_in(torch.float64, reranker, stored, words)[:, rows]
    for target in usable_targets(this_machine(), processor_features()):
        kernels = KernelLibrary(built_file(target), target)
        with torch.no_grad():
            question = reranker.kernel_question(words, field_reader(records, rows, torch.device("cpu")))
        assert reranker.kernel_form is not None
        found = kernels.scores(reranker.kernel_form, records, rows, question, threads).double()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "width", "rows", "said"),
    [("sman", 48, [0], "queries for 2 pictures, not 1"), ("sman", 40, [0, 1], "multiple of 16")],
)
def test_questions_that_do_not_fit_are_refused(
    kernels: KernelLibrary, name: str, width: int, rows: list[int], said: str
) -> None:
    torch.manual_seed(0)
    reranker, generator = small_reranker(name, width), torch.Generator().manual_seed(6)
    stored = Stored.of(reranker, random_regions(K, R, width, 0, generator))
    with torch.no_grad():
        read = field_reader(stored.records, np.array([0, 1]), torch.device("cpu"))
        question = reranker.kernel_question(random_words(1, 5, width, 0, generator), read)
    form = SmanForm(outside=False, concatenation=False)
    with pytest.raises(ValueError, match=said):
        kernels.scores(form, stored.records, np.array(rows), question)


def test_every_target_that_runs_here_gives_the_same_scores(
    kernels: KernelLibrary, reranker: Reranker[Any], stored: Stored, words: Words
) -> None:
    expected = kernel_scores(kernels, reranker, stored, words)
    for target in usable_targets(this_machine(), processor_features()):
        other = KernelLibrary(built_file(target), target)
        torch.testing.assert_close(kernel_scores(other, reranker, stored, words), expected, rtol=1e-5, atol=1e-5)


STRUCTURES = [
    one for one in vars(calls).values() if isinstance(one, type) and issubclass(one, ctypes.Structure) and one._fields_
]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_structures_have_no_gaps(structure: type[ctypes.Structure]) -> None:
    """The compiler's layout of structures is that of ctypes; neither may depend on padding between fields."""
    ends_at = 0
    for name, kind, *_ in structure._fields_:
        assert getattr(structure, name).offset == ends_at
        ends_at += ctypes.sizeof(kind)


def test_what_is_not_built_is_named_with_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(NoKernels, match=r"python -m models\.kernels\.build|none for this processor"):
        load_library(tmp_path)


def test_a_damaged_file_is_no_kernel(tmp_path: Path) -> None:
    targets = usable_targets(this_machine(), processor_features())
    if not targets:
        pytest.skip("no kernels for this processor")
    built_file(targets[0], tmp_path).write_bytes(b"\x7fELF")
    with pytest.raises(NoKernels, match="cannot be loaded"):
        load_library(tmp_path)


def test_there_are_none_for_an_unknown_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "this_machine", lambda: "riscv64")
    with pytest.raises(NoKernels, match=r"none for this processor \(riscv64\)"):
        load_library(tmp_path)
