"""The service that a command speaks to."""

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


NOT_READY_S = 600.0  # that a service which lacks something, such as its disk, is asked again in
AWAY_S = 60.0  # that a service which answered is waited for, as while it is started again


@contextmanager
def connect(url: str | None, api_key: SecretStr | None = None) -> Iterator["Client"]:
    """A client of the service at `url`, with an API key; from REGARD_URL and REGARD_API_KEY where they are None.

    It says so when it has to wait for the service. UserError, in words, for what goes wrong while it is used.
    """
    # Half a second, which `--help` should not take.
    from regard_client import Client, RegardError, Retries  # noqa: PLC0415

    key = None if api_key is None else api_key.get_secret_value()
    as_told = Retries(most_sends=sys.maxsize, longest_wait_s=math.inf, away_s=AWAY_S, not_ready_s=NOT_READY_S)
    try:
        with Client(url or ClientSettings().url, key, retries=as_told, on_wait=tell_of_waiting()) as client:
            yield client
    except RegardError as fault:
        raise UserError(advised(fault)) from fault


def tell_of_waiting() -> Callable[["RegardError", float], None]:
    """Notes why the service is waited for: each reason once."""
    told: list[str] = []

    def tell(reason: "RegardError", seconds: float) -> None:
        if told[-1:] != [str(reason)]:
            print_note(f"{str(reason).removesuffix('.')}. Waiting.")
            told.append(str(reason))

    return tell


def advised(fault: "RegardError") -> str:
    """The message of an error with what to do about it at a command line."""
    from regard_client import RequestRefused, ServerUnreachable  # noqa: PLC0415
    from regard_client.errors import UNAUTHORIZED  # noqa: PLC0415

    if isinstance(fault, ServerUnreachable):
        return f"{fault}, or say with --url or REGARD_URL where a service runs"
    if isinstance(fault, RequestRefused) and fault.status == UNAUTHORIZED:
        return f"{fault.reason} Commands read it from REGARD_API_KEY."
    return str(fault)
