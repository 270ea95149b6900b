"""Wake-ups as configured: through Redis if a URL is set, otherwise by polling."""

from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from service.worker.wakeups import NoNotifier, Notifier, Polling, Wakeups


def open_notifier(redis_url: str | None, catalog_path: Path) -> Notifier:
    """The web side's notifier, for the catalog at that path, which is created if missing."""
    if redis_url is None:
        return NoNotifier()
    from service.worker.redis_wakeups import RedisNotifier  # noqa: PLC0415 - imports the Redis client

    with closing(Catalog(catalog_path)) as catalog:
        return RedisNotifier(redis_url, catalog.collection())


def open_wakeups(redis_url: str | None, catalog: Catalog) -> Wakeups:
    """The worker's wake-ups."""
    if redis_url is None:
        return Polling(catalog)
    from service.worker.redis_wakeups import RedisWakeups  # noqa: PLC0415 - likewise

    return RedisWakeups(redis_url, catalog.collection())
