"""Irrevocable limits that a process sets for itself: no new files, no network, no programs, no privileges.

seccomp filters system calls by number; Landlock guards the file system regardless of the call, and leaves only named
folders readable. Each is used if the kernel supports it. Only ctypes is needed, so that a decoding process starts fast;
the numbers are those of Linux on x86-64 and ARM64.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446

# Bits of struct landlock_ruleset_attr.
READ_FILE, READ_DIR = 1 << 2, 1 << 3
CHANGES_OF_FIRST_VERSION = 0x1FFF & ~(READ_FILE | READ_DIR)  # execute, write, make, remove
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15  # supported from versions 2, 3 and 5
TCP_BIND_AND_CONNECT, ABSTRACT_SOCKET_AND_SIGNAL = 0b11, 0b11  # from versions 4 and 6

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000

# Name of a call -> its numbers on x86-64 and on ARM64; None where it does not exist.
DENIED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "bind": (49, 200),
    "listen": (50, 201),
    "socketpair": (53, 199),
    "accept4": (288, 242),
    "sendmmsg": (307, 269),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "openat2": (437, 437),
    "open_by_handle_at": (304, 265),
    "creat": (85, None),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
OPEN, OPENAT = (2, None), (257, 56)  # denied with a flag for writing
TGKILL = (234, 131)  # denied except to the process itself, for abort()
PRLIMIT = (302, 261)  # denied except for its own limits, as process 0
CLONE, CLONE_THREAD = (56, 220), 0x10000  # denied without this flag, with which it makes threads
CLONE3 = (435, 435)  # reported as missing, so that clone is used: a filter cannot see flags in memory
WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Classic BPF: operation codes, and offsets in struct seccomp_data.
LOAD, IF_EQUAL, IF_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
ALLOW, DENY, MISSING, KILL = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38, 0x80000000  # EPERM, ENOSYS


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def restrict_process(readable: Iterable[Path] = ()) -> dict[str, str]:
    """Give up, for good, all rights that decoding does not need; each protection with "on" or why it is missing.

    If there are `readable` folders, Landlock makes all others unreadable except those of Python and the system's
    libraries.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0):
        reason = os.strerror(ctypes.get_errno())
        return dict.fromkeys(("no_new_privs", "landlock", "seccomp"), f"prctl failed: {reason}")
    # Landlock first: its rules need opened folders, which the filter would prevent.
    return {"no_new_privs": "on", "landlock": _use_landlock(libc, list(readable)), "seccomp": _use_seccomp(libc)}


def _use_landlock(libc: ctypes.CDLL, readable: list[Path]) -> str:
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if version < 1:
        return f"the kernel has none ({os.strerror(ctypes.get_errno())})"
    handled = CHANGES_OF_FIRST_VERSION | (READ_FILE | READ_DIR if readable else 0)
    handled |= sum(bit for bit, since in ((REFER, 2), (TRUNCATE, 3), (IOCTL_DEV, 5)) if version >= since)
    attributes = struct.pack(
        "=QQQ",
        handled,
        TCP_BIND_AND_CONNECT if version >= 4 else 0,
        ABSTRACT_SOCKET_AND_SIGNAL if version >= 6 else 0,
    )
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    if ruleset < 0:  # an older kernel knows a shorter structure
        short = attributes[: 16 if version >= 4 else 8]
        ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, short, ctypes.c_size_t(len(short)), ctypes.c_uint(0))
    if ruleset < 0:
        return f"no rules can be made ({os.strerror(ctypes.get_errno())})"
    try:
        for folder in [*readable, *_folders_of_python()] if readable else []:
            _allow_reading(libc, ruleset, folder)
        if libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint(0)):
            return f"the rules are refused ({os.strerror(ctypes.get_errno())})"
    finally:
        os.close(ruleset)
    return "on"


def _folders_of_python() -> list[Path]:
    """Folders from which modules and shared libraries are loaded.

    Of a checkout only its packages: the data directory, keys and settings may lie beside them.
    """
    top = Path(__file__).parent.parent.parent
    ours = [top / name for name in ("index", "models", "service")]
    system = map(Path, ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", sys.prefix, sys.base_prefix))
    is_checkout = not top.name.endswith(
        "-packages"
    )  # unlike site-packages and dist-packages, which hold other packages, too
    searched = [Path(entry) for entry in sys.path if entry and not (is_checkout and top.is_relative_to(entry))]
    return [*ours, *system, *searched]


def _allow_reading(libc: ctypes.CDLL, ruleset: int, path: Path) -> None:
    """Add a rule for a folder or file, if it exists."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    allowed = READ_FILE | READ_DIR if path.is_dir() else READ_FILE
    rule = struct.pack("=Qi", allowed, handle)
    libc.syscall(LANDLOCK_ADD_RULE, ruleset, ctypes.c_int(1), rule, ctypes.c_uint(0))
    os.close(handle)


def _use_seccomp(libc: ctypes.CDLL) -> str:
    machine = platform.machine()
    if machine not in AUDIT_ARCH:
        return f"there is no filter for processors of the kind {machine}"
    code = filter_program(machine, os.getpid())
    program = _Program(len(code) // 8, code)
    if libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(program), 0, 0):
        return f"the kernel refuses the filter ({os.strerror(ctypes.get_errno())})"
    return "on"


def filter_program(machine: str, process: int) -> bytes:
    """The BPF program for the process with this id: instructions of 8 bytes, each a struct sock_filter."""
    column = list(AUDIT_ARCH).index(machine)
    steps = [
        (LOAD, 0, 0, ARCHITECTURE),
        (IF_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":  # the same calls under other numbers
        steps += [(IF_ANY_BIT, 0, 1, X32_BIT), (RETURN, 0, 0, KILL)]
    for numbers in DENIED.values():
        if numbers[column] is not None:
            steps += [(IF_EQUAL, 0, 1, numbers[column] or 0), (RETURN, 0, 0, DENY)]
    for numbers, place in ((OPEN, 1), (OPENAT, 2)):
        if numbers[column] is not None:
            steps += [
                (IF_EQUAL, 0, 4, numbers[column] or 0),
                (LOAD, 0, 0, ARGUMENTS + 8 * place),
                (IF_ANY_BIT, 0, 1, WRITING_FLAGS),
                (RETURN, 0, 0, DENY),
                (RETURN, 0, 0, ALLOW),
            ]
    for numbers, allowed in ((TGKILL, process), (PRLIMIT, 0)):
        steps += [
            (IF_EQUAL, 0, 4, numbers[column]),
            (LOAD, 0, 0, ARGUMENTS),
            (IF_EQUAL, 1, 0, allowed),
            (RETURN, 0, 0, DENY),
            (RETURN, 0, 0, ALLOW),
        ]
    steps += [
        (IF_EQUAL, 0, 1, CLONE3[column]),
        (RETURN, 0, 0, MISSING),
        (IF_EQUAL, 0, 4, CLONE[column]),
        (LOAD, 0, 0, ARGUMENTS),
        (IF_ANY_BIT, 1, 0, CLONE_THREAD),
        (RETURN, 0, 0, DENY),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
