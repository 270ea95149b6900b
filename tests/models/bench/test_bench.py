"""`regard bench` compares like with like: the literal forms give our scores and our gradients."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from models.bench import timing
from models.bench.inputs import Sizes, caption_lengths, random_regions, random_reranker, random_words
from models.bench.literal import CaptionLoop
from models.bench.memory import CLEAR_REFS, peak_memory
from models.bench.rerank import kernel_call, matrix_flops, rerank_row
from models.bench.timing import (
    CALLS_OF_A_RUN,
    InterleavedTimes,
    MachineRates,
    hardware,
    processor_name,
    time_interleaved,
    time_runs_interleaved,
)
from models.bench.training import TRAINED_MODELS, random_batch, training_step
from models.rerankers.base import Reranker
from models.rerankers.registry import RERANKERS
from service.cli.commands.bench import print_measurements
from service.cli.main import app
from tests.support.kernels import load_kernels

SIZES = Sizes(pairs=6, regions=5, words=4, width=16)


@torch.no_grad()
def check_same_scores(reranker: Reranker[Any]) -> None:
    reranker = reranker.double()
    for weight in reranker.parameters():
        weight.normal_(std=0.3)
    projected = random_regions(7, 5, 16).to(dtype=torch.float64)
    words = random_words(torch.tensor([3, 6, 4]), 16).to(dtype=torch.float64)
    expected = reranker.score(reranker.precompute(projected), words)
    for block in (None, 3):
        found = CaptionLoop(reranker, projected, block).score(words)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", sorted(RERANKERS))
def test_the_literal_form_gives_the_same_scores(name: str) -> None:
    check_same_scores(random_reranker(name, 16))


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
@pytest.mark.parametrize("normalisation", ["softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm"])
@pytest.mark.parametrize("pooling", ["LogSumExp", "Mean", "Max", "Sum"])
def test_the_literal_form_has_all_of_scans_options(direction: str, normalisation: str, pooling: str) -> None:
    options = {"direction": direction, "normalisation": normalisation, "pooling": pooling}
    check_same_scores(random_reranker("scan-t2i-avg", 16, **options))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bfan-prob", {"similarity": "cosine"}),
        ("caan", {"slope": 0.1}),
        ("caan", {"intra_modal": "FA"}),
        ("camp", {"activation": "tanh", "key_width": 3}),
        ("sman", {"text_product": "outside", "divide_by_regions": False}),
        ("sman", {"similarity": "concatenation"}),
    ],
)
def test_the_literal_form_has_the_other_models_options(name: str, options: dict[str, object]) -> None:
    check_same_scores(random_reranker(name, 16, **options))


@pytest.mark.parametrize("name", TRAINED_MODELS)
def test_a_step_of_both_forms_gives_the_same_gradients(name: str) -> None:
    batch = random_batch(Sizes(pairs=12, regions=6, words=5, width=32))
    reranker = random_reranker(name, 32)
    ours, literal = training_step("ours", reranker, batch), training_step("literal", reranker, batch)
    assert ours.loss > 0
    assert ours.loss == pytest.approx(literal.loss, rel=1e-5)
    assert ours.error(literal) < 1e-5


def test_a_wrong_gradient_is_an_error() -> None:
    batch = random_batch(SIZES)
    one, other = (training_step("ours", random_reranker(name, 16), batch) for name in ("scan-t2i-avg", "scan-i2t-avg"))
    assert one.error(one) == 0
    assert one.error(other) > 1e-2


def test_forms_take_turns_and_are_compared_turn_by_turn() -> None:
    calls: list[str] = []
    turns = time_interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert calls == ["a", "b"] * 3
    assert [len(seconds) for seconds in turns.seconds.values()] == [2, 2]
    # The second turn was disturbed: both took ten times as long.
    disturbed = InterleavedTimes({"slow": [3.0, 30.0, 3.0], "fast": [1.0, 10.0, 1.0]})
    assert (disturbed.ratio("slow", "fast"), disturbed.median("slow"), disturbed.fastest("slow")) == (3.0, 3.0, 3.0)


def test_forms_run_a_few_times_in_turns_and_the_first_call_is_told_apart() -> None:
    calls: list[str] = []
    first, last = time_runs_interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert calls == ["a", "b", *(["a"] * CALLS_OF_A_RUN + ["b"] * CALLS_OF_A_RUN) * 2]
    assert [len(one.seconds[name]) for one in (first, last) for name in "ab"] == [2] * 4
    assert first.seconds != last.seconds


def test_a_floor_is_the_longer_of_computing_and_reading() -> None:
    rates = MachineRates(flops=100.0, reads=10.0)
    assert rates.floor(flops=200.0) == 2.0
    assert rates.floor(flops=200.0, num_bytes=50.0) == 5.0


@pytest.mark.parametrize(("regions", "width"), [(5, 16), (64, 1024)])
def test_counted_operations_are_those_of_the_derivation(regions: int, width: int) -> None:
    """2 R D W for the similarities, by whichever product, and 2 R R W for the lengths of what words attend to."""
    projected, words = random_regions(3, regions, width), random_words(torch.tensor([4, 4]), width)
    scan = random_reranker("scan-t2i-avg", width)
    counted = 3 * 2 * (2 * regions * width * 4 + 2 * regions * regions * 4)
    assert matrix_flops(scan, scan.precompute(projected), words) == counted


@pytest.mark.parametrize(("name", "known"), [("scan-t2i-avg", True), ("camp", False)])
def test_a_row_says_what_computed_ours(name: str, known: bool) -> None:
    kernels, words = load_kernels(), random_words(torch.tensor([4]), 16)
    rates = MachineRates(flops=1e9, reads=1e9)
    row = rerank_row(name, random_regions(3, 5, 16), words, 1, rates, kernels)
    assert row["form"] == (f"kernel {kernels.target}" if known else "torch")
    assert (row["ratio_to_torch"] == 1) is not known
    assert rerank_row(name, random_regions(3, 5, 16), words, 1, rates)["form"] == "torch"


def test_the_kernels_are_timed_on_scores_that_are_ours() -> None:
    projected, words = random_regions(3, 5, 16), random_words(torch.tensor([4, 3]), 16)
    scan = random_reranker("scan-t2i-avg", 16)
    images = scan.precompute(projected)
    call = kernel_call(scan, images, words, load_kernels())
    assert call is not None
    torch.testing.assert_close(call(), scan.score(images, words), rtol=0, atol=2e-3)  # records are halves


def ten_megabytes(sizes: Sizes) -> Callable[[], object]:
    return lambda: torch.ones(10 * 2**18 if sizes.pairs > 2 else 1).sum()


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.skipif(not CLEAR_REFS.exists(), reason="this system keeps no mark of the memory used that can be reset")
def test_the_peak_counts_memory_that_a_step_held_for_a_moment() -> None:
    assert peak_memory(ten_megabytes, SIZES) == pytest.approx(10, abs=3)


def test_captions_are_as_long_as_captions_are() -> None:
    lengths = caption_lengths(2000)
    assert (int(lengths.min()), int(lengths.max())) == (8, 20)
    assert lengths.float().mean() == pytest.approx(12.6, abs=0.3)


def test_the_hardware_is_named(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nmodel name\t: Some CPU @ 3 GHz\n")
    assert processor_name(cpuinfo) == "Some CPU @ 3 GHz"
    assert {"cpu", "cores", "threads", "torch"} <= set(hardware())


@pytest.mark.slow
@pytest.mark.parametrize("what", ["rerank", "train", "evaluate"])
def test_the_command_prints_rows(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timing, "PEAK_SIZE", 32)
    monkeypatch.setattr(timing, "READ_NUMBERS", 1 << 10)
    sizes = {"candidates": 5, "regions": 3, "width": 16}
    sizes |= {"captions": 9} if what == "evaluate" else {"words": 4, "rounds": 1}
    arguments = [what, "--model=scan-t2i-avg", "--model=bfan-prob", *(f"--{name}={n}" for name, n in sizes.items())]
    app(["bench", *arguments, "--json"], standalone_mode=False)
    report = json.loads(capsys.readouterr().out)
    assert report["hardware"]["torch"] == torch.__version__
    assert [(row["model"], row["candidates"]) for row in report["rows"]] == [("scan-t2i-avg", 5), ("bfan-prob", 5)]
    for row in report["rows"]:
        for name in ("us_per_pair", "ratio_to_literal", "ratio_to_floor"):
            assert row[name] > 0
        if what == "rerank":
            assert row["form"] == "torch" or row["form"].startswith("kernel ")


def test_a_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"model": "sman", "us_per_pair": 12345.6, "literal_peak_mb": None}]
    print_measurements({"hardware": {"cpu": "Some CPU", "cores": 2}, "rows": rows})
    assert capsys.readouterr().out.splitlines() == [
        "cpu Some CPU, cores 2",
        "model  us per pair  literal peak mb",
        "sman   12346        -",
    ]
