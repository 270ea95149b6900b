"""Permissions of callers: three, each of which includes the ones before it."""

from enum import StrEnum


class Permission(StrEnum):
    """A permission of an API key."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def includes(self, needed: "Permission") -> bool:
        """Whether a caller with this permission may do what needs the other one."""
        ranks = list(Permission)
        return ranks.index(self) >= ranks.index(needed)
