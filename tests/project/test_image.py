"""The images: what they copy is let in, and the one that compose builds knows nothing of Ray."""

import re

import pytest
import torch
from packaging.requirements import Requirement

from tests.e2e.compose import compose, stages
from tests.support.project_files import ROOT


def rests(stage: str, instruction: str) -> list[str]:
    """What stands behind each instruction of one kind in a stage."""
    return [rest for word, rest in stages()[stage] if word == instruction]


def test_every_file_that_an_image_copies_is_let_in() -> None:
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        source
        for stage in stages()
        for rest in rests(stage, "COPY")
        if not rest.startswith("--from=")
        for source in rest.split()[:-1]
    }
    assert {source for source in copied if f"!{source}" not in let_in} == set()
    assert "requirements-cluster.lock" in copied


@pytest.mark.parametrize(
    ("stage", "packages", "locks"),
    [
        ("", "packages", {"requirements.lock", "requirements-image.lock"}),
        ("cluster", "packages-cluster", {"requirements.lock", "requirements-image.lock", "requirements-cluster.lock"}),
        ("gpu", "packages-gpu", {"requirements.lock", "requirements-image.lock"}),
    ],
)
def test_an_image_holds_what_its_lock_names_in_a_layer_that_versions_share(
    stage: str, packages: str, locks: set[str]
) -> None:
    assert [rest for rest in rests(stage, "COPY") if rest.startswith("--from")] == [
        f"--from={packages} /opt/regard /opt/regard",
        "--from=build /build/regard /opt/regard",
    ]
    copied = {name for rest in rests(packages, "COPY") for name in rest.split()[:-1] if "--from" not in rest}
    assert {name for name in copied if not name.endswith(".lock")} == set(), "a change of these makes the layer anew"
    installs = " && ".join(rests(packages, "RUN"))
    into_the_image = re.findall(r"--require-hashes --python /opt/regard/bin/python ([^&]+)", installs)
    named = {word for words in into_the_image for word in words.split() if word.endswith(".lock")}
    assert named == locks


def test_every_image_from_elsewhere_is_named_by_its_digest() -> None:
    bases = {rest.partition(" AS ")[0] for stage in stages() for rest in rests(stage, "FROM")} - stages().keys()
    services = compose()["services"].values()
    run = {one["image"] for one in services} - {one["image"] for one in services if "build" in one}
    assert {image.partition(":")[0] for image in bases | run} == {"python", "nvidia/cuda", "redis"}
    assert [image for image in bases | run if not re.fullmatch(r"[a-z/]+:[\w.-]+@sha256:[0-9a-f]{64}", image)] == []


@pytest.mark.parametrize("stage", ["", "cluster", "gpu"])
def test_an_image_runs_as_nobody_special(stage: str) -> None:
    assert rests(stage, "USER")[-1] == "999:999"


def test_detectron2_is_one_commit_that_changes_no_locked_version() -> None:
    (commit,) = [rest.partition("=")[2] for rest in rests("packages-gpu", "ARG")]
    assert re.fullmatch(r"[0-9a-f]{40}", commit)
    (install,) = [part for rest in rests("packages-gpu", "RUN") for part in rest.split("&&") if "detectron2 @" in part]
    assert "--constraint requirements.lock" in install
    assert "@$DETECTRON2" in install


def test_no_image_asks_for_another_version_than_the_lock_it_is_constrained_by() -> None:
    """It would not be built."""
    locked = dict(
        re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    )
    runs = [rest for stage in stages() for rest in rests(stage, "RUN")]
    constrained = [words for run in runs for words in run.split("&&") if "--constraint requirements.lock" in words]
    assert constrained
    for asked in re.findall(r'"([\w.-]+[<>=!~][^"]*)"', " ".join(constrained)):
        requirement = Requirement(asked)
        version = locked.get(requirement.name)
        assert version is None or requirement.specifier.contains(version), asked


def test_the_compiler_of_cuda_is_that_of_the_locked_torch() -> None:
    """nvcc of another major version builds nothing that this torch loads."""
    (base,) = rests("cuda", "FROM")
    version = re.match(r"nvidia/cuda:(\d+\.\d+)\.", base)
    assert version is not None
    assert version.group(1) == torch.version.cuda


def test_the_gpu_profile_is_the_same_service_on_a_gpu() -> None:
    services = compose()["services"]
    for name in ("api", "worker"):
        plain, on_gpu = services[name], services[f"{name}-gpu"]
        assert (on_gpu["profiles"], "profiles" in plain) == (["gpu"], False)
        (device,) = on_gpu["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
        differing = {"profiles", "image", "tmpfs", "deploy", "mem_limit"} | ({"build"} if name == "api" else set())
        assert {key for key in plain | on_gpu if plain.get(key) != on_gpu.get(key)} == differing
    assert services["api-gpu"]["build"]["target"] in stages()
    assert "exec" in services["api-gpu"]["tmpfs"][0], "Triton loads what it compiles from there"


def test_compose_builds_the_stage_that_nobody_names() -> None:
    assert compose()["services"]["api"]["build"] == "."
    assert list(stages())[-1] == ""


def test_each_image_is_built_by_one_service_and_fetched_by_none() -> None:
    services = compose()["services"]
    builders = {one["image"]: name for name, one in services.items() if "build" in one}
    assert builders == {"regard:latest": "api", "regard:gpu": "api-gpu"}
    for name, one in services.items():
        if one["image"] in builders and name not in builders.values():
            assert one["pull_policy"] == "never", name
