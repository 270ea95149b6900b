"""One test for both clients of the Python package: the results of one that waits and of one that is awaited."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from regard_client import AsyncClient, Client

CLIENTS: list[type[Client] | type[AsyncClient]] = [Client, AsyncClient]


async def settled(result: Any) -> Any:
    """A result, awaited where it has to be; of an iterator all that it yields."""
    if isinstance(result, AsyncIterator):
        return [one async for one in result]
    if isinstance(result, Iterator):
        return list(result)
    return await result if inspect.isawaitable(result) else result


async def closed(client: Client | AsyncClient) -> None:
    """Close the client."""
    if isinstance(client, AsyncClient):
        await client.aclose()
    else:
        client.close()


def sleeper(kind: type[Client] | type[AsyncClient], slept: list[float]) -> Callable[[float], Any]:
    """A sleep for such a client that takes no time and notes how long it would have been."""

    async def wait(seconds: float) -> None:
        slept.append(seconds)

    return wait if kind is AsyncClient else slept.append
