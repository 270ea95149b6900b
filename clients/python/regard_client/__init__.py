"""Client of a Regard server: pictures for sentences, captions and pictures for pictures, and what is stored.

`Client` waits for its answers, `AsyncClient` is for programs on an event loop. Needs httpx and nothing of the server.
"""

from regard_client.async_client import AsyncClient
from regard_client.client import Client
from regard_client.errors import (
    JobUnfinished,
    Misconfigured,
    RegardError,
    RequestRefused,
    ServerUnreachable,
    UnexpectedAnswer,
)
from regard_client.pictures import Picture, Receipt, upload_batches
from regard_client.retries import Retries

__all__ = [
    "AsyncClient",
    "Client",
    "JobUnfinished",
    "Misconfigured",
    "Picture",
    "Receipt",
    "RegardError",
    "RequestRefused",
    "Retries",
    "ServerUnreachable",
    "UnexpectedAnswer",
    "upload_batches",
]
