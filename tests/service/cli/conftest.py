"""A service that commands speak to."""

from collections.abc import Iterator

import pytest

from tests.support.running_server import running_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service on an empty data directory, one for a file of tests."""
    with running_server(tmp_path_factory.mktemp("data")) as address:
        yield address
