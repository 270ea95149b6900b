"""The progress of a new detector in finding the regions of all pictures anew."""

from dataclasses import dataclass

from index.catalog.catalog import Catalog
from service.dates import duration
from service.storage.regions.entries import region_store_entries


@dataclass(frozen=True)
class MigrationProgress:
    """The progress of a new detector in finding the regions of all pictures anew."""

    extractor: str
    former: tuple[str, ...]
    """Digests of the extractors whose regions are there until it is done."""
    done: int
    total: int
    seconds_left: float | None
    """At the rate of late; None where none is known yet, or all regions are found and the views follow."""

    def __str__(self) -> str:
        """A sentence without its end, such as `finding regions anew: 120 of 5 000 pictures, about 14 minutes left`."""
        done, total = (f"{count:,}".replace(",", " ") for count in (self.done, self.total))
        said = f"finding regions anew: {done} of {total} pictures"
        return said if self.seconds_left is None else f"{said}, about {duration(self.seconds_left)} left"


def migration_progress(catalog: Catalog, digest: str) -> MigrationProgress | None:
    """The progress of the extractor with this digest; None where every region is its own, or none can be found anew."""
    current, *others = region_store_entries(catalog, digest)
    former = tuple(entry.extractor for entry in others if entry.state == "former")
    total = catalog.num_slots()
    if not former and current.records is None:
        return None
    done = total if current.records is None else current.records
    left = None
    if current.timed_from is not None and current.timed_to is not None and current.timed_records is not None:
        records, seconds = done - current.timed_records, current.timed_to - current.timed_from
        left = (total - done) * seconds / records if records > 0 and seconds > 0 and done < total else None
    return MigrationProgress(digest, former, done, total, left)
