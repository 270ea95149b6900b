"""The ledger: acknowledged changes, and so the expected state of each picture of the load.

A request without an answer leaves two possible states, until a look at the service shows which one came true.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from service.chaos.findings import Findings
from service.chaos.pictures import DrawnPicture


@dataclass(frozen=True)
class PictureState:
    """A possible state of one picture.

    `edition` counts the changes of its description, None where it has none. `deleted_at` is a time before the deletion
    was sent. A deleted picture may have been erased since, which cannot be seen from outside.
    """

    status: Literal["absent", "present", "deleted"] = "absent"
    edition: int | None = None
    deleted_at: float = 0.0


def uploaded(before: PictureState) -> set[PictureState]:
    """States after an upload: a deleted picture is restored as it was, or without description if it was erased."""
    if before.status == "absent":
        return {PictureState("present", 0)}
    if before.status == "present":
        return {before}
    return {PictureState("present", before.edition), PictureState("present", None)}


def edited(before: PictureState) -> set[PictureState]:
    """States after a change of the description."""
    return {replace(before, edition=(before.edition or 0) + 1)}


def deleted(at: float) -> Callable[[PictureState], set[PictureState]]:
    """States after a deletion that was sent at that time."""
    return lambda before: {PictureState("deleted", before.edition, at)}


def restored(before: PictureState) -> set[PictureState]:
    """States after a deletion was undone."""
    return {PictureState("present", before.edition)}


class LedgerEntry:
    """The ledger of one picture: all its possible states."""

    def __init__(self, picture: DrawnPicture, number: int) -> None:
        self.picture, self.number = picture, number
        self.possible = {PictureState()}

    @property
    def state(self) -> PictureState | None:
        """The state of the picture; None where several are possible."""
        return next(iter(self.possible)) if len(self.possible) == 1 else None

    @property
    def must_be_seen(self) -> bool:
        """Whether it is present in every possible state."""
        return all(state.status == "present" for state in self.possible)

    @property
    def must_be_hidden(self) -> bool:
        """Whether it is absent in every possible state."""
        return all(state.status != "present" for state in self.possible)

    def _after(self, change: Callable[[PictureState], set[PictureState]]) -> set[PictureState]:
        return {after for before in self.possible for after in change(before)}

    def acknowledge(self, change: Callable[[PictureState], set[PictureState]]) -> None:
        """Record a change that the service acknowledged."""
        self.possible = self._after(change)

    def leave_open(self, change: Callable[[PictureState], set[PictureState]]) -> None:
        """Record a change without an answer: it may have been made or not."""
        self.possible |= self._after(change)

    def look(self, edition: int | None, is_there: bool, findings: Findings) -> None:
        """Compare with what the service shows, report differences, and continue from the actual state."""
        image_id = self.picture.image_id
        matching = {
            state
            for state in self.possible
            if (state.status == "present") == is_there and (not is_there or state.edition == edition)
        }
        if not matching and not is_there:
            findings.add("lost", image_id, "it was taken in or restored, but is missing")
        elif not matching and self.must_be_hidden:
            findings.add("lost", image_id, "it was deleted, but exists again")
        elif not matching:
            editions = sorted({str(state.edition) for state in self.possible if state.status == "present"})
            findings.add("lost", image_id, f"a change of it: edition {edition} where {' or '.join(editions)} was saved")
        self.possible = matching or {PictureState("present", edition) if is_there else PictureState()}


class Ledger:
    """The pictures of one client, which no other client changes."""

    def __init__(self, pictures: Iterable[tuple[int, DrawnPicture]]) -> None:
        self.entries = [LedgerEntry(picture, number) for number, picture in pictures]
        self.acknowledged = 0

    def certain(self, *statuses: str) -> list[LedgerEntry]:
        """Entries that are known to have one of these statuses."""
        return [entry for entry in self.entries if entry.state is not None and entry.state.status in statuses]


class Ledgers:
    """The ledgers of all clients, between which the pictures are divided."""

    def __init__(self, each: Sequence[Ledger]) -> None:
        self.each = each

    @property
    def entries(self) -> list[LedgerEntry]:
        """The entries of all pictures, by their number."""
        return sorted((entry for ledger in self.each for entry in ledger.entries), key=lambda entry: entry.number)

    @property
    def acknowledged(self) -> int:
        """The number of changes that the service acknowledged."""
        return sum(ledger.acknowledged for ledger in self.each)
