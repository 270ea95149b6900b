"""The exceptions that are reported as a user's mistake. Any other is a bug, and shows its traceback."""

import errno
import sqlite3

from service.errors import UserError
from service.storage.disk import is_disk_full

# Exceptions of `models` and `index` about a user's input. Named, since importing them would load PyTorch.
LIBRARY_ERRORS = frozenset(
    {
        "index.lock.Locked",
        "index.catalog.database.faults.DamagedCatalog",
        "index.catalog.database.faults.MissingCatalog",
        "index.catalog.database.faults.ReadOnlyCatalog",
        "index.catalog.database.faults.UnknownSchema",
        "index.views.slab.Corrupt",
        "index.views.slab.LayoutMismatch",
        "index.views.view_manifest.ViewMismatch",
        "models.bench.literal.NoLiteralForm",
        "models.extractors.config.BadExtractor",
        "models.extractors.config.ExtractorUnavailable",
        "models.extractors.precomputed.NoDetector",
        "models.extractors.registry.UnknownExtractor",
        "models.matching.log_odds.Uncalibratable",
        "models.matching.checkpoint.BadCheckpoint",
        "models.matching.encoded.HalfPrecisionOverflow",
        "models.rerankers.registry.UnknownModel",
        "models.rerankers.registry.UnknownOption",
        "models.safe_load.restricted_pickle.RefusedFile",
        "models.training.caption_word_vectors.TooFewWords",
        "models.training.checkpoints.UnusableCheckpoint",
        "models.training.recipes.Diverged",
    }
)

# Advice on files that cannot be written, by errno.
DISK_ADVICE = {
    errno.ENOSPC: ": the disk is full: make room there, and try again",
    errno.EDQUOT: ": the quota of this user is used up: remove files of this user there, and try again",
    errno.EFBIG: ": the disk or a limit of this process (`ulimit -f`) allows no file of this size: raise the limit",
}

# Advice on catalog faults that are no bugs, by SQLite's primary error code.
SQLITE_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process keeps the catalog: stop it, or wait until it ends, and try again",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written: check that it is present and healthy, accepts files of"
    " this size, and that no quota is used up",
    sqlite3.SQLITE_CANTOPEN: "check that the catalog's folder exists, and that this user may read and write it",
}


def is_user_error(error: BaseException) -> bool:
    """Whether the user can fix it, which includes whatever the operating system refuses (a file, a disk)."""
    if isinstance(error, UserError | OSError) or is_disk_full(error) or sqlite_advice(error) is not None:
        return True
    return any(f"{kind.__module__}.{kind.__qualname__}" in LIBRARY_ERRORS for kind in type(error).__mro__)


def one_line(error: BaseException) -> str:
    """The error's message in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}{DISK_ADVICE.get(error.errno or 0, '')}"
    if is_disk_full(error):
        return "the disk that is written to is full: make room there, and try again"
    if (advice := sqlite_advice(error)) is not None:
        return f"{error}: {advice}"
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def sqlite_advice(error: BaseException) -> str | None:
    """Advice on a fault of SQLite; None for a bug, or any other exception."""
    if not isinstance(error, sqlite3.OperationalError):
        return None
    return SQLITE_ADVICE.get(
        (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    )  # the lowest byte is the primary code
