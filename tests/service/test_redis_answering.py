"""A Redis that fails is left alone for a while, and the log tells of a change alone."""

import logging

import pytest

from service.redis_answering import LEFT_ALONE_S, Answering


def test_it_is_left_alone_for_a_while_after_each_failure() -> None:
    now = [0.0]
    redis = Answering("nothing is kept", lambda: now[0])
    assert not redis.is_left_alone()
    for _ in range(2):
        redis.failed(ConnectionError("refused"))
        assert redis.is_left_alone()
        now[0] += LEFT_ALONE_S
        assert not redis.is_left_alone()


def test_it_is_proven_from_an_answer_to_the_next_failure() -> None:
    redis = Answering("nothing is kept")
    proven = [redis.is_proven]
    redis.succeeded()
    proven.append(redis.is_proven)
    redis.failed(ConnectionError("refused"))
    proven.append(redis.is_proven)
    assert proven == [False, True, False]


def test_the_log_tells_when_it_stops_answering_and_when_it_answers_again(caplog: pytest.LogCaptureFixture) -> None:
    redis = Answering("nothing is kept")
    with caplog.at_level(logging.INFO):
        redis.succeeded()
        for _ in range(3):
            redis.failed(ConnectionError("refused"))
        for _ in range(2):
            redis.succeeded()
        redis.failed(ConnectionError("refused"))
    told = "Redis does not answer, nothing is kept: refused"
    assert [record.getMessage() for record in caplog.records] == [told, "Redis answers again", told]
