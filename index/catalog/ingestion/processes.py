"""Notes of processes that share a catalog to each other: that one is alive, and which views are wanted."""

from index.catalog.database.connection import Database

WORKER = "worker"  # the role of the process that writes


class Processes:
    """Notes of processes in a catalog. Every method is one transaction, durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def request_view(self, digest: str, now: float) -> None:
        """Have the view of the model with this digest kept up, whatever settings name."""
        sql = "INSERT INTO requested_views (digest, requested_at) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING"
        with self._database.changing() as db:
            db.execute(sql, [digest, now])

    def requested_views(self) -> set[str]:
        """Digests of the models whose views were requested."""
        with self._database.reading() as db:
            return {row[0] for row in db.execute("SELECT digest FROM requested_views")}

    def heartbeat(self, role: str, now: float) -> None:
        """Note that a process of this role is alive."""
        sql = "INSERT INTO heartbeats (role, at) VALUES (?, ?) ON CONFLICT (role) DO UPDATE SET at = excluded.at"
        with self._database.writing() as db:
            db.execute(sql, [role, now])

    def last_heartbeat(self, role: str) -> float | None:
        """The time when a process of this role was last heard from."""
        with self._database.reading() as db:
            found = db.execute("SELECT at FROM heartbeats WHERE role = ?", [role]).fetchone()
            return None if found is None else float(found["at"])

    def are_kept_from_writing(self) -> bool:
        """Whether another process keeps the catalog."""
        return self._database.is_kept()
