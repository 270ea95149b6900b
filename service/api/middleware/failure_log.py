"""The log of failed requests: where they failed, without the content of the request.

The message of an exception may quote its input: a KeyError the word, a ValidationError the value. At log levels above
debug such messages are left out; those of the system and of PyTorch, about files, sockets and memory, stay.
"""

import logging
import traceback
from collections.abc import Iterator

ABOUT_THE_MACHINE = (OSError, MemoryError, RuntimeError)


def log_failure(log: logging.Logger, error: BaseException, request_id: str, method: str, route: str) -> None:
    """Log the exception with its stack; at level debug, as Python prints it."""
    if log.isEnabledFor(logging.DEBUG):
        log.error("request %s: %s %s failed", request_id, method, route, exc_info=error)
        return
    log.error("request %s: %s %s failed\n%s", request_id, method, route, "\n".join(_lines(error)))


def _lines(error: BaseException, logged: tuple[BaseException, ...] = ()) -> Iterator[str]:
    """The stack and type of the error and of its causes, the first cause first; `logged` are not repeated."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and not any(cause is other for other in (error, *logged)):
        yield from _lines(cause, (error, *logged))
        yield "then:"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    yield f"{name}: {error}" if isinstance(error, ABOUT_THE_MACHINE) else name
