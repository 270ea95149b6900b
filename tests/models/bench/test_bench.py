"""What `regard bench` compares is the same: the authors' forms against ours, their gradients against ours."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from models.bench import data, timing
from models.bench.encoding import Sizes
from models.bench.literal import CaptionLoop
from models.bench.memory import CLEAR, peak_of
from models.bench.rerank import matrix_flops
from models.bench.timing import Best, Turns, hardware, in_turns, processor
from models.bench.training import MODELS, random_batch, step
from models.rerankers.base import Reranker
from models.rerankers.registry import RERANKERS
from service.cli.commands.bench import print_measurements
from service.cli.main import app

SIZES = Sizes(pairs=6, regions=5, words=4, width=16)


@torch.no_grad()
def check_same_scores(reranker: Reranker) -> None:
    reranker = reranker.double()
    for weight in reranker.parameters():
        weight.normal_(std=0.3)
    projected = data.regions(7, 5, 16).to(dtype=torch.float64)
    words = data.words(torch.tensor([3, 6, 4]), 16).to(dtype=torch.float64)
    expected = reranker.score(reranker.precompute(projected), words)
    for block in (None, 3):
        found = CaptionLoop(reranker, projected, block).score(words)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", sorted(RERANKERS))
def test_the_authors_form_gives_the_same_scores(name: str) -> None:
    check_same_scores(data.model(name, 16))


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
@pytest.mark.parametrize("normalisation", ["softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm"])
@pytest.mark.parametrize("pooling", ["LogSumExp", "Mean", "Max", "Sum"])
def test_so_it_does_with_all_of_scans_options(direction: str, normalisation: str, pooling: str) -> None:
    options = {"direction": direction, "normalisation": normalisation, "pooling": pooling}
    check_same_scores(data.model("scan-t2i-avg", 16, **options))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bfan-prob", {"similarity": "cosine"}),
        ("caan", {"slope": 0.1}),
        ("camp", {"activation": "tanh", "key_width": 3}),
        ("sman", {"text_product": "outside", "divide_by_regions": False}),
        ("sman", {"similarity": "concatenation"}),
    ],
)
def test_so_it_does_with_the_others_options(name: str, options: dict[str, object]) -> None:
    check_same_scores(data.model(name, 16, **options))


@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_both_forms_gives_the_same_gradients(name: str) -> None:
    batch = random_batch(Sizes(pairs=12, regions=6, words=5, width=32))
    reranker = data.model(name, 32)
    ours, literal = step("ours", reranker, batch), step("literal", reranker, batch)
    assert ours.loss > 0
    assert ours.loss == pytest.approx(literal.loss, rel=1e-5)
    assert ours.error(literal) < 1e-5


def test_a_wrong_gradient_is_an_error() -> None:
    batch = random_batch(SIZES)
    one, other = (step("ours", data.model(name, 16), batch) for name in ("scan-t2i-avg", "scan-i2t-avg"))
    assert one.error(one) == 0
    assert one.error(other) > 1e-2


def test_forms_take_turns_and_are_compared_turn_by_turn() -> None:
    calls: list[str] = []
    turns = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert calls == ["a", "b"] * 3
    assert [len(seconds) for seconds in turns.seconds.values()] == [2, 2]
    # The second turn was disturbed: both took ten times as long.
    disturbed = Turns({"slow": [3.0, 30.0, 3.0], "fast": [1.0, 10.0, 1.0]})
    assert (disturbed.ratio("slow", "fast"), disturbed.usual("slow"), disturbed.best("slow")) == (3.0, 3.0, 3.0)


def test_a_floor_is_what_takes_longest() -> None:
    best = Best(flops=100.0, reads=10.0)
    assert best.floor(flops=200.0) == 2.0
    assert best.floor(flops=200.0, num_bytes=50.0) == 5.0


def test_operations_are_those_of_the_derivation() -> None:
    """2 R D W for the similarities and 2 R R W for the lengths of what words attend to."""
    projected, words = data.regions(3, 5, 16), data.words(torch.tensor([4, 4]), 16)
    scan = data.model("scan-t2i-avg", 16)
    assert matrix_flops(scan, scan.precompute(projected), words) == 3 * 2 * (2 * 5 * 16 * 4 + 2 * 5 * 5 * 4)


def ten_megabytes(sizes: Sizes) -> Callable[[], object]:
    return lambda: torch.ones(10 * 2**18 if sizes.pairs > 2 else 1).sum()


@pytest.mark.skipif(not CLEAR.exists(), reason="this system keeps no mark of the memory used that can be reset")
def test_the_peak_is_what_a_step_took_for_a_moment() -> None:
    assert peak_of(ten_megabytes, SIZES) == pytest.approx(10, abs=3)


def test_captions_are_as_long_as_captions_are() -> None:
    lengths = data.lengths(2000)
    assert (lengths.min(), lengths.max()) == (8, 20)
    assert lengths.float().mean() == pytest.approx(12.6, abs=0.3)


def test_the_hardware_is_named(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nmodel name\t: Some CPU @ 3 GHz\n")
    assert processor(cpuinfo) == "Some CPU @ 3 GHz"
    assert {"cpu", "cores", "threads", "torch"} <= set(hardware())


@pytest.mark.parametrize("what", ["rerank", "train", "evaluate"])
def test_the_program_prints_rows(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timing, "PEAK_SIZE", 32)
    monkeypatch.setattr(timing, "READ_NUMBERS", 1 << 10)
    sizes = {"candidates": 5, "captions": 9, "regions": 3, "words": 4, "width": 16, "rounds": 1}
    arguments = [what, "--model=scan-t2i-avg", "--model=bfan-prob", *(f"--{name}={n}" for name, n in sizes.items())]
    app(["bench", *arguments, "--json"], standalone_mode=False)
    report = json.loads(capsys.readouterr().out)
    assert report["hardware"]["torch"] == torch.__version__
    assert [(row["model"], row["candidates"]) for row in report["rows"]] == [("scan-t2i-avg", 5), ("bfan-prob", 5)]
    for row in report["rows"]:
        for name in ("us_per_pair", "ratio_to_literal", "ratio_to_floor"):
            assert row[name] > 0


def test_a_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"model": "sman", "us_per_pair": 12345.6, "literal_peak_mb": None}]
    print_measurements({"hardware": {"cpu": "Some CPU", "cores": 2}, "rows": rows})
    assert capsys.readouterr().out.splitlines() == [
        "cpu Some CPU, cores 2",
        "model  us per pair  literal peak mb",
        "sman   12346        -",
    ]
