"""The log of the processes of a service."""

import logging
import os
import sys

from service.settings import Settings


def write_log(settings: Settings) -> None:
    """Log to standard error, each line with its time, role, process and level."""
    form = f"%(asctime)s {settings.role} {os.getpid()} %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=settings.log_level.upper(), format=form, stream=sys.stderr)
    for name in ("httpx", "httpcore", "faiss.loader", "uvicorn"):  # their INFO is of no interest here
        logging.getLogger(name).setLevel(logging.WARNING)
