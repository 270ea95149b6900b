"""Matchers that are loaded from disk at first use, and their headers, which are known before."""

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
        """The header of a loaded matcher."""
        return cls(
            matcher.name,
            matcher.digest,
            matcher.extractor_digest,
            matcher.feature_dim,
            matcher.reader.identity,
            matcher.calibration,
        )


class LazyMatcher:
    """A matcher of which only the header is in memory until first use. Thread-safe."""

    def __init__(self, header: MatcherHeader, read: Callable[[], Matcher]) -> None:
        """Keep the header, and `read`, which loads its matcher."""
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
        """The header of the matcher, whether or not it is loaded."""
        return self._header if self._matcher is None else MatcherHeader.of(self._matcher)

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._matcher is not None

    @property
    def matcher(self) -> Matcher:
        """The matcher, loaded by the first caller, for which concurrent callers wait.

        A failed load raises, and is tried again by the next caller. Raises ValueError if the files are now those of
        another matcher.
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
