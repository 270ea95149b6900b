"""Metrics for Prometheus, of one process or of several that answer on one port."""

import logging
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

log = logging.getLogger(__name__)

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class _ReadGauges:
    """Gauges whose values are read whenever they are asked for; those without a value, or that cannot be read,
    are left out."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, ...], tuple[Mapping[str, str], Callable[[], Mapping[str, float]]]] = {}
        self._unreadable: set[tuple[str, ...]] = set()

    def add(self, meanings: Mapping[str, str], read: Callable[[], Mapping[str, float]]) -> None:
        """Add those of these names, which are read together; the same names again take their place."""
        self._read[tuple(meanings)] = meanings, read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The values of now."""
        for names, (meanings, read) in self._read.items():
            try:
                values = read()
            except Exception as fault:  # whatever it is, the other metrics are asked for most while something is amiss
                if names not in self._unreadable:  # once, not whenever they are asked for
                    log.warning(
                        "metrics lack %s until it can be read again: %s", ", ".join(names), fault, exc_info=True
                    )
                self._unreadable.add(names)
                continue
            self._unreadable.discard(names)
            for name, value in values.items():
                yield GaugeMetricFamily(f"regard_{name}", meanings[name], value=value)


class Metrics:
    """Counters and histograms that the routes feed, and gauges that are read when the metrics are."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, shared: bool = False) -> None:
        """`shared`: counters and histograms are those of all processes that keep theirs in one folder."""
        self._gauges, self._gauge_registry = _ReadGauges(), CollectorRegistry(auto_describe=False)
        self._gauge_registry.register(self._gauges)
        self.registry = CollectorRegistry()
        self._exposed = self.registry
        if shared:
            self._exposed = CollectorRegistry()
            MultiProcessCollector(self._exposed)  # type: ignore[no-untyped-call]
        self.requests = Counter(
            "regard_requests", "Answers by route and status.", ["route", "status"], registry=self.registry
        )
        self.latency = Histogram(
            "regard_request_seconds",
            "Time to answer.",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.stages = Histogram(
            "regard_search_stage_seconds",
            "Time of a search's stages.",
            ["stage"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.cache = Counter("regard_cache", "Searches by what the cache said.", ["outcome"], registry=self.registry)

        self.refusals = Counter(
            "regard_refusals", "Requests refused for want of a key or a permission.", ["reason"], registry=self.registry
        )

    def gauge(self, name: str, meaning: str, read: Callable[[], float | None]) -> None:
        """Add a gauge whose value is read whenever the metrics are; None where it has none."""
        self._gauges.add({name: meaning}, lambda: {} if (value := read()) is None else {name: value})

    def gauges(self, meanings: Mapping[str, str], read: Callable[[], Mapping[str, float]]) -> None:
        """Add gauges, by their names, whose values are read together whenever the metrics are."""
        self._gauges.add(meanings, read)

    def stage_times(self, milliseconds: Mapping[str, float]) -> None:
        """Observe the time that each stage of one search took."""
        for stage, spent in milliseconds.items():
            self.stages.labels(stage).observe(spent / 1000)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._exposed) + generate_latest(self._gauge_registry)
