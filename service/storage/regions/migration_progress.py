"""The progress of a new detector in finding the regions of all pictures again."""

from dataclasses import dataclass

from index.catalog.catalog import Catalog
from service.dates import duration
from service.storage.regions.entries import region_store_entries


@dataclass(frozen=True)
class MigrationProgress:
    """The progress of a new detector in finding the regions of all pictures again."""

    extractor: str
    former: tuple[str, ...]
    """Digests of the extractors whose regions are kept until it is done."""
    done: int
    total: int
    seconds_left: float | None
    """At the recent rate; None where it is not known yet, or all regions are found and only the views remain."""

    def __str__(self) -> str:
        """A message such as `finding regions anew: 120 of 5 000 pictures, about 14 minutes left`."""
        done, total = (f"{count:,}".replace(",", " ") for count in (self.done, self.total))
        message = f"finding regions anew: {done} of {total} pictures"
        return message if self.seconds_left is None else f"{message}, about {duration(self.seconds_left)} left"


def migration_progress(catalog: Catalog, digest: str) -> MigrationProgress | None:
    """The progress of the extractor with this digest; None where all regions are its own, or none can be found
    again."""
    current, *other_entries = region_store_entries(catalog, digest)
    former = tuple(entry.extractor for entry in other_entries if entry.state == "former")
    total = catalog.num_slots()
    if not former and current.records is None:
        return None
    done = total if current.records is None else current.records
    seconds_left = None
    if current.timed_from is not None and current.timed_to is not None and current.timed_records is not None:
        records, seconds = done - current.timed_records, current.timed_to - current.timed_from
        seconds_left = (total - done) * seconds / records if records > 0 and seconds > 0 and done < total else None
    return MigrationProgress(digest, former, done, total, seconds_left)
