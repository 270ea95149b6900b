"""A decoding process can read pictures and answer; nothing else, whatever a file makes it do."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from service.media import sandbox
from service.media.decode_pool import DecodePool
from service.media.decode_process import DecodeLimits
from service.this_machine import children_of
from tests.support.pictures import corners, encoded
from tests.support.project_files import ROOT

LIMITS = DecodeLimits(timeout_s=20, memory_bytes=2**31, max_pixels=10**6)
PROGRAM = """
import ctypes, json, os, resource, socket, subprocess, sys
from pathlib import Path
from service.media import sandbox
from service.media.sandbox import restrict_process
folder, secret = Path(sys.argv[1]), Path(sys.argv[2])
tries = {
    "read": lambda: (folder / "picture").read_bytes(),
    "thread": lambda: __import__("threading").Thread(target=lambda: None).start(),
    "secret": secret.read_bytes,
    "what lies beside the packages": Path("README.md").read_bytes,
    "a package": lambda: Path("service/media/sandbox.py").read_bytes(),
    "write": lambda: (folder / "new").write_bytes(b"x"),
    "change": lambda: os.truncate(folder / "picture", 0),
    "append": lambda: (folder / "picture").open("ab"),
    "remove": lambda: (folder / "picture").unlink(),
    "rename": lambda: (folder / "picture").rename(folder / "other"),
    "make folder": lambda: (folder / "folder").mkdir(),
    "link": lambda: (folder / "link").symlink_to(secret),
    "mode": lambda: (folder / "picture").chmod(0o777),
    "times": lambda: os.utime(folder / "picture"),
    "times, by an older call": lambda: call("utimensat" if numbers["utimes"][column] is None else "utimes", 0, 0),
    "attribute": lambda: os.removexattr(folder / "picture", "user.none"),
    "network": lambda: socket.socket(),
    "pair": lambda: socket.socketpair(),
    "fork": lambda: os.fork() or os._exit(0),
    "program": lambda: subprocess.run(["true"], check=True),
    "kill": lambda: os.kill(os.getppid(), 0),
    "kill a thread": lambda: call("tkill", os.getppid(), 0),
    "kill a process's thread": lambda: call("tgkill", os.getppid(), os.getppid(), 0),
    "kill its own thread": lambda: call("tgkill", os.getpid(), os.getpid(), 0),
    "queue a signal": lambda: call("rt_sigqueueinfo", os.getppid(), 0, 0),
    "limits of another": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE),
    "its own limits": lambda: resource.prlimit(0, resource.RLIMIT_NOFILE),
}
libc = ctypes.CDLL(None, use_errno=True)
numbers = {**sandbox.DENIED, "tgkill": sandbox.TGKILL}
column = list(sandbox.AUDIT_ARCH).index(os.uname().machine)
def call(name, *arguments):
    if libc.syscall(numbers[name][column], *map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), name)
sys.path.insert(0, os.getcwd())  # as for `python -m`
protection = restrict_process([folder])
outcomes = {}
for name, attempt in tries.items():
    try:
        attempt()
        outcomes[name] = "done"
    except PermissionError:
        outcomes[name] = "refused"
print(json.dumps({"protection": protection, "outcomes": outcomes}))
"""


@pytest.fixture
def restricted(tmp_path: Path) -> dict[str, dict[str, str]]:
    """The protections of a process that restricted itself, and the outcome of each attempt."""
    folder, secret = tmp_path / "originals", tmp_path / "secret"
    folder.mkdir()
    (folder / "picture").write_bytes(b"pixels")
    secret.write_bytes(b"catalog")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(secret)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [path.name for path in folder.iterdir()] == ["picture"]
    assert (folder / "picture").read_bytes() == b"pixels"
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.kernel
def test_what_decoding_does_not_need_is_refused(restricted: dict[str, dict[str, str]]) -> None:
    protection, outcomes = restricted["protection"], restricted["outcomes"]
    assert protection["no_new_privs"] == "on"
    if protection["seccomp"] != "on":
        pytest.skip(f"this kernel filters no system calls: {protection['seccomp']}")
    beyond = {"secret", "what lies beside the packages"} if protection["landlock"] != "on" else set()
    allowed = {"read", "a package", "thread", "kill its own thread", "its own limits"} | beyond
    assert {name for name, outcome in outcomes.items() if outcome == "done"} == allowed


@pytest.mark.parametrize("machine", sandbox.AUDIT_ARCH)
def test_a_filter_is_made_of_whole_steps_that_jump_inside_it(machine: str) -> None:
    steps = list(struct.iter_unpack("=HBBI", sandbox.filter_program(machine, 1234)))
    for place, (operation, if_true, if_false, _) in enumerate(steps):
        if operation in (sandbox.IF_EQUAL, sandbox.IF_ANY_BIT):
            assert place + 1 + max(if_true, if_false) < len(steps)
    assert steps[-1] == (sandbox.RETURN, 0, 0, sandbox.ALLOW)


def test_no_call_is_listed_under_the_number_of_another() -> None:
    for column in range(len(sandbox.AUDIT_ARCH)):
        numbers = [
            one[column]
            for one in (*sandbox.DENIED.values(), sandbox.OPENAT, sandbox.CLONE, sandbox.TGKILL, sandbox.PRLIMIT)
        ]
        known = [number for number in numbers if number is not None]
        assert len(set(known)) == len(known)


def test_a_decoding_process_has_no_environment_and_no_privileges_to_gain(tmp_path: Path) -> None:
    file = tmp_path / "picture.jpg"
    file.write_bytes(encoded(corners(), "JPEG"))
    before = set(children_of(os.getpid()))
    with DecodePool(1, LIMITS, readable=[tmp_path]) as pool:
        assert pool.decode(file).width == 60
        (child,) = set(children_of(os.getpid())) - before
        names = {entry.partition(b"=")[0] for entry in Path(f"/proc/{child}/environ").read_bytes().split(b"\0")}
        assert names <= {b"", b"LC_CTYPE"}  # which Python sets by itself
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines())
        assert status["NoNewPrivs"] == "1"
        assert (status["Seccomp"] == "2") == (pool.protection()["seccomp"] == "on")


@pytest.mark.kernel
def test_a_file_outside_the_readable_folders_is_not_decoded(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "picture.jpg").write_bytes(encoded(corners(), "JPEG"))
    with DecodePool(1, LIMITS, readable=[inside]) as pool:
        assert pool.decode(inside / "picture.jpg").width == 60
        if pool.protection()["landlock"] != "on":
            pytest.skip("this kernel guards no files")
        with pytest.raises(Exception, match="cannot be read: Permission denied"):
            pool.decode(outside / "picture.jpg")
