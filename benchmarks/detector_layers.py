"""The detector's time per picture: layer by layer with torchvision's pooling, and fused as `load_extractor` loads it.
Then the time to pool one picture's proposals in either way, on one thread.

    python -m benchmarks.detector_layers --photographs coco-mini-80/images [--pictures 16] [--rounds 7] [--threads 2]

Detectors take turns, each in a process of its own, since the heap that one leaves slows the other. The median of the
passes after the first counts. A ratio is the median over the turns, with the least and the greatest.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torchvision.ops import MultiScaleRoIAlign

from models.bench.timing import hardware, time_interleaved
from models.datasets.photographs import open_upright
from models.extractors.faster_rcnn.extractor import load_detector
from models.extractors.faster_rcnn.heads import CANONICAL_SIDE, LEVELS, POOLED_CELLS
from models.extractors.registry import load_extractor
from models.extractors.roi_pooling import SumPooler
from models.freed_memory import keep_freed_memory
from models.matching.checkpoint import WEIGHTS
from service.bench.ingestion import files_to_ingest
from service.model_names import DETECTOR

FORMS = ("layer by layer", "fused")
POOLERS = ("torchvision", "one sum")
PASSES = 4
SIZE = (416, 640)  # height and width of a picture as the detector sees it
CHANNELS, PROPOSALS = 128, 400


def seconds_of_passes(form: str, args: argparse.Namespace) -> list[float]:
    """Seconds per picture of each pass but the first, in this process."""
    keep_freed_memory()
    torch.set_num_threads(args.threads)
    files = files_to_ingest(args.photographs, args.pictures, Path())
    pictures = [open_upright(file) for file in files]
    load = load_extractor if form == FORMS[1] else load_detector
    extractor, seconds = load(WEIGHTS / DETECTOR), []
    for _ in range(PASSES):
        began = time.perf_counter()
        extractor.extract(pictures)
        seconds.append((time.perf_counter() - began) / len(pictures))
    return seconds[1:]


def pooling_seconds(rounds: int) -> list[list[float]]:
    """Seconds of torchvision's pooling and of ours in each turn, for random proposals in a pyramid of usual size."""
    torch.set_num_threads(1)
    generator, (height, width) = torch.Generator().manual_seed(0), SIZE
    maps = {
        name: torch.randn(1, CHANNELS, height // stride, width // stride, generator=generator).contiguous(
            memory_format=torch.channels_last
        )
        for name, stride in zip(LEVELS, (8, 16, 32), strict=True)
    }
    middle = torch.rand(PROPOSALS, 2, generator=generator) * torch.tensor([width, height])
    reach = 35 * torch.randn(PROPOSALS, 2, generator=generator).mul(0.8).exp()
    border = torch.tensor([width, height] * 2)
    boxes = torch.cat([middle - reach, middle + reach], 1).clamp(min=0).minimum(border)
    pooler = MultiScaleRoIAlign(list(LEVELS), POOLED_CELLS, sampling_ratio=2, canonical_scale=CANONICAL_SIDE)
    forms = [partial(pool, maps, [boxes], [SIZE]) for pool in (pooler, SumPooler(pooler))]
    with torch.no_grad():
        times = time_interleaved(dict(zip(POOLERS, forms, strict=True)), rounds)
    return [list(turn) for turn in zip(*times.seconds.values(), strict=True)]


def describe(names: Sequence[str], turns: Sequence[Sequence[float]]) -> str:
    """Both medians in milliseconds, and the ratio of the first to the second."""
    ratios = [before / after for before, after in turns]
    medians = (statistics.median(times) for times in zip(*turns, strict=True))
    times = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in zip(names, medians, strict=True))
    return f"{times}; {statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    """Print a line for both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--form", choices=FORMS, help="measure only this form, in this process")
    args = parser.parse_args()
    if args.form:
        print(statistics.median(seconds_of_passes(args.form, args)))
        return
    command = [sys.executable, "-m", "benchmarks.detector_layers", *sys.argv[1:], "--form"]
    turns = [
        [float(subprocess.run([*command, form], check=True, capture_output=True, text=True).stdout) for form in FORMS]
        for _ in range(args.rounds)
    ]
    print(hardware() | {"threads": args.threads})
    print(f"a picture: {describe(FORMS, turns)}")
    print(f"its proposals pooled: {describe(POOLERS, pooling_seconds(args.rounds))}")


if __name__ == "__main__":
    main()
