"""The audit log: one line for every request that may change something, with its caller and its outcome.

Lines are written at every log level. They hold ids, never file names, captions, query text or keys.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Message, Scope, Send

MAX_SHOWN = 64  # characters of a path parameter: callers choose them

log = logging.getLogger("regard.audit")
log.setLevel(logging.INFO)


@contextmanager
def audited(scope: Scope, send: Send) -> Iterator[Send]:
    """A `send` that notes the outcome of the request; one line is logged when the block ends."""
    scope["audit"] = {}  # for fields of the route
    outcome: dict[str, Any] = {"status": 0}

    async def send_and_note(message: Message) -> None:
        if message["type"] == "http.response.start":
            outcome["status"] = message["status"]
            outcome.update((name.decode(), value.decode()) for name, value in message["headers"] if name == b"location")
        await send(message)

    try:
        yield send_and_note
    finally:
        _write(scope, outcome)


def _write(scope: Scope, outcome: dict[str, Any]) -> None:
    caller = scope["caller"]
    client = scope.get("client")
    fields = {
        "method": scope["method"],
        "route": scope["route"].path,
        **{name: str(value)[:MAX_SHOWN] for name, value in scope.get("path_params", {}).items()},
        **scope["audit"],
        **outcome,  # of an ingestion, its location holds the id of the job
        "key": caller.key_id,
        "key_name": caller.name,
        "client": client[0] if client else None,
        "request": scope.get("request_id"),
    }
    shown = {name: value for name, value in fields.items() if value is not None}
    # A value that is not a plain word is quoted as JSON, so that no caller can forge a line.
    text = " ".join(f"{name}={value if _is_plain(value) else json.dumps(value)}" for name, value in shown.items())
    log.info("audit %s", text, extra={"audit": shown})


def _is_plain(value: Any) -> bool:
    text = str(value)
    return text.isascii() and text.isprintable() and not set(text) & set(' "=\\')
