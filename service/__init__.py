"""The service: HTTP, jobs, settings, wiring. The one package that joins `models` and `index`."""

import os

# OpenMP reads this once, when PyTorch is loaded. A thread that has nothing left to do then sleeps: by default it spins,
# and with any other busy process on the machine every parallel loop waits for the scheduler.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
