"""The time of a model's part in ingestion and in a search, with and without the kernels in C.

    python -m benchmarks.encoding_cost [--model bfan-equal --model camp] [--rounds 15] [--threads 1]

A picture: its record, embedding and hubness offset from its regions, encoded in batches of eight as in a worker.
A question: the same from its words, which are read beforehand. Both forms take turns; a ratio is the median over the
turns, with the least and the greatest. Regions are random.
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.detector_layers import describe
from models.batches import Regions
from models.bench.timing import hardware, time_interleaved
from models.kernels.interface import RecordKernels
from models.matching.matcher import Matcher
from service.model_loading import load_kernels, load_model
from service.model_names import shipped_models
from service.worker.view_builder import PICTURES_TOGETHER

FORMS = ("by PyTorch", "by the kernels")
NUM_REGIONS = 36
QUESTION = "a black dog runs over the green grass in a park"


def with_kernels(matcher: Matcher, kernels: RecordKernels | None, work: Callable[[], object]) -> None:
    """Do the work with these kernels."""
    matcher.use_kernels(kernels)
    work()


def print_model(name: str, kernels: RecordKernels | None, rounds: int) -> None:
    """A line for a picture and one for a question."""
    matcher = load_model(name, "cpu")
    vectors = torch.randn(
        PICTURES_TOGETHER, NUM_REGIONS, matcher.feature_dim, generator=torch.Generator().manual_seed(0)
    )
    regions = Regions(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool))
    words, _ = matcher.encode_words([QUESTION])
    for name_of_work, count, work in (
        ("a picture", PICTURES_TOGETHER, partial(matcher.encode_regions, regions)),
        ("a question", 1, partial(matcher.texts_from, words)),
    ):
        forms = {
            form: partial(with_kernels, matcher, kernel_set, work)
            for form, kernel_set in zip(FORMS, (None, kernels), strict=True)
        }
        times = time_interleaved(forms, rounds).seconds
        turns = [[seconds / count for seconds in turn] for turn in zip(*times.values(), strict=True)]
        print(f"{name}, {name_of_work}: {describe(FORMS, turns)}")


def main() -> None:
    """Print two lines for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="a name or a folder; all shipped ones if none is given")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(hardware())
    kernels = load_kernels(True)
    for name in args.model or shipped_models():
        print_model(name, kernels, args.rounds)


if __name__ == "__main__":
    main()
