"""Ingestion: the time of each stage in one process, and the service's rate compared with the bare extractor's.

Both get the same files and number of threads. The bare extractor decodes and finds regions in this process; the service
also hashes, stores, writes thumbnails, commits and encodes.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import PIL.Image

from index.views.view_writer import ViewWriter
from models.batches import Regions, tiles
from models.extractors.base import Detections, Extractor
from models.freed_memory import keep_freed_memory
from models.matching.checkpoint import WEIGHTS
from models.matching.encoded import stored_arrays
from models.matching.matcher import Matcher
from models.pictures import LONGEST_SIDE
from regard_client import Client
from service.errors import UserError
from service.media.pixels import decode_file
from service.model_loading import LoadedModels
from service.model_names import DETECTOR
from service.processes.service_process import ServiceProcess
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.regions.records import RecordLayout, pack

FILES_PER_REQUEST = 32
LOOK_AT_JOB_EVERY_S = 0.25  # as often as the page is updated
DRAWN_SIZE = (600, 450)
STAGES = ("decode", "extract", "encode", "write")
PICTURE_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}

# Run in a separate process: the wait policy of OpenMP threads is fixed at its start.
EXTRACTION = """
import json, statistics, sys, time
from pathlib import Path
import PIL.Image, torch
from models.extractors.registry import load_extractor
from models.freed_memory import keep_freed_memory
keep_freed_memory()
folder, device, threads, pictures = json.loads(sys.argv[1])
torch.set_num_threads(threads)
extractor = load_extractor(Path(folder), device)
picture = PIL.Image.effect_noise((600, 450), 60).convert("RGB")
extractor.extract([picture])
seconds = []
for _ in range(pictures):
    started = time.perf_counter()
    extractor.extract([picture])
    seconds.append(time.perf_counter() - started)
print(statistics.median(seconds))
"""
POLICIES = ("spinning", "passive")


def files_to_ingest(folder: Path | None, count: int, drawn: Path) -> list[Path]:
    """`count` picture files at any depth of a folder; without a folder, JPEGs of noise created in `drawn`.

    UserError if the folder holds fewer.
    """
    if folder is None:
        return [_draw(drawn / f"noise-{number}.jpg", number) for number in range(count)]
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURE_SUFFIXES)
    if len(found) < count:
        raise UserError(f"{folder} holds {len(found)} pictures, and {count} are needed: lower --pictures or --rounds")
    return found[:count]


def _draw(path: Path, number: int) -> Path:
    noise = PIL.Image.effect_noise((16, 12), 90).resize(DRAWN_SIZE, PIL.Image.Resampling.BICUBIC)
    noise.convert("RGB").save(path, quality=85, comment=f"{number}")
    return path


def decode_for_detector(path: Path) -> PIL.Image.Image:
    """A picture, decoded as the worker does it for the detector."""
    return decode_file(str(path), LONGEST_SIDE).picture


def bare_seconds(extractor: Extractor, files: Sequence[Path], batch: int) -> float:
    """Seconds that the extractor alone takes to decode the files and find their regions."""
    began = time.perf_counter()
    for part in tiles(len(files), batch):
        extractor.extract([decode_for_detector(path) for path in files[part]])
    return time.perf_counter() - began


def served_seconds(client: Client, files: Sequence[Path]) -> float:
    """Seconds from the first upload until the last picture is searchable."""
    began = time.perf_counter()
    jobs = [client.ingest(files[part])["job_id"] for part in tiles(len(files), FILES_PER_REQUEST)]
    for job in jobs:
        client.wait(job, seconds_between=LOOK_AT_JOB_EVERY_S)
    return time.perf_counter() - began


def stage_seconds(loaded: LoadedModels, files: Sequence[Path], batch: int, folder: Path) -> dict[str, float]:
    """Seconds per picture of each stage, run one after the other in this process; records and views go to `folder`."""
    spent = dict.fromkeys(STAGES, 0.0)
    extractor, matchers = loaded.extractor, loaded.in_views()
    layout = RecordLayout.of(extractor)
    with ExitStack() as stack:
        slab = stack.enter_context(closing(layout.open(folder / "regions", write=True)))
        views = [stack.enter_context(closing(_view(folder, matcher, layout, extractor))) for matcher in matchers]
        for part in tiles(len(files), batch):
            began = time.perf_counter()
            pictures = [decode_for_detector(path) for path in files[part]]
            spent["decode"] += time.perf_counter() - began
            began = time.perf_counter()
            found = extractor.extract(pictures)
            spent["extract"] += time.perf_counter() - began
            records = pack(found, [(1.0, 1.0)] * len(pictures))
            began = time.perf_counter()
            encoded = [matcher.encode_regions(_regions(found)) for matcher in matchers]
            spent["encode"] += time.perf_counter() - began
            began = time.perf_counter()
            slab.append(part.start, records)
            for view, (images, embeddings) in zip(views, encoded, strict=True):
                view.add_images(part.start, stored_arrays(images, view.wide_fields), embeddings.float().cpu().numpy())
            spent["write"] += time.perf_counter() - began
    return {name: seconds / len(files) for name, seconds in spent.items()}


def _regions(found: Detections) -> Regions:
    return Regions(found.features.float(), found.mask)


def _view(folder: Path, matcher: Matcher, layout: RecordLayout, extractor: Extractor) -> ViewWriter:
    return ViewWriter(
        folder / matcher.digest,
        layout=matcher.image_layout(layout.num_regions, layout.feature_dim),
        wide=matcher.wide_fields,
        embed_dim=matcher.embed_dim,
        word_dim=matcher.word_dim,
        digest=matcher.digest,
        extractor=extractor.digest,
    )


def waiting_seconds(policy: str, settings: Settings, detector: Path, threads: int, pictures: int) -> float:
    """Median seconds per picture of the extractor in a process whose idle OpenMP threads spin or sleep ("passive")."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    chosen = {"OMP_WAIT_POLICY": "passive"} if policy == "passive" else {}  # by default they spin before they sleep
    arguments = json.dumps([str(detector), settings.device, threads, pictures])
    command = [sys.executable, "-c", EXTRACTION, arguments]
    ran = subprocess.run(command, env=environment | chosen, capture_output=True, text=True, check=True)
    return float(ran.stdout)


def ingest_rows(
    settings: Settings, files: Sequence[Path], rounds: int, threads: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """A row for each stage, then one for the bare extractor and one for the service.

    A first batch of `files` is for warming up; the rounds share the others. Logs and records go to `folder`.
    """
    keep_freed_memory()  # as the worker does, for a fair comparison
    loaded = LoadedModels.from_settings(settings)
    batch = settings.detect_batch
    warming, rest = files[:batch], files[batch:]
    each = len(rest) // rounds
    bare_seconds(loaded.extractor, warming, batch)
    stages = stage_seconds(loaded, rest[:each], batch, folder / "stages")
    for name, seconds in stages.items():
        yield _row(f"stage: {name}", each, threads, seconds, share=seconds / sum(stages.values()))
    turns = []
    served = settings.model_copy(update={"data_dir": DataDir(folder / "data").root})
    with ServiceProcess(served, folder / "ingest.log") as service, Client(service.url) as client:
        service.seconds_until("/readyz")
        served_seconds(client, warming)
        for turn in range(rounds):
            part = rest[turn * each : (turn + 1) * each]
            turns.append((bare_seconds(loaded.extractor, part, batch), served_seconds(client, part)))
    yield _row("bare extractor", each, threads, statistics.median(bare for bare, _ in turns) / each)
    ratio = statistics.median(bare / ours for bare, ours in turns)
    yield _row("over HTTP", each, threads, statistics.median(ours for _, ours in turns) / each, ratio=ratio)


def waiting_rows(settings: Settings, rounds: int, threads: int) -> Iterator[dict[str, Any]]:
    """Rows for the extractor with idle threads that spin and with ones that sleep, measured in turns."""
    pictures, detector = settings.detect_batch, settings.detector or WEIGHTS / DETECTOR
    turns = [
        {policy: waiting_seconds(policy, settings, detector, threads, pictures) for policy in POLICIES}
        for _ in range(rounds)
    ]
    for policy in POLICIES:
        ratio = statistics.median(turn["spinning"] / turn[policy] for turn in turns)
        seconds = statistics.median(turn[policy] for turn in turns)
        yield _row(f"extractor, idle threads {policy}", pictures, threads, seconds, ratio=ratio)


def _row(
    what: str, pictures: int, threads: int, seconds: float, share: float | None = None, ratio: float | None = None
) -> dict[str, Any]:
    """A row; `ratio` is the rate divided by that of the bare extractor, or of spinning threads."""
    return {
        "what": what,
        "pictures": pictures,
        "threads": threads,
        "seconds_per_picture": seconds,
        "pictures_per_second": 1 / seconds if seconds else None,
        "share": share,
        "ratio": ratio,
    }
