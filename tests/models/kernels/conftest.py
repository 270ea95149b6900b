"""The kernels that this machine runs."""

import pytest

from models.kernels.library import KernelLibrary
from tests.support.kernels import load_kernels


@pytest.fixture(scope="module")
def kernels() -> KernelLibrary:
    """Loaded once for a file of tests."""
    return load_kernels()
