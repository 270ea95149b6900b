"""The program `regard` as a test calls it."""

from collections.abc import Callable

Regard = Callable[..., tuple[int, str, str]]  # arguments -> exit status, standard output, standard error
