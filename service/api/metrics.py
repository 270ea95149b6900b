"""Metrics for Prometheus, in one registry a process."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """Counters and histograms that the routes feed, and gauges that are read when the metrics are."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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

    def gauge(self, name: str, meaning: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is read whenever the metrics are."""
        Gauge(f"regard_{name}", meaning, registry=self.registry).set_function(read)

    def stage_times(self, milliseconds: Mapping[str, float]) -> None:
        """Observe the time that each stage of one search took."""
        for stage, spent in milliseconds.items():
            self.stages.labels(stage).observe(spent / 1000)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)
