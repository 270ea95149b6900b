"""Signals come at any moment, also while the main thread holds the lock of the event that they set."""

import subprocess
import sys

from tests.support.project_files import ROOT

ROUNDS = 300
# Without a pause, the main thread holds the event's lock most of the time.
PROGRAM = f"""
import faulthandler, os, signal, threading
from service.processes.signals import set_by_signals

faulthandler.dump_traceback_later(120, exit=True)
for _ in range({ROUNDS}):
    stop = threading.Event()
    set_by_signals(stop, [signal.SIGTERM])
    threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGTERM)).start()
    while not stop.wait(0):
        pass
print("all came")
"""


def test_none_waits_for_what_it_interrupts() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "all came\n", done.stderr


def test_other_signals_set_nothing() -> None:
    program = """
import os, signal, threading, time
from service.processes.signals import set_by_signals

stop, came = threading.Event(), []
signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
set_by_signals(stop, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGUSR1)
while not came:
    time.sleep(0.01)
time.sleep(0.05)
print(stop.is_set())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"
