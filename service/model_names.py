"""How settings name models: NAME of a shipped one, FOLDER, NAME=FOLDER, or several with + between for their mean."""

from pathlib import Path


def served_name(entry: str) -> str:
    """The name that such an entry is served under: a folder's own where none is given."""
    if parts := members_of(entry):
        return "+".join(map(served_name, parts))
    name, equals, _ = entry.partition("=")
    return name if equals and not Path(entry).is_dir() else Path(entry).absolute().name


def members_of(entry: str) -> list[str]:
    """The entries that it is the mean of; none for a single model."""
    return [] if Path(entry).is_dir() or "+" not in entry.partition("=")[0] else entry.split("+")
