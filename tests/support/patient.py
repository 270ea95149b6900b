"""Requests to a service on a machine that may be busy: waited for much longer than httpx does by itself."""

from functools import partial

import httpx

TIMEOUT_S = 120.0  # so that only what never comes is missed

client = partial(httpx.Client, timeout=TIMEOUT_S)
delete = partial(httpx.delete, timeout=TIMEOUT_S)
get = partial(httpx.get, timeout=TIMEOUT_S)
patch = partial(httpx.patch, timeout=TIMEOUT_S)
