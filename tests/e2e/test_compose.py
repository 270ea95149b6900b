"""The compose file's processes, started without docker: its commands, environment and health checks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.auth.key_file import read_keys
from tests.e2e.compose import Service, compose, image_command, image_environment, service
from tests.e2e.pictures import Photo, photos
from tests.e2e.stack import REGARD, Stack, until
from tests.support.library import two_coloured
from tests.support.project_files import ROOT
from tests.support.redis_server import RedisServer
from tests.support.running_server import running_server

PICTURES = 12


def here(words: tuple[str, ...]) -> list[str]:
    """A command with the image's programs replaced by this environment's."""
    return [{"regard": REGARD, "python": sys.executable}.get(words[0], words[0]), *words[1:]]


def settings(stack: Stack, server: RedisServer, one: Service) -> dict[str, str]:
    """A service's environment with the places of a container replaced by places of this test."""
    places = {
        "REGARD_DATA_DIR": str(stack.data),
        "REGARD_PORT": str(stack.port),
        "REGARD_HOST": "127.0.0.1",
        "REGARD_REDIS_URL": server.url,
    }
    return {name: places.get(name, value) for name, value in one.environment.items()}


def healthy(stack: Stack, server: RedisServer, one: Service) -> bool:
    """Whether a service's health check passes."""
    check = subprocess.run(
        here(one.healthcheck),
        env={**stack.environment(), **settings(stack, server, one), "http_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return check.returncode == 0


@pytest.fixture
def server(tmp_path: Path, free_port: int) -> Iterator[RedisServer]:
    """Redis as compose starts it."""
    folder = tmp_path / "redis"
    folder.mkdir()
    running = RedisServer(folder, free_port, service("redis").command)
    running.start()
    yield running
    running.kill()


def start(stack: Stack, server: RedisServer) -> None:
    """Start api and worker as compose does."""
    for name in ("api", "worker"):
        one = service(name)
        stack.start(name, command=here(one.command), **settings(stack, server, one))


def assert_found(stack: Stack, pictures: list[Photo], image_ids: list[str]) -> None:
    """Most sentences find their picture among the best three, and every picture finds itself first."""
    assert sorted(one["image_id"] for one in stack.images()) == sorted(image_ids)
    best = [[found for found, _ in stack.ranking(picture.captions[0], k=3)] for picture in pictures]
    hits = sum(image_id in found for image_id, found in zip(image_ids, best, strict=True))
    assert hits > len(pictures) / 2  # a quarter by chance
    for picture, image_id in zip(pictures, image_ids, strict=True):
        similar = similar_to(stack, picture, "images")
        assert similar[0]["image_id"] == image_id
        assert similar[0]["score"] == pytest.approx(1.0, abs=1e-3)


def similar_to(stack: Stack, picture: Photo, target: str) -> list[dict[str, Any]]:
    """What a search by picture finds."""
    answer = stack.client.post(
        "/search/image",
        files={"image": (picture.name, picture.content)},
        data={"target": target, "k": "5"},
    )
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def answers(stack: Stack, pictures: list[Photo]) -> list[object]:
    """What a few searches by text and by picture find."""
    found: list[object] = [stack.ranking(picture.captions[0]) for picture in pictures[:3]]
    for picture in pictures[:3]:
        for target in ("captions", "images"):
            found.append([(hit["image_id"], hit["score"]) for hit in similar_to(stack, picture, target)])
    return found


@pytest.mark.realdata
@pytest.mark.redis
@pytest.mark.timeout(2000)
def test_photographs_go_in_are_found_and_are_still_found_after_a_restart(tmp_path: Path, server: RedisServer) -> None:
    pictures = photos(PICTURES)
    with Stack(tmp_path / "stack") as stack:
        assert not healthy(stack, server, service("api"))
        start(stack, server)
        until(lambda: healthy(stack, server, service("api")), "the api never became healthy")
        assert healthy(stack, server, service("worker"))
        assert healthy_redis(server)
        receipt = stack.ingest(pictures, captions=True)
        assert stack.wait_job(receipt)["done"] == PICTURES
        before = answers(stack, pictures)
        assert_found(stack, pictures, [one["image_id"] for one in receipt["accepted"]])
        stack.stop("api")
        stack.stop("worker")
        start(stack, server)
        stack.wait_ready()
        assert answers(stack, pictures) == before


def healthy_redis(server: RedisServer) -> bool:
    """Redis's own check, pointed at the test's port."""
    program, *words = service("redis").healthcheck
    assert program == "redis-cli"
    found = shutil.which(program)
    assert found is not None, "redis-cli comes with redis-server"
    check = subprocess.run([found, "-p", str(server.port), *words], capture_output=True, check=False)
    return check.stdout.strip() == b"PONG"


def test_the_worker_is_not_healthy_before_it_was_heard(tmp_path: Path) -> None:
    one = service("worker")
    with Stack(tmp_path) as stack:
        environment = {**stack.environment(), **one.environment, "REGARD_DATA_DIR": str(tmp_path)}
        check = subprocess.run(here(one.healthcheck), env=environment, capture_output=True, check=False)
    assert check.returncode != 0


def test_compose_publishes_the_web_port_to_this_machine_alone() -> None:
    services = compose()["services"]
    assert [name for name in services if services[name].get("ports")] == ["api", "api-gpu"]
    for name in ("api", "api-gpu"):
        assert services[name]["ports"] == [f"127.0.0.1:8000:{image_environment()['REGARD_PORT']}"]


@pytest.mark.parametrize("name", ["api", "worker", "redis", "api-gpu", "worker-gpu"])
def test_compose_gives_no_process_more_than_it_needs(name: str) -> None:
    said = compose()["services"][name]
    assert said["read_only"] is True
    assert said["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in said["security_opt"]
    assert said["mem_limit"]
    assert str(said["user"]).split(":")[0] not in {"0", "root"}
    assert said["restart"] == "unless-stopped"
    assert 0 < said["pids_limit"] <= 512
    assert 0 < said["cpus"] <= 2, "docker refuses more than a small machine has"
    assert set(said["logging"]["options"]) == {"max-size", "max-file"}


def test_no_key_is_needed_only_because_the_port_is_published_to_this_machine_alone() -> None:
    services = compose()["services"]
    published = [port for one in services.values() for port in one.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert services["api"]["environment"]["REGARD_INSECURE"] == "true"
    assert "REGARD_INSECURE" not in image_environment(), "the image alone refuses to start without a key"


def test_the_first_key_is_made_by_the_documented_command(tmp_path: Path) -> None:
    (line,) = [line for line in (ROOT / "docker-compose.yml").read_text().splitlines() if "regard keys create" in line]
    assert line.removeprefix("# The first API key: ") in (ROOT / "docs" / "operations.md").read_text()
    command = line.partition(" exec api ")[2].replace("NAME", "me").split()
    outside = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
    environment = {**outside, **service("api").environment, "REGARD_DATA_DIR": str(tmp_path)}
    made = subprocess.run(here(tuple(command)), env=environment, capture_output=True, text=True, check=True)
    (stored,) = read_keys(tmp_path / "keys.json")
    assert stored.matches(made.stdout.strip())
    assert stored.permission == "admin"


def test_photographs_of_the_host_are_taken_in_by_the_documented_command(tmp_path: Path) -> None:
    lines = (ROOT / "docker-compose.yml").read_text().splitlines()
    (command,) = [line.partition(": ")[2] for line in lines if "exec api regard ingest" in line]
    assert f"`{command}`" in (ROOT / "docs" / "operations.md").read_text()
    (folder := tmp_path / "photos").mkdir()
    two_coloured("red", "blue").save(folder / "a.png")
    with running_server(tmp_path / "data") as url:
        arguments = command.partition(" exec api ")[2].replace("/photos", str(folder)).split()
        outside = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
        told = subprocess.run(here((*arguments, "--url", url)), env=outside, capture_output=True, text=True, check=True)
    assert "taken in  1" in told.stdout


def test_api_and_worker_are_one_image_on_one_volume_and_do_not_wait_for_redis() -> None:
    api, worker = (compose()["services"][name] for name in ("api", "worker"))
    for key in ("image", "volumes", "environment"):
        assert api[key] == worker[key]
    assert not [name for name, one in compose()["services"].items() if "depends_on" in one]
    assert api["volumes"] == [f"regard-data:{image_environment()['REGARD_DATA_DIR']}", "./photos:/photos:ro"]
    assert tuple(api["command"]) == image_command()
