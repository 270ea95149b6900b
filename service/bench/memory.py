"""Memory of processes, as counted by the system."""

from pathlib import Path

from service.this_machine import processes_under

KB_PER_MB = 1024


def memory_under(parent: int) -> float | None:
    """Megabytes of a process and all its descendants, with shared memory counted once (PSS); None if unknown."""
    found = [proportional_memory(process) for process in processes_under(parent)]
    return None if None in found else sum(one for one in found if one is not None)


def proportional_memory(process: int) -> float | None:
    """Proportional set size of a process in megabytes (2**20 bytes): a page shared by n processes counts as 1/n.

    None if the system does not report it; 0 for a process that has ended.
    """
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0 if Path("/proc/self/smaps_rollup").exists() else None
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / KB_PER_MB
