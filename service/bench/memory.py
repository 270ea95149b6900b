"""Memory that processes hold, as the system counts it."""

from pathlib import Path

from service.this_machine import processes_under

KB_PER_MB = 1024


def memory_under(parent: int) -> float | None:
    """Megabytes that a process and all below it hold, what they share counted once (PSS); None where that is not
    known."""
    found = [proportional_memory(process) for process in processes_under(parent)]
    return None if None in found else sum(one for one in found if one is not None)


def proportional_memory(process: int) -> float | None:
    """Megabytes (2**20 bytes) of a process by PSS: a page that n processes share counts as an n-th for each.

    None where the system does not say; 0 for a process that has ended.
    """
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0 if Path("/proc/self/smaps_rollup").exists() else None
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / KB_PER_MB
