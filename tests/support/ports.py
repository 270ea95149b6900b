"""Ports that tests have to themselves."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from service.this_machine import LOOPBACK


@contextmanager
def own_port() -> Iterator[int]:
    """A port of the loopback address that the system gives to nobody else until the block ends.

    A socket is bound to it and does not listen: connections are refused, unless somebody binds it by its number to
    listen, as servers may, again and again.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, 0))
        yield int(held.getsockname()[1])
