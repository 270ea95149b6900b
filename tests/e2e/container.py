"""Processes in an image's file tree, held as compose holds them: without a docker engine, by what Linux itself has."""

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# The tree is read-only; /tmp, /dev and /proc are fresh; /data is a folder of this machine. Then root's rights go.
START = """
set -eu
root={root}
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o size=64m,mode=755 tmpfs "$root/dev"
mkdir "$root/dev/shm" && chmod 1777 "$root/dev/shm"
for name in null zero random urandom; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
mount --bind {data} "$root/data"
for name in resolv.conf hosts; do
  if [ -e "$root/etc/$name" ]; then mount --bind "/etc/$name" "$root/etc/$name"; fi
done
exec prlimit --nproc={processes} chroot "$root" /usr/bin/setpriv --reuid={user} --regid={user} --clear-groups \\
  --no-new-privs --bounding-set=-all --inh-caps=-all -- /usr/bin/env -i {environment} {command}
"""


@dataclass(frozen=True)
class Container:
    """An image's file tree with a data folder; processes of it have its ENV and what is given besides."""

    root: Path
    data: Path
    environment: Mapping[str, str]
    user: int = 999
    processes: int = 512

    def arguments(self, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """What starts a command in it; everything that it starts ends with it."""
        variables = {**self.environment, **environment}
        script = START.format(
            root=shlex.quote(str(self.root)),
            data=shlex.quote(str(self.data)),
            processes=self.processes,
            user=self.user,
            environment=shlex.join(f"{name}={value}" for name, value in variables.items()),
            command=shlex.join(command),
        )
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]

    def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process whose output goes to a file."""
        with log.open("wb") as out:
            return subprocess.Popen(
                self.arguments(command, environment), stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """What a command prints, and how it ends."""
        return subprocess.run(self.arguments(command, environment), capture_output=True, text=True, check=False)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a started process and everything it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
