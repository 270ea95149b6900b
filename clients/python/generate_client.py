"""Writes the synchronous client from the asynchronous one; a test compares it with the committed file.

python clients/python/generate_client.py > clients/python/regard_client/client.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parent / "regard_client" / "async_client.py"
NAMES = {
    "AsyncClient": "Client",
    "AsyncBaseTransport": "BaseTransport",
    "aclose": "close",
    "aread": "read",
    "aiter_bytes": "iter_bytes",
    "asyncio": "time",
}
# Replaced texts that are not names; each occurs once.
TEXTS = {
    '"""The client for programs on an event loop; its methods are those of Client."""': (
        '"""The client that waits for its answers. Written by generate_client.py from async_client.py."""'
    ),
    "Tasks of one event loop may share a client; files are read in small pieces while they are sent.": (
        "Threads may share a client."
    ),
    "async with AsyncClient()": "with Client()",
    "sleep: Callable[[float], Awaitable[None]]": "sleep: Callable[[float], None]",
    "AsyncIterator, Awaitable, Callable, Iterable,": "Callable, Iterable, AsyncIterator,",
}


def waiting_client(source: str) -> str:
    """The module's source. Raises ValueError unless each of TEXTS occurs exactly once."""
    from unasync import Rule, unasync_files  # noqa: PLC0415 - only needed for development

    for text, replacement in TEXTS.items():
        if source.count(text) != 1:
            raise ValueError(f"async_client.py has this {source.count(text)} times, not once: {text}")
        source = source.replace(text, replacement)
    with tempfile.TemporaryDirectory() as folder:
        original, converted = Path(folder, "event_loop", "client.py"), Path(folder, "waiting", "client.py")
        original.parent.mkdir()
        original.write_text(source, encoding="utf-8")
        unasync_files([str(original)], [Rule("/event_loop/", "/waiting/", additional_replacements=NAMES)])
        return _tidied(converted.read_text(encoding="utf-8"))


def _tidied(source: str) -> str:
    """The source with the style of synchronous code: `yield from` instead of loops, sorted imports."""
    for command in (["check", "--fix", "--unsafe-fixes", "--quiet", "--select", "I,UP028"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(SOURCE.with_name("client.py")), "-"]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout
    return source


if __name__ == "__main__":
    sys.stdout.write(waiting_client(SOURCE.read_text(encoding="utf-8")))
