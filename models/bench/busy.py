"""Busy processes beside a measurement, which show what is fast only on an idle machine.

They run endless Python loops, each on a core of its own as far as there are enough.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

LOOP = "import sys, threading; threading.Thread(target=lambda: (sys.stdin.read(), __import__('os')._exit(0))).start()"
BUSY = f"{LOOP}\nwhile True: pass"


@contextmanager
def busy_processes(count: int) -> Iterator[list[int]]:
    """Ids of `count` busy processes that run until the block ends, or this process ends in any way."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            # Only this process holds the other end of its stdin, so it ends when this process does.
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE))
            stack.callback(process.kill)
            started.append(process.pid)
        yield started
