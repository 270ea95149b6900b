"""Pictures a second of ingestion through HTTP and of the detector alone, interleaved in one run, and their ratio.

python -m benchmarks.ingestion --photographs DIR --pictures 128 --rounds 3

Both get the same files and the same number of threads: the detector alone decodes and detects in this process, the
service (started here, api and worker) also hashes, stores, fsyncs, writes thumbnails, commits and encodes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import PIL.Image
import torch

from models.extractors.base import Extractor
from models.extractors.faster_rcnn import load_detector
from models.matching.checkpoint import WEIGHTS
from regard_client import Client

PORT = 8123
FILES_PER_REQUEST = 32


def extractor_seconds(extractor: Extractor, files: list[Path], batch: int) -> float:
    """Seconds in which the extractor alone decodes the files and finds their regions."""
    began = time.perf_counter()
    for start in range(0, len(files), batch):
        extractor.extract([PIL.Image.open(path).convert("RGB") for path in files[start : start + batch]])
    return time.perf_counter() - began


def service_seconds(client: Client, files: list[Path]) -> float:
    """Seconds from the first upload until the last picture is searchable."""
    began = time.perf_counter()
    jobs = [
        client.ingest(files[start : start + FILES_PER_REQUEST])["job_id"]
        for start in range(0, len(files), FILES_PER_REQUEST)
    ]
    for job in jobs:
        client.wait(job, seconds_between=0.05)
    return time.perf_counter() - began


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=128, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    given = parser.parse_args()
    files = sorted(path for path in given.photographs.iterdir() if path.suffix == ".jpg")
    extractor = load_detector(WEIGHTS / "detector")
    extractor_seconds(extractor, files[: given.batch], given.batch)
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "service.cli.main", "serve", "--data-dir", data, "--port", str(PORT)]
        server = subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL)
        try:
            client = Client(f"http://127.0.0.1:{PORT}")
            while not client.is_alive():
                time.sleep(0.2)
            service_seconds(client, files[-given.batch :])
            rounds = []
            for turn in range(given.rounds):
                part = files[turn * given.pictures : (turn + 1) * given.pictures]
                rounds.append((extractor_seconds(extractor, part, given.batch), service_seconds(client, part)))
        finally:
            server.terminate()
            server.wait()
    per_second = [[given.pictures / seconds for seconds in pair] for pair in rounds]
    report = {
        "hardware": f"{os.cpu_count()} cores, torch {torch.__version__}, {torch.get_num_threads()} threads",
        "bare_pictures_a_second": statistics.median(b for b, _ in per_second),
        "served_pictures_a_second": statistics.median(s for _, s in per_second),
        "ratio": statistics.median(b / s for b, s in rounds),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
