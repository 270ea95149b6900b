"""Writes the client that waits for its answers from the one for event loops; a test compares it with what is there.

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
    "asyncio": "time",
}
# What is another text, and not another name: each occurs once.
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
    """The module's source. ValueError where one of TEXTS is not found exactly once."""
    from unasync import Rule, unasync_files  # noqa: PLC0415 - it is there where the client is developed, with tests

    for text, other in TEXTS.items():
        if source.count(text) != 1:
            raise ValueError(f"async_client.py has this {source.count(text)} times, not once: {text}")
        source = source.replace(text, other)
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "event_loop", "client.py"), Path(folder, "waiting", "client.py")
        given.parent.mkdir()
        given.write_text(source, encoding="utf-8")
        unasync_files([str(given)], [Rule("/event_loop/", "/waiting/", additional_replacements=NAMES)])
        return _tidied(made.read_text(encoding="utf-8"))


def _tidied(source: str) -> str:
    """The source as it is written where nothing is awaited: `yield from` for loops, imports in their order."""
    for command in (["check", "--fix", "--unsafe-fixes", "--quiet", "--select", "I,UP028"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(SOURCE.with_name("client.py")), "-"]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout
    return source


if __name__ == "__main__":
    sys.stdout.write(waiting_client(SOURCE.read_text(encoding="utf-8")))
