"""Seconds a picture of the shipped extractor beside a busy process, with spinning and with sleeping OpenMP threads.

python -m benchmarks.busy_neighbour --rounds 4 --pictures 12
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

EXTRACTION = """
import statistics, sys, time
import PIL.Image, torch
from models.extractors.registry import load_extractor
from models.matching.checkpoint import WEIGHTS
torch.set_num_threads(2)
extractor = load_extractor(WEIGHTS / "detector", "cpu")
picture = PIL.Image.effect_noise((600, 450), 60).convert("RGB")
extractor.extract([picture])
seconds = []
for _ in range(int(sys.argv[1])):
    started = time.perf_counter()
    extractor.extract([picture])
    seconds.append(time.perf_counter() - started)
print(statistics.median(seconds))
"""
POLICIES = ("default", "passive")


def seconds_per_picture(policy: str, pictures: int) -> float:
    """The median over the pictures, in a process whose idle OpenMP threads spin (default) or sleep (passive)."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    command = [sys.executable, "-c", EXTRACTION, str(pictures)]
    # Without the variable threads spin for a while before they sleep.
    chosen = {"OMP_WAIT_POLICY": policy} if policy == "passive" else {}
    ran = subprocess.run(command, env=environment | chosen, capture_output=True, text=True, check=True)
    return float(ran.stdout)


def main() -> None:
    """Print both policies' seconds, measured in turns beside one busy process, and the median of their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--pictures", type=int, default=12)
    given = parser.parse_args()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            rounds = [[seconds_per_picture(policy, given.pictures) for policy in POLICIES] for _ in range(given.rounds)]
        finally:
            busy.kill()
    ratio = statistics.median(default / passive for default, passive in rounds)
    seconds = {policy: [times[n] for times in rounds] for n, policy in enumerate(POLICIES)}
    print(json.dumps({"seconds_per_picture": seconds, "ratio": ratio}))


if __name__ == "__main__":
    main()
