"""Matchers that are read from disk when they are first needed, and their headers, which are known before."""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from models.matching.calibration import Calibration
from models.matching.matcher import Matcher


@dataclass(frozen=True)
class MatcherHeader:
    """The part of a matcher that is known without its weights."""

    name: str
    digest: str
    extractor_digest: str
    feature_dim: int
    reader: Hashable
    """The `identity` of its reader of sentences."""
    calibration: Calibration | None

    @classmethod
    def of(cls, matcher: Matcher) -> "MatcherHeader":
        """The header that a matcher would have been read after."""
        return cls(
            matcher.name,
            matcher.digest,
            matcher.extractor_digest,
            matcher.feature_dim,
            matcher.reader.identity,
            matcher.calibration,
        )


class LazyMatcher:
    """A matcher of which the header alone is in memory until it is first needed. Safe from many threads."""

    def __init__(self, header: MatcherHeader, read: Callable[[], Matcher]) -> None:
        """`read` gives the matcher that the header is of."""
        self._header, self._read = header, read
        self._reading = threading.Lock()
        self._matcher: Matcher | None = None

    @classmethod
    def of(cls, matcher: Matcher) -> "LazyMatcher":
        """A lazy matcher around one that is in memory already."""
        lazy = cls(MatcherHeader.of(matcher), lambda: matcher)
        lazy._matcher = matcher
        return lazy

    @property
    def header(self) -> MatcherHeader:
        """The header of the matcher, whether that was read or not."""
        return self._header if self._matcher is None else MatcherHeader.of(self._matcher)

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._matcher is not None

    @property
    def matcher(self) -> Matcher:
        """The matcher, read by the first who needs it, for whom the others wait.

        Whatever reading raises, each time anew; ValueError where the files are those of another matcher by now.
        """
        if self._matcher is None:
            with self._reading:
                if self._matcher is None:
                    self._matcher = self._checked(self._read())
        return self._matcher

    def _checked(self, matcher: Matcher) -> Matcher:
        if matcher.digest != self._header.digest:
            raise ValueError(
                f"{matcher.name}: its files give digest {matcher.digest} now, and gave {self._header.digest} when the"
                " process started: start it again to use them"
            )
        return matcher
