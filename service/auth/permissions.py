"""The three permissions of callers, each of which includes the ones before it."""

from enum import StrEnum


class Permission(StrEnum):
    """A permission of an API key."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def includes(self, needed: "Permission") -> bool:
        """Whether this permission allows what needs the other one."""
        ranks = list(Permission)
        return ranks.index(self) >= ranks.index(needed)
