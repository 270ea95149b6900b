"""A server whose one model is slow, in a process of its own, so that its memory and handles can be looked at.

python -m tests.support.slow_service FOLDER prints its address, and ends with its standard input.
"""

import faulthandler
import sys
import time
from contextlib import closing
from pathlib import Path

from torch import Tensor

from models.matching.encoded import EncodedImages, EncodedTexts
from tests.support.fakes import FakeMatcher
from tests.support.library import Library, two_coloured
from tests.support.running_server import running_server

SLOW_S = 0.02
START_S = 300  # after which it is taken to hang
QUEUE_COST = 100_000  # ten searches
PAIRS = [("red", "green"), ("blue", "white"), ("black", "cyan"), ("yellow", "magenta")]


class SlowMatcher(FakeMatcher):
    """A FakeMatcher that takes its time."""

    def score(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        time.sleep(SLOW_S)
        return super().score(images, texts)


def main() -> None:
    """Serve a few pictures until standard input ends."""
    faulthandler.dump_traceback_later(START_S, exit=True)  # whoever waits for the address would wait for ever
    folder = Path(sys.argv[1])
    with closing(Library(folder)) as library:
        for left, right in PAIRS:
            library.add(f"{left} and {right}", two_coloured(left, right), captions=[f"{left} and {right}"])
    with running_server(folder, SlowMatcher(), queue_cost=QUEUE_COST, cache_entries=0) as url:
        print(url, flush=True)
        faulthandler.cancel_dump_traceback_later()
        sys.stdin.read()


if __name__ == "__main__":
    main()
