"""SQLite as it can be built: connections that do not wait for the disk unless they are told to."""

import sqlite3
from typing import Any

import pytest


def connect_hastily(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every connection from now on begin with `synchronous` off, which is on in most builds."""
    connect = sqlite3.connect

    def hasty(*given: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(sqlite3, "connect", hasty)
