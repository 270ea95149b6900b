"""The type of the fixture that runs the program `regard`."""

from collections.abc import Callable

Regard = Callable[..., tuple[int, str, str]]  # arguments -> exit status, standard output, standard error
