"""A server on a real socket for the tests of clients."""

from collections.abc import Iterator

import pytest

from tests.support.running_server import running_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with an empty data directory and small models."""
    with running_server(tmp_path_factory.mktemp("data")) as address:
        yield address
