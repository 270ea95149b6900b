"""Health: whether the process is alive, whether it can answer, and its metrics."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from fastapi import APIRouter, Response

from index.catalog.ingestion.processes import WORKER
from index.lock import has_writer
from service.api.dependencies import ServicesDep
from service.api.metrics import Metrics
from service.api.problems import problem_responses
from service.api.schemas.resources import LiveAnswer, ReadyAnswer
from service.api.services import Services
from service.errors import NotReady, Problem
from service.search.model_views import nothing_searchable_yet
from service.storage.data_dir import DataDir
from service.storage.forbidden import forbidden_to_uploads

log = logging.getLogger(__name__)
router = APIRouter(tags=["health"])

FORWARD_PASS_TIMEOUT_S = 4.0
STUCK_S = 60.0  # no piece of work takes this long
BEATEN_WITHIN_S = 10.0  # by a live worker, whose heartbeat comes every 5 s, or later while it works on a batch
AHEAD_S = 1.0  # a heartbeat further in the future is from before the clock was set back


@router.get("/livez", operation_id="alive", summary="Does the process answer?", responses=problem_responses(Problem))
async def alive() -> LiveAnswer:
    """Checks nothing but the web process itself."""
    return LiveAnswer(status="alive")


@router.get(
    "/readyz", operation_id="ready", summary="Can it search and ingest?", responses=problem_responses(NotReady, Problem)
)
async def ready(services: ServicesDep) -> ReadyAnswer:
    """Checks a real forward pass, an open view, regions and a recent sign of the worker; an empty store is ready, too.

    While another detector finds all regions anew, it is ready as soon as the first pictures can be searched.
    """
    loop = asyncio.get_running_loop()
    parts: dict[str, Callable[[], str]] = {"model": partial(_model_state, services)}
    parts |= services.collection.checks or _checks_of_directory(services)
    # In separate threads, so that neither uploads nor searches delay the answer.
    states = (loop.run_in_executor(services.capacity.threads.health, state) for state in parts.values())
    checks = dict(zip(parts, await asyncio.gather(*states), strict=True))
    failing = {part: state for part, state in checks.items() if not state.startswith("ok")}
    if failing:
        detail = "; ".join(f"{part}: {state}" for part, state in failing.items())
        raise NotReady(detail, retry_after=5, checks=checks)
    return ReadyAnswer(status="ready", checks=checks)


@router.get(
    "/metrics",
    operation_id="metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **problem_responses(Problem)},
)
def metrics(services: ServicesDep) -> Response:
    """Counters, gauges and histograms in Prometheus' text format."""
    return Response(services.metrics.exposition(), media_type=Metrics.content_type)


def _model_state(services: Services) -> str:
    """The outcome of a forward pass ahead of all queries; where the model is busy, whether its work is stuck."""
    if not services.capacity.accelerator.alive:
        return "the thread that runs the models has ended"
    outcome = "ok"
    try:
        services.capacity.accelerator.probe(services.collection.search.forward_pass).result(FORWARD_PASS_TIMEOUT_S)
    except TimeoutError:
        outcome = "ok: busy"
    except NotReady as fault:
        return fault.detail
    except Exception as fault:  # the check names the kind, the log has the rest
        log.exception("the forward pass failed")
        return f"the forward pass failed: {type(fault).__name__}"
    busy_s = services.capacity.accelerator.busy_s  # also of light work, which does not block the forward pass
    return f"one piece of work has been running for {busy_s:.0f} s" if busy_s > STUCK_S else outcome


def _checks_of_directory(services: Services) -> Mapping[str, Callable[[], str]]:
    states = {"view": _view_state, "regions": _regions_state, "worker": _worker_state, "disk": _disk_state}
    states["catalog"] = _catalog_state
    return {part: partial(state, services) for part, state in states.items()}


def _view_state(services: Services) -> str:
    if not services.refresher.alive:
        return "the thread that follows the views has ended"
    model = services.models.default
    state = model.state(services.storage.catalog)
    if model.snapshot() is None:
        return f"the view of {model.name} is not built yet" if state.missing_pictures else "ok: the store is empty"
    if nothing_searchable_yet(state):
        return f"the view of {model.name} is being built: 0 of {state.missing_pictures} pictures so far"
    return "ok"


def _regions_state(services: Services) -> str:
    """The progress of a migration: ok once some pictures can be searched."""
    progress = services.storage.regions.progress()
    if progress is None:
        return "ok"
    snapshot = services.models.default.snapshot()
    searchable = not progress.total or (snapshot is not None and snapshot.counts.images > 0)
    return f"ok: {progress}" if searchable else f"{progress}"


def _disk_state(services: Services) -> str:
    if services.storage.catalog.read_only:
        return "ok: nothing is written"
    forbidden = forbidden_to_uploads(DataDir(services.settings.data_dir), services.storage.originals.incoming)
    return forbidden or services.storage.space.shortage() or "ok"


def _worker_state(services: Services) -> str:
    if services.storage.catalog.read_only:
        return "ok: the data directory can only be read, which takes no worker"
    heard = services.storage.catalog.processes.last_heartbeat(WORKER)
    if heard is None:
        return "no worker was ever heard from; start `regard worker` on this data directory"
    silent = services.clock() - heard
    if silent < -AHEAD_S:
        return f"the last sign of a worker is from {-silent:.0f} s ahead: the clock was set back, and none came since"
    if silent > services.settings.worker_silent_s:
        return f"no worker was heard from for {silent:.0f} s"
    if silent > BEATEN_WITHIN_S and has_writer(services.settings.data_dir) is False:
        return f"the worker has ended: nobody writes the data directory, and it was last heard {silent:.0f} s ago"
    return "ok"


def _catalog_state(services: Services) -> str:
    """Whether a request met damage in the catalog, or another process locks it. The latter is checked only while the
    worker is silent, which else writes every few seconds: Regard's own changes are short."""
    if services.storage.catalog.is_damaged:
        return "it is damaged: the log of this service says what to do"
    processes = services.storage.catalog.processes
    is_silent = services.clock() - (processes.last_heartbeat("worker") or 0) > BEATEN_WITHIN_S
    if is_silent and not services.storage.catalog.read_only and processes.are_kept_from_writing():
        return "another process keeps the catalog, so that nothing can be written"
    return "ok"
