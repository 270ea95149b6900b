"""The service: HTTP, jobs, settings, wiring. The one package that joins `models` and `index`."""

import os
from pathlib import Path

VERSION = "0.2.0.dev0"  # as in pyproject.toml, which a test compares
PACKAGES_FOLDER = Path(__file__).parent.parent  # child processes import `service` from here, installed or not

# OpenMP reads this once, when PyTorch is loaded. Idle threads then sleep. By default they spin, and with any other busy
# process on the machine every parallel loop waits for the scheduler.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
