"""Wake-ups as settings ask for them: through Redis where one is named."""

from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from service.worker.wakeups import NoNotifier, Notifier, Polling, Wakeups


def open_notifier(redis_url: str | None, catalog_path: Path) -> Notifier:
    """A notifier for the web side over the catalog at that path, which is made where there is none."""
    if redis_url is None:
        return NoNotifier()
    from service.worker.redis_wakeups import RedisNotifier  # noqa: PLC0415 - the client comes with it

    with closing(Catalog(catalog_path)) as catalog:
        return RedisNotifier(redis_url, catalog.collection())


def open_wakeups(redis_url: str | None, catalog: Catalog) -> Wakeups:
    """Wake-ups for the worker."""
    if redis_url is None:
        return Polling(catalog)
    from service.worker.redis_wakeups import RedisWakeups  # noqa: PLC0415 - likewise

    return RedisWakeups(redis_url, catalog.collection())
