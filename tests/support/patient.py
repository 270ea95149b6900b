"""Requests to a service on a machine that may be busy: waited for much longer than httpx does by itself.

What they reach is on this machine and has no certificate: none is read, which takes longer than most answers.
"""

from functools import partial

import httpx

TIMEOUT_S = 120.0  # long, so that slow answers are no failures

client = partial(httpx.Client, timeout=TIMEOUT_S, verify=False)
delete = partial(httpx.delete, timeout=TIMEOUT_S, verify=False)
get = partial(httpx.get, timeout=TIMEOUT_S, verify=False)
patch = partial(httpx.patch, timeout=TIMEOUT_S, verify=False)
