"""The detector's time a picture: its layers one by one, boxes pooled by torchvision, and fused as it is loaded
to extract.

    python -m benchmarks.detector_layers --photographs coco-mini-80/images [--pictures 16] [--rounds 7] [--threads 2]

Forms take turns, each in a process of its own, since what one leaves in the heap slows the other; the median of its
passes over all pictures but the first counts. The ratio is the median over the turns, with the least and the greatest.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import PIL.Image
import torch

from models.bench.timing import hardware
from models.extractors.faster_rcnn import load_detector
from models.extractors.registry import load_extractor
from models.freed_memory import keep_freed_memory
from models.matching.checkpoint import WEIGHTS
from service.bench.ingestion import files_to_ingest
from service.model_names import DETECTOR

FORMS = ("layer by layer", "fused")
PASSES = 4


def seconds_of_passes(form: str, given: argparse.Namespace) -> list[float]:
    """Seconds a picture of each pass in this process."""
    keep_freed_memory()
    torch.set_num_threads(given.threads)
    files = files_to_ingest(given.photographs, given.pictures, Path())
    pictures = [PIL.Image.open(file).convert("RGB") for file in files]
    load = load_extractor if form == FORMS[1] else load_detector
    extractor, seconds = load(WEIGHTS / DETECTOR), []
    for _ in range(PASSES):
        began = time.perf_counter()
        extractor.extract(pictures)
        seconds.append((time.perf_counter() - began) / len(pictures))
    return seconds[1:]


def main() -> None:
    """Print a line for both forms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--form", choices=FORMS, help="measure this one in this process, and print its seconds")
    given = parser.parse_args()
    if given.form:
        print(statistics.median(seconds_of_passes(given.form, given)))
        return
    command = [sys.executable, "-m", "benchmarks.detector_layers", *sys.argv[1:], "--form"]
    turns = [
        [float(subprocess.run([*command, form], check=True, capture_output=True, text=True).stdout) for form in FORMS]
        for _ in range(given.rounds)
    ]
    ratios = [before / after for before, after in turns]
    medians = (statistics.median(times) for times in zip(*turns, strict=True))
    times = ", ".join(f"{form} {1e3 * seconds:.0f} ms" for form, seconds in zip(FORMS, medians, strict=True))
    print(hardware() | {"threads": given.threads})
    print(f"{times}; {statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
