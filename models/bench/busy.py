"""Busy processes beside a measurement: what is fast on an empty machine alone shows here.

They compute without end in Python, each on a core of its own as far as there are any.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

LOOP = "import sys, threading; threading.Thread(target=lambda: (sys.stdin.read(), __import__('os')._exit(0))).start()"
BUSY = f"{LOOP}\nwhile True: pass"


@contextmanager
def busy_processes(count: int) -> Iterator[list[int]]:
    """So many busy processes until the block ends, their ids. They end with this process too, however it ends."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            # Its stdin is a pipe that this process alone holds, so it ends once nobody is left to write.
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE))
            stack.callback(process.kill)
            started.append(process.pid)
        yield started
