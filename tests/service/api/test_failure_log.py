"""A failed request leaves in the log where it happened and why, and nothing of what was asked."""

import logging

import pytest

from service.api.middleware.failure_log import log_failure

LOG = logging.getLogger("regard.test")


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def test_causes_come_first_and_only_the_machine_is_quoted(caplog: pytest.LogCaptureFixture) -> None:
    log_failure(LOG, raised(KeyError("zebra"), raised(OSError(5, "broken"))), "id", "GET", "/images")
    told = caplog.text
    assert told.index("OSError: [Errno 5] broken") < told.index("then:") < told.index("KeyError")
    assert "zebra" not in told
    assert "request id: GET /images failed" in told


def test_an_error_that_is_its_own_cause_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    itself = OSError(13, "forbidden")
    first, second = OSError(1, "first"), OSError(2, "second")
    for error, cause in ((itself, itself), (first, second), (second, first)):
        error.__cause__ = cause
    log_failure(LOG, itself, "a", "POST", "/ingest")
    assert caplog.text.count("forbidden") == 1
    log_failure(LOG, first, "b", "POST", "/ingest")
    assert (caplog.text.count("first"), caplog.text.count("second")) == (1, 1)
