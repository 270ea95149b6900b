"""Lines of one kind are few, and say how many they stand for."""

import logging

from service.cli.log_rate import MOST_KINDS, MOST_LINES, PERIOD_S, RateLimit


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, limit: RateLimit) -> None:
        super().__init__()
        self.said: list[str] = []
        self.addFilter(limit)

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def logger_into(lines: Lines) -> logging.Logger:
    logger = logging.Logger("flooded")
    logger.addHandler(lines)
    return logger


def test_a_flood_of_one_kind_leaves_a_few_lines_and_their_number() -> None:
    now = [0.0]
    lines = Lines(RateLimit(lambda: now[0]))
    logger = logger_into(lines)
    for number in range(10_000):
        logger.warning("connection %d refused", number)
    logger.warning("something else")
    assert lines.said == [f"connection {number} refused" for number in range(MOST_LINES)] + ["something else"]
    now[0] += PERIOD_S
    logger.warning("connection %d refused", 5)
    logger.warning("connection %d refused", 6)
    left_out = 10_000 - MOST_LINES
    assert lines.said[-2:] == [
        f"connection 5 refused (and {left_out} more such lines, left out)",
        "connection 6 refused",
    ]


def test_every_audit_line_is_written() -> None:
    lines = Lines(RateLimit(lambda: 0.0))
    logger = logger_into(lines)
    for number in range(5 * MOST_LINES):
        logger.info("audit %s", f"id={number}", extra={"audit": {"id": number}})
    assert lines.said == [f"audit id={number}" for number in range(5 * MOST_LINES)]


def test_what_comes_seldom_is_never_left_out() -> None:
    now = [0.0]
    lines = Lines(RateLimit(lambda: now[0]))
    logger = logger_into(lines)
    for number in range(100):
        logger.error("fault %d", number)
        now[0] += PERIOD_S / MOST_LINES
    assert lines.said == [f"fault {number}" for number in range(100)]


def test_kinds_of_line_do_not_fill_the_memory() -> None:
    now = [0.0]
    limit = RateLimit(lambda: now[0])
    logger = logger_into(Lines(limit))
    for number in range(5 * MOST_KINDS):
        logger.error(f"fault {number}")
        now[0] += 2 * PERIOD_S / MOST_KINDS
    assert len(limit._kinds) <= MOST_KINDS
