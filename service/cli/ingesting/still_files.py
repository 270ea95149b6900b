"""Files of watched folders that are ready to be sent: new or changed ones that have stopped changing."""

from collections.abc import Callable, Iterable
from pathlib import Path

from service.cli.ingesting.sent_files import FileState, SentFiles, state_of


class StillFiles:
    """Finds files that have not changed for a while and were not sent in their current state."""

    def __init__(self, sent: SentFiles, still_for_s: float, clock: Callable[[], float]) -> None:
        """A file is still once its state was the same for `still_for_s` seconds of `clock`."""
        self._sent = sent
        self._still_for_s = still_for_s
        self._clock = clock
        self._since: dict[Path, tuple[FileState, float]] = {}

    def look(self, paths: Iterable[Path]) -> dict[Path, FileState]:
        """The files among these that are ready to be sent, in order, with their states."""
        now, before, ready = self._clock(), self._since, dict[Path, FileState]()
        self._since = {}
        for path in paths:
            state = state_of(path)
            if state is None or self._sent.has(path, state):
                continue
            seen, since = before.get(path, (None, now))
            self._since[path] = (state, since if seen == state else now)
            if now - self._since[path][1] >= self._still_for_s:
                ready[path] = state
        return ready

    @property
    def num_unsent(self) -> int:
        """The number of files of the last look that were not sent yet, whether still or not."""
        return sum(not self._sent.has(path, state) for path, (state, _) in self._since.items())
