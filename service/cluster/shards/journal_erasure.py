"""Erasure in a replica's journal: what entries say of erased pictures is overwritten, also if the bytes came again.

Ids, times and checksums stay, for siblings that catch up. Hidden pictures are forgotten last, so that a kill costs a
turn and no more.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from index.catalog.changes.deletion import Erasures
from service.cluster.operations import read_operation, without_descriptions, written
from service.cluster.shards.journal import Journal, JournalEntry

ERASE_EVERY_S = 60.0  # a turn reads the whole journal, if a picture was erased
ENTRIES_AT_ONCE = 256
IDS = re.compile(rb'"image_id":"([^"]*)"')  # quotes in texts are escaped

log = logging.getLogger(__name__)


@contextmanager
def erasing(erase: Callable[[], None], every_s: float = ERASE_EVERY_S) -> Iterator[None]:
    """A block in which a thread erases now and then."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(every_s):
            try:
                erase()
            except Exception:  # whatever it is, the next turn tries again
                log.exception("the journal still describes erased pictures")

    thread = threading.Thread(target=run, name="journal erasure", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def erase_descriptions(journal: Journal, erasures: Erasures) -> None:
    """Overwrite what the journal says of pictures that the catalog has erased."""
    hidden = journal.hidden()
    states = erasures.states({picture.number for picture in hidden})
    settled = [picture for picture in hidden if states.get(picture.number) != "deleted"]
    erased = [picture for picture in settled if states.get(picture.number, "erased") in ("erasing", "erased")]
    last = {one.image_id: one.sequence for one in erased if one.image_id}  # later entries are of bytes come again
    at = 0
    while last and (entries := journal.after(at, ENTRIES_AT_ONCE)):
        blanked = ((entry, _without(entry, last)) for entry in entries)
        journal.overwrite({entry.sequence: content for entry, content in blanked if content != entry.content})
        at = entries[-1].sequence
    if settled:
        journal.forget(settled)


def _without(entry: JournalEntry, last: Mapping[str, int]) -> bytes:
    """The content without descriptions of pictures, given by id and last entry."""
    erased = {name for name in map(bytes.decode, IDS.findall(entry.content)) if last.get(name, 0) >= entry.sequence}
    if not erased:
        return entry.content
    return entry.overwritten(written(without_descriptions(read_operation(entry.content), erased)))
