"""Lazy loading of models when a query first names them, in a thread that no other search waits for."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from service.errors import ModelNotLoaded
from service.garbage_collection import pass_over_loaded_objects
from service.search.model_views import ModelView

log = logging.getLogger(__name__)


class ModelLoader:
    """Loads models one after the other, each once for all who wait for it. Thread-safe."""

    def __init__(self) -> None:
        """The thread starts with the first model."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="load")
        self._lock = threading.Lock()
        self._begun: dict[str, Future[None]] = {}

    async def load(self, model: ModelView, measure: Callable[[], "Future[None]"]) -> None:
        """Wait until the model is loaded and measured. Raises ModelNotLoaded where it cannot be loaded; the next call
        tries again. NotReady where the service ends.

        `measure` starts to measure the model's cost, which is part of the load, so that it happens even if every caller
        goes away. Cancelling one caller does not cancel the load for the others.
        """
        if not model.loaded:
            await asyncio.shield(asyncio.wrap_future(self._begin(model, measure)))

    def close(self) -> None:
        """Finish the load in progress and start no other."""
        self._thread.shutdown(cancel_futures=True)

    def _begin(self, model: ModelView, measure: Callable[[], "Future[None]"]) -> "Future[None]":
        with self._lock:
            loading = self._begun.get(model.name)
            if loading is None or loading.done():
                loading = self._begun[model.name] = self._thread.submit(self._load, model, measure)
            return loading

    def _load(self, model: ModelView, measure: Callable[[], "Future[None]"]) -> None:
        started = time.perf_counter()
        try:
            matcher = model.matcher
        except Exception as fault:
            is_file_fault = isinstance(fault, (OSError, ValueError))
            log.error("the model %s cannot be loaded: %s", model.name, fault, exc_info=not is_file_fault)
            raise ModelNotLoaded(model.name) from fault
        pass_over_loaded_objects()
        log.info("loaded the model %s (%s) in %.1f s", model.name, matcher.digest, time.perf_counter() - started)
        measure().result()
