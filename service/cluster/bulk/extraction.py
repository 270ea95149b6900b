"""Extraction of region features by detectors on all nodes, into a folder as a single machine would write it.

Nodes read the picture files themselves, so the files must be where every node sees them. Batches come back in the order
of the pictures, so that a later run needs nothing but the folder's count of finished pictures.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import ray
import ray.data

from models.datasets.feature_store import (
    BATCH,
    begin_folder,
    feature_layout,
    in_stored_order,
    regions_of_files,
    write_regions,
)
from models.extractors.base import Extractor

AHEAD = 2  # rows queued for each process besides the one that it works on


class NodeDetector:
    """A detector in a process of its own, which processes rows that are batches of pictures."""

    def __init__(self, load: Callable[[], Extractor]) -> None:
        """`load` makes the detector in this process."""
        self._extractor = load()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row's number, and the arrays of its pictures as bytes, which Ray's columns do not alter."""
        regions = regions_of_files(self._extractor, [Path(path) for path in row["files"]])
        layout = feature_layout(self._extractor).items()
        return {"start": row["start"]} | {name: regions[name].astype(dtype).tobytes() for name, (_, dtype) in layout}


def extract_on_nodes(
    load: Callable[[], Extractor],
    photographs: Mapping[str, Path],
    out: Path,
    detectors: int | None = None,
    cpus: float = 1,
    batch: int = BATCH,
) -> Iterator[int]:
    """Extract the regions of `photographs` to the folder `out`, going on where an earlier run stopped.

    Yields the number of finished pictures. There are `detectors` processes, or as many as fit with `cpus` each.
    ValueError if `out` was begun with another detector or other photographs.
    """
    extractor = load()
    names = in_stored_order(photographs, out)
    done = begin_folder(extractor, names, out)
    files = [str(photographs[name].resolve()) for name in names]
    rows = [{"start": start, "files": files[start : start + batch]} for start in range(done, len(files), batch)]
    if not rows:
        return
    if detectors is None:
        detectors = max(1, min(len(rows), int(ray.cluster_resources().get("CPU", 1) / cpus)))
    for result in streamed(NodeDetector, (load,), rows, detectors, cpus):
        arrays = {
            name: np.frombuffer(result[name], dtype).reshape(-1, *shape)
            for name, (shape, dtype) in feature_layout(extractor).items()
        }
        yield write_regions(extractor, int(result["start"]), arrays, out)


def streamed(
    worker: Any,  # Ray's types allow only functions of rows
    arguments: tuple[Any, ...],
    rows: list[dict[str, Any]],
    processes: int,
    cpus: float,
) -> Iterator[dict[str, Any]]:
    """The results of the rows in their order, from `processes` processes that each make a `worker` with the arguments.

    Only a few rows per process wait at a time.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Ray itself sets the fields that it deprecates
        context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # its plans and timings are of no interest
    results = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        worker,
        fn_constructor_args=arguments,
        compute=ray.data.ActorPoolStrategy(size=processes, max_tasks_in_flight_per_actor=AHEAD),
        num_cpus=cpus,
    )
    yield from results.iter_rows()
