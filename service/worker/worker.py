"""The worker, the only writer: it ingests queued pictures, extends the views, and maintains the stores.

While the regions of all pictures are detected again (`migration.py`), new pictures are committed without regions, and
get them in their turn.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from index.views.slab import DamagedRow
from models.freed_memory import give_back_freed_memory
from service.storage.disk import FreeSpace, is_catalog_kept, is_disk_full
from service.worker.ingestion import Ingestion
from service.worker.maintenance.erasure import Erasure
from service.worker.maintenance.repair import RecordRepair
from service.worker.migration import Migration
from service.worker.open_store import OpenStore
from service.worker.view_builder import ViewBuilders
from service.worker.wakeups import Wakeups

PAUSE_S = 5.0  # between tries while the disk is full, or others keep the catalog locked

log = logging.getLogger(__name__)


class Worker:
    """Processes the catalog's queue. Hold the WriterLock."""

    def __init__(
        self,
        store: OpenStore,
        *,
        ingestion: Ingestion,
        views: ViewBuilders,
        migration: Migration,
        erasure: Erasure,
        space: FreeSpace,
        repair: RecordRepair,
        every_turn: Sequence[Callable[[], None]],
        when_idle: Sequence[Callable[[], bool]],
    ) -> None:
        """`every_turn`: steps that do not count as work, taken by an idle worker, too. `when_idle`: steps of work with
        the lowest priority; each returns whether there was something to do."""
        self._catalog, self._slab, self._ingestion = store.catalog, store.slab, ingestion
        self._views, self._migration, self._erasure = views, migration, erasure
        self._space, self._paused = space, False
        self._repair, self._every_turn, self._when_idle = repair, every_turn, when_idle
        self._heartbeat = store.heartbeat

    def run(self, wakeups: Wakeups, stop: threading.Event) -> None:
        """Work until `stop` is set and the batch in hand is done. An idle worker returns freed memory to the system."""
        try:
            self._run(wakeups, stop)
        except Exception:
            with suppress(Exception):  # the original fault is raised instead
                self._ingestion.end_batch()  # so that even a worker that fails repeatedly makes progress
            raise
        try:
            if self._space.enough_to_work():
                self._ingestion.end_batch()
        except (OSError, sqlite3.OperationalError) as fault:
            if not (is_disk_full(fault) or is_catalog_kept(fault)):
                raise
            cause = "the disk is full" if is_disk_full(fault) else "another process keeps the catalog"
            log.error("%s (%s): the next worker takes in the last pictures", cause, fault)

    def _run(self, wakeups: Wakeups, stop: threading.Event) -> None:
        worked = False
        while not stop.is_set():
            had_worked, worked = worked, self.run_within_space(stop)
            if not worked:
                if had_worked:
                    give_back_freed_memory()
                wakeups.acknowledge()
                wakeups.wait(stop)

    def run_within_space(self, stop: threading.Event) -> bool:
        """`run_once`, or a pause where the disk is full or the catalog is locked, after which it is worth another
        try."""
        try:
            if self._space.enough_to_work():
                worked = self.run_once(stop)
                self._paused = False
                return worked
            self._pause(stop, self._space.need_of_worker())
        except (OSError, sqlite3.OperationalError) as fault:
            if is_catalog_kept(fault):
                self._put_off(stop, fault)
            elif is_disk_full(fault):
                self._pause(stop, str(fault))
            else:
                raise
        return True

    def _put_off(self, stop: threading.Event, fault: Exception) -> None:
        if not self._paused:
            log.error("another process keeps the catalog (%s): the worker waits for it, and goes on by itself", fault)
        self._paused = True
        self._forget_ahead()
        stop.wait(PAUSE_S)

    def _pause(self, stop: threading.Event, cause: str) -> None:
        if not self._paused:
            log.error("the disk is full (%s): the worker waits until there is room, and goes on by itself", cause)
        self._paused = True
        self._forget_ahead()
        self._make_room()
        stop.wait(PAUSE_S)

    def _forget_ahead(self) -> None:
        self._ingestion.forget_ahead()
        self._migration.forget_ahead()

    def _make_room(self) -> None:
        """Erase the pictures that are due, which frees more space than it takes, and keep up the heartbeat."""
        try:
            self._heartbeat.beat()
            while self._erasure.advance(self._ingestion.end_batch):
                pass
        except (OSError, sqlite3.OperationalError) as fault:
            if not (is_disk_full(fault) or is_catalog_kept(fault)):
                raise

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """One batch of each kind of work, and the next rows of views; False when there was nothing to do.

        The detector begins no batch of new pictures once `stop` is set.
        """
        self._heartbeat.beat()
        ingested = self._ingestion.advance(without_regions=self._migration.filling, stop=stop)
        migrated = self._migration.advance()
        advanced = self._extend_views()
        # The detector may have a picture deleted since: committed after its erasure, it would leave data behind.
        erased = self._erasure.advance(self._ingestion.end_batch)
        for step in self._every_turn:
            step()
        return ingested or migrated or advanced or erased or any(step() for step in self._when_idle)

    def _extend_views(self) -> bool:
        try:
            return self._views.catch_up(self._catalog, self._slab)
        except DamagedRow as fault:
            log.error("%s", fault)
            self._repair.make_again(fault.row)
            return True
