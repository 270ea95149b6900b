"""No address is shown with its password."""

import pytest
import redis
from pydantic import ValidationError

from service.api.redis_cache import ping
from service.cli.commands.doctor import CHECKS, run_check
from service.redis_url import without_password
from service.settings import Settings
from tests.support.redis_server import RedisServer


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:hunter2@localhost/0", "redis://***@localhost/0"),
        ("rediss://me:hunter2@redis.example:6380", "rediss://***@redis.example:6380"),
        ("redis://me:hun@ter2@localhost", "redis://***@localhost"),
        ("redis://:hunt/e#r?2@localhost:6379/0", "redis://***@localhost:6379/0"),
        ("redis://localhost/0?password=hunter2&db=1", "redis://localhost/0?password=***&db=1"),
        ("unix://me:hunter2@/run/redis.sock", "unix://***@/run/redis.sock"),
    ],
)
def test_the_password_is_hidden_and_the_rest_is_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_a_password_is_hidden_wherever_a_message_repeats_it() -> None:
    assert without_password("AUTH hun%2ter or hun%2ter", "redis://:hun%2ter@host") == "AUTH *** or ***"
    assert "geheim/1" not in without_password("AUTH geheim/1 failed", "redis://:geheim%2F1@host")


@pytest.mark.parametrize("query", ["", "?password=hunter2"])
def test_a_redis_that_does_not_answer_is_named_without_its_password(query: str, free_port: int) -> None:
    url = f"redis://me:hunter2@127.0.0.1:{free_port}/0{query}"
    with pytest.raises(OSError, match=r"redis://\*\*\*@127") as refused:
        ping(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.redis
def test_a_redis_that_wants_a_password_says_where_it_belongs(redis_server: RedisServer) -> None:
    with redis.Redis(port=redis_server.port) as client:
        client.config_set("requirepass", "geheim")
    with pytest.raises(OSError, match=r"authenticat.*; give the password in REGARD_REDIS_URL: redis://:PASSWORD@host"):
        ping(redis_server.url)
    with pytest.raises(OSError, match=r"invalid.*; give the password in REGARD_REDIS_URL") as refused:
        ping(redis_server.url.replace("//", "//:wrongword@"))
    assert "wrongword" not in str(refused.value)
    ping(redis_server.url.replace("//", "//:geheim@"))


def test_doctor_shows_no_password() -> None:
    found = run_check("redis", CHECKS["redis"], Settings(redis_url="redis://me:hunter2@127.0.0.1:1/0"))
    assert found["ok"] is False
    assert "hunter2" not in found["found"]


@pytest.mark.parametrize(
    "url", ["redis://localhost", "redis://[::1]:6379/0", "rediss://:a%40b@x:1/2", "unix:///run/r.sock"]
)
def test_addresses_of_a_redis_are_taken(url: str) -> None:
    assert Settings(redis_url=url).redis_url == url


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:6379", "http://me:hunter2@x", "redis://me:hunter2@x:y", "redis://:hunter2/more@x", "redis://"),
        *("redis://me:hunter2@", "redis://x:99999"),
    ],
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValidationError, match="is no address of a Redis: write redis://host:6379/0") as fault:
        Settings(redis_url=url)
    assert "hunter2" not in str(fault.value)
