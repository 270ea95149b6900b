"""The service that a command speaks to."""

from typing import TYPE_CHECKING

from pydantic import SecretStr

from service.cli.output import print_note

if TYPE_CHECKING:
    from service.client import Client


def connect(url: str | None, api_key: SecretStr | None = None) -> "Client":
    """A client of the service at `url`, with an API key; from REGARD_URL and REGARD_API_KEY where they are None.

    It says so when it has to wait for the service.
    """
    from service.client import Client  # noqa: PLC0415 - half a second, which `--help` should not take

    return Client.from_environment(url, api_key, print_note)
