"""Processes that begin as forks of one which has imported PyTorch and the service: each begins at once.

What a fork runs stands at the top of a module that can be imported, with the modules of what it takes.
"""

import multiprocessing
from collections.abc import Callable
from typing import TypeVarTuple

Ts = TypeVarTuple("Ts")

_FORKS = multiprocessing.get_context("forkserver")
# With what optimisers and vocabularies import late.
_LATE = ["torch._dynamo", "models.text.lean_nltk"]
_FORKS.set_forkserver_preload([*_LATE, "models.training.trainer", "tests.support.worker_store"])


def run_forked(target: Callable[[*Ts], object], *arguments: *Ts) -> int:
    """Run a function in a forked process. Returns its exit status, negative for the signal that killed it."""
    process = _FORKS.Process(target=target, args=arguments)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode
