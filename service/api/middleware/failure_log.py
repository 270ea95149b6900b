"""Failures of requests in the log: where they happened, without what was asked.

The message of an exception may quote its input: a KeyError names the word, a ValidationError the value. At log levels
above debug such messages are left out; those of the system and of PyTorch, which speak of files, sockets and memory,
stay.
"""

import logging
import traceback
from collections.abc import Iterator

SPEAK_OF_THE_MACHINE = (OSError, MemoryError, RuntimeError)


def log_failure(log: logging.Logger, error: BaseException, request_id: str, method: str, route: str) -> None:
    """Log the exception with its stack; at level debug as Python shows it."""
    if log.isEnabledFor(logging.DEBUG):
        log.error("request %s: %s %s failed", request_id, method, route, exc_info=error)
        return
    log.error("request %s: %s %s failed\n%s", request_id, method, route, "\n".join(_lines(error)))


def _lines(error: BaseException, told: tuple[BaseException, ...] = ()) -> Iterator[str]:
    """The stack and type of the error and of what caused it, the first cause first; `told` are not told again."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and not any(cause is one for one in (error, *told)):
        yield from _lines(cause, (error, *told))
        yield "then:"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
    kind = type(error)
    named = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    yield f"{named}: {error}" if isinstance(error, SPEAK_OF_THE_MACHINE) else named
