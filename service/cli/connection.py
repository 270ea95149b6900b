"""The connection of a command to a service."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import SecretStr

from service.cli.terminal.output import print_note
from service.errors import UserError
from service.settings import ClientSettings

if TYPE_CHECKING:
    from regard_client import Client, RegardError


NOT_READY_S = 600.0  # how long to wait for a service that is not ready, for example for lack of disk space
AWAY_S = 60.0  # how long to wait for a service that does not answer any more, for example during a restart


@contextmanager
def connect(url: str | None, api_key: SecretStr | None = None) -> Iterator["Client"]:
    """A client of the service at `url`, with an API key; from REGARD_URL and REGARD_API_KEY where they are None.

    It prints a note when it waits for the service. Errors of the client become UserError, with advice.
    """
    # Half a second, which `--help` should not take.
    from regard_client import Client, RegardError, Retries

    key = None if api_key is None else api_key.get_secret_value()
    retries = Retries(most_sends=sys.maxsize, longest_wait_s=math.inf, away_s=AWAY_S, not_ready_s=NOT_READY_S)
    try:
        with Client(url or ClientSettings().url, key, retries=retries, on_wait=waiting_notes()) as client:
            yield client
    except RegardError as fault:
        raise UserError(advised(fault)) from fault


def waiting_notes() -> Callable[["RegardError", float], None]:
    """A callback that prints why the service is waited for, whenever the reason changes."""
    last = ""

    def note(reason: "RegardError", seconds: float) -> None:
        nonlocal last
        if last != str(reason):
            last = str(reason)
            print_note(f"{last.removesuffix('.')}. Waiting.")

    return note


def advised(fault: "RegardError") -> str:
    """The message of an error, with advice for the command line."""
    from regard_client import RequestRefused, ServerUnreachable
    from regard_client.errors import UNAUTHORIZED

    if isinstance(fault, ServerUnreachable):
        return f"{fault}, or give the address of a service with --url or REGARD_URL"
    if isinstance(fault, RequestRefused) and fault.status == UNAUTHORIZED:
        return f"{fault.reason} Commands read it from REGARD_API_KEY."
    return str(fault)
