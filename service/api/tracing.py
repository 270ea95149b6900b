"""OpenTelemetry traces of requests, off unless settings name a collector.

FastAPI makes the spans; this module exports them. A span has the route, the status, the time of each step and, for a
search, of each stage; never a body, a header or a query string.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from opentelemetry.context import Context

from service.errors import Misconfigured
from service.settings import Settings

URL_QUERY = "url.query"  # FastAPI's attribute; a query string may hold the words of a search
WITHHELD = "withheld"
EXPORT_TIMEOUT_S = 5.0  # so that a silent collector does not delay the end of the process


@dataclass(frozen=True)
class Tracing:
    """The destination of spans; without a provider they go nowhere."""

    provider: trace.TracerProvider | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Tracing to the collector that the settings name. Misconfigured where the extra `tracing` is missing."""
        if settings.otlp_endpoint is None:
            return cls()
        return cls(open_provider(settings.otlp_endpoint))

    @property
    def config(self) -> TelemetryConfig:
        """FastAPI's configuration, which ignores OTEL_ variables."""
        return {
            "tracing": self.provider is not None,
            "tracer_provider": self.provider,
            "metrics": False,  # they are at /metrics
            "logs": False,  # they would hold the messages of exceptions
            "auto_configure": False,
        }

    def close(self) -> None:
        """Send the spans not sent yet, for a few seconds at most."""
        shutdown = getattr(self.provider, "shutdown", None)
        if shutdown is not None:
            shutdown()


def open_provider(endpoint: str) -> trace.TracerProvider:
    """A provider that sends spans to the collector at that URL. Misconfigured where the extra `tracing` is missing."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - both come with the extra
        from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as fault:
        raise Misconfigured(
            f"REGARD_OTLP_ENDPOINT needs the extra `tracing`, installed by pip install -e '.[tracing]' ({fault})"
        ) from fault

    class WithholdQueries(SpanProcessor):
        """Replaces the query string as soon as a span begins."""

        def on_start(self, span: Span, parent_context: Context | None = None) -> None:
            if span.attributes is not None and URL_QUERY in span.attributes:
                span.set_attribute(URL_QUERY, WITHHELD)

        def on_end(self, span: ReadableSpan) -> None:
            pass

    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_TIMEOUT_S)
    provider = TracerProvider(resource=Resource.create({"service.name": "regard"}))
    provider.add_span_processor(WithholdQueries())
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def note_stages(milliseconds: Mapping[str, float]) -> None:
    """Add the time of each stage of a search to the span of the request, if it is traced."""
    span = trace.get_current_span()
    for stage, spent in milliseconds.items():
        span.set_attribute(f"regard.search.{stage}_ms", spent)
