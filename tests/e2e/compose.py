"""docker-compose.yml and Dockerfile as a test can start them without docker."""

import json
import re
import shlex
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from tests.support.project_files import ROOT


@dataclass(frozen=True)
class Service:
    """What compose starts for one service, once image and compose file are put together."""

    command: tuple[str, ...]
    environment: dict[str, str]
    healthcheck: tuple[str, ...]


def compose() -> dict[str, Any]:
    """The compose file with its anchors and merges resolved, and its variables as where nobody sets them."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    return loaded


def stages() -> dict[str, list[tuple[str, str]]]:
    """The (instruction, rest) of each of the Dockerfile's stages by its name, continued lines joined.

    A stage made from another begins with that one's. The last, which is built where nobody names one, is "".
    """
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]
    found_stages: dict[str, list[tuple[str, str]]] = {}
    for word, rest in found:
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found_stages[name] = list(found_stages.get(base, ()))
        found_stages[name].append((word, rest))
    return found_stages


def instructions() -> list[tuple[str, str]]:
    """What the image is made by that compose builds."""
    return stages()[""]


def image_environment() -> dict[str, str]:
    """The image's ENV, but PATH: a test has one of its own."""
    words = [word for name, rest in instructions() if name == "ENV" for word in shlex.split(rest)]
    return {name: value for name, _, value in (word.partition("=") for word in words) if name != "PATH"}


def image_command() -> tuple[str, ...]:
    """CMD, which must be in exec form."""
    (command,) = [rest for name, rest in instructions() if name == "CMD"]
    return tuple(json.loads(command))


def image_healthcheck() -> tuple[str, ...]:
    """HEALTHCHECK's command, which must be in exec form."""
    (check,) = [rest for name, rest in instructions() if name == "HEALTHCHECK"]
    return tuple(json.loads(check.partition("CMD")[2]))


def service(name: str) -> Service:
    """One service; api and worker get what the image gives where compose says nothing."""
    said = compose()["services"][name]
    of_the_image = said["image"].startswith("regard:")
    check = said.get("healthcheck", {}).get("test")
    assert check is None or check[0] == "CMD", f"{name}: a health check without a shell"
    return Service(
        command=tuple(said.get("command") or image_command()),
        environment={**(image_environment() if of_the_image else {}), **_texts(said.get("environment") or {})},
        healthcheck=tuple(check[1:]) if check else image_healthcheck(),
    )


def _texts(variables: dict[str, Any]) -> dict[str, str]:
    """Variables as a process gets them."""
    return {name: str(value) for name, value in variables.items()}
