"""Sends mutated pictures through what an upload goes through: the look at its header, then decoding.

python -m tests.support.mutation_run --count 10000 --seed 1 prints what became of them, by format, as JSON; the status
is 1 where a decoding process died, or failed in another way than by saying what is wrong with the file.
"""

import argparse
import hashlib
import json
import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import PIL.Image

from service.errors import UnreadablePicture
from service.media.decode_pool import DecodeFailed, DecodePool
from service.settings import Settings
from service.this_machine import children_of
from tests.support.picture_mutations import MutatedFile, mutated_files

MB = 2**20
WELL = ("shown", "refused at its header", "refused while it was decoded", "too large or too slow")


class MutationRun:
    """Counts outcomes, and keeps files that did harm."""

    def __init__(self, folder: Path) -> None:
        """Everything is written below the folder."""
        self._stored, self._shown = folder / "stored", folder / "shown"
        self.harmful = folder / "harmful"
        for one in (self._stored, self._shown, self.harmful):
            one.mkdir()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.longest_s = 0.0
        self.largest_bytes = 0
        self._settings = Settings(decode_workers=1)

    def run(self, count: int, seed: int) -> None:
        """Send so many files, whose nature the seed decides."""
        with DecodePool.from_settings(self._settings, readable=[self._stored]) as pool:
            for file in mutated_files(count, seed):
                self.send(pool, file)

    def send(self, pool: DecodePool, file: MutatedFile) -> str:
        """Send one file. Returns its outcome, one of WELL or a fault."""
        path = self._stored / "file"
        path.write_bytes(file.content)
        begun = time.monotonic()
        outcome = self._outcome(pool, path)
        self.longest_s = max(self.longest_s, time.monotonic() - begun)
        self.largest_bytes = max(self.largest_bytes, most_memory_of_children())
        self.outcomes[file.kind, outcome] += 1
        if outcome not in WELL:
            name = f"{hashlib.sha256(file.content).hexdigest()[:16]}.{file.kind.lower()}"
            (self.harmful / name).write_bytes(file.content)
        return outcome

    def _outcome(self, pool: DecodePool, path: Path) -> str:
        """The outcome of the file at this path."""
        try:
            extension = pool.inspect(path)
            thumbnail, stripped = self._shown / "thumbnail.jpg", self._shown / f"stripped.{extension}"
            pool.decode(path, thumbnail, stripped)
        except UnreadablePicture:
            return "refused at its header"
        except DecodeFailed as failed:
            return failure_summary(failed)
        return self._looked_at()

    def _looked_at(self) -> str:
        """Whether what is shown of the picture can be shown; it is removed."""
        names = sorted(one.name for one in self._shown.iterdir())
        for one in self._shown.iterdir():
            if one.name == "thumbnail.jpg":
                with PIL.Image.open(one) as thumbnail:
                    thumbnail.load()
            one.unlink()
        rest = [name for name in names if name != "thumbnail.jpg"]
        whole = len(names) == 2 and len(rest) == 1 and rest[0].startswith("stripped.")
        return "shown" if whole else f"left {', '.join(names)}"

    @property
    def harm(self) -> int:
        """The number of files that did harm."""
        return sum(count for (_, outcome), count in self.outcomes.items() if outcome not in WELL)

    def report(self) -> dict[str, Any]:
        """The outcomes by format."""
        kinds = sorted({kind for kind, _ in self.outcomes})
        return {
            "files": self.outcomes.total(),
            "harm": self.harm,
            "longest_s": round(self.longest_s, 2),
            "largest_mb": round(self.largest_bytes / MB),
            "outcomes": {
                kind: {outcome: count for (one, outcome), count in sorted(self.outcomes.items()) if one == kind}
                for kind in kinds
            },
        }


def failure_summary(failed: DecodeFailed) -> str:
    """A failure in few words: a process that ended by itself is told from one that said what is wrong."""
    if failed.timed_out or "more memory than" in failed.reason:
        return "too large or too slow"
    return "refused while it was decoded" if failed.final else f"failed: {failed.reason}"


def most_memory_of_children() -> int:
    """The most bytes of memory that a living child of this process ever occupied."""
    most = 0
    for child in children_of(os.getpid()):
        try:
            status = Path(f"/proc/{child}/status").read_text()
        except OSError:  # it ended while we looked
            continue
        if found := re.search(r"VmHWM:\s+(\d+) kB", status):
            most = max(most, 1024 * int(found[1]))
    return most


def main() -> None:
    """Run, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mutations-"))
    run = MutationRun(folder)
    run.run(chosen.count, chosen.seed)
    print(json.dumps({"seed": chosen.seed, **run.report()}, indent=1))
    if run.harm:
        print(f"see {run.harmful}")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
