"""The log of the processes of a service: lines of text, or of JSON."""

import json
import logging
import os
import sys
from datetime import UTC, datetime

from service.auth.api_keys import redact_keys
from service.cli.log_rate import RateLimit
from service.settings import Settings

# All others log warnings only: their INFO is of no interest, and httpx logs the URL of every request.
OWN_LOGGERS = ("models", "index", "service", "regard", "regard_client")


class TextFormatter(logging.Formatter):
    """A line with time, role, process, level and logger, followed by any traceback. Keys are redacted."""

    def __init__(self, role: str) -> None:
        super().__init__(f"%(asctime)s {role} {os.getpid()} %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        # Nothing logs keys, but a library might put a header into an exception.
        return redact_keys(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339), level, role, process, logger, message; exception and audit if any."""

    def __init__(self, role: str) -> None:
        super().__init__()
        self._role = role

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "role": self._role,
            "process": record.process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if (audit := getattr(record, "audit", None)) is not None:
            line["audit"] = audit
        return redact_keys(json.dumps(line, ensure_ascii=False))


def write_log(settings: Settings) -> None:
    """Log to standard error, in the format and at the level of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JsonFormatter if settings.log_format == "json" else TextFormatter)(settings.role))
    handler.addFilter(RateLimit())
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])
    for name in OWN_LOGGERS:
        logging.getLogger(name).setLevel(level)
