"""Audit lines: one for every request that may change something, with who made it and how it ended.

They are logged at every log level. They hold ids, never file names, captions, query text or keys.
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
    """A `send` to answer through; when the block ends, one line says what came of the request."""
    ended: dict[str, Any] = {"status": 0}

    async def send_and_note(message: Message) -> None:
        if message["type"] == "http.response.start":
            ended["status"] = message["status"]
            ended.update((name.decode(), value.decode()) for name, value in message["headers"] if name == b"location")
        await send(message)

    try:
        yield send_and_note
    finally:
        _write(scope, ended)


def _write(scope: Scope, ended: dict[str, Any]) -> None:
    caller = scope["caller"]
    client = scope.get("client")
    fields = {
        "method": scope["method"],
        "route": scope["route"].path,
        **{name: str(value)[:MAX_SHOWN] for name, value in scope.get("path_params", {}).items()},
        **ended,  # the location of an ingestion's job is its id
        "key": caller.key_id,
        "key_name": caller.name,
        "client": client[0] if client else None,
        "request": scope.get("request_id"),
    }
    shown = {name: value for name, value in fields.items() if value is not None}
    # Quoted as JSON where it is no plain word, so that no caller can make up a line.
    text = " ".join(f"{name}={value if _is_plain(value) else json.dumps(value)}" for name, value in shown.items())
    log.info("audit %s", text, extra={"audit": shown})


def _is_plain(value: Any) -> bool:
    text = str(value)
    return text.isascii() and text.isprintable() and not set(text) & set(' "=\\')
