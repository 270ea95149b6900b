"""A program of Python that keeps to the permissions of files, whoever runs it: root goes without its privilege.

python -m tests.support.without_privilege ARGUMENTS is `python ARGUMENTS`, as the next program of the same process: what
a process gives up counts from there on.
"""

import ctypes
import os
import subprocess
import sys

from tests.support.project_files import ROOT

PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def output_without_privilege(*arguments: str) -> str:
    """The output of such a program, which must succeed."""
    command = [sys.executable, "-m", "tests.support.without_privilege", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """Drop the privilege, and exec the program."""
    call = ctypes.CDLL(None).prctl  # a container may have taken the privilege away, and the right to give it up
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH) if os.geteuid() == 0 else ():
        is_there = call(PR_CAPBSET_READ, capability, 0, 0, 0) == 1
        if is_there and call(PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise OSError("this root cannot go without its privileges")
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


if __name__ == "__main__":
    main()
