"""Notes between processes that share a catalog: heartbeats, and requests for views."""

from index.catalog.database.connection import Database

WORKER = "worker"  # the role of the process that writes


class Processes:
    """Notes of processes in a catalog. Every method is one transaction, durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def request_view(self, digest: str, now: float) -> None:
        """Request that the view of the model with this digest is kept up to date, whatever the settings name."""
        sql = "INSERT INTO requested_views (digest, requested_at) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING"
        with self._database.changing() as db:
            db.execute(sql, [digest, now])

    def requested_views(self) -> set[str]:
        """Digests of the models whose views were requested."""
        with self._database.reading() as db:
            return {row[0] for row in db.execute("SELECT digest FROM requested_views")}

    def heartbeat(self, role: str, now: float) -> None:
        """Record that a process of this role is alive."""
        sql = "INSERT INTO heartbeats (role, at) VALUES (?, ?) ON CONFLICT (role) DO UPDATE SET at = excluded.at"
        with self._database.writing() as db:
            db.execute(sql, [role, now])

    def last_heartbeat(self, role: str) -> float | None:
        """The time of the last heartbeat of a process of this role; None before the first."""
        with self._database.reading() as db:
            row = db.execute("SELECT at FROM heartbeats WHERE role = ?", [role]).fetchone()
            return None if row is None else float(row["at"])

    def are_kept_from_writing(self) -> bool:
        """Whether another process keeps the catalog locked."""
        return self._database.is_kept()
