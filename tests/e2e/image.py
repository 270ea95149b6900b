"""The image of the Dockerfile, built without a docker engine, started as compose starts it, and asked for a picture.

python -m tests.e2e.image [FOLDER]

FOLDER takes about 40 GB while it works (/var/tmp if none is given) and is empty again at the end. Debian's buildah
builds the Dockerfile, on a base of debootstrap with the name of the one that docker would fetch and without its digest.
Root, buildah and debootstrap must be there: apt-get install buildah debootstrap.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from service.this_machine import held_port
from tests.e2e.compose import Service, instructions, service
from tests.e2e.container import Container, end
from tests.e2e.stack import until
from tests.support import patient
from tests.support.project_files import ROOT

DRAWINGS = ROOT / "docs" / "images" / "drawings"
SENTENCE, FOUND = "a black dog chases a ball on the grass", "dog-on-grass.webp"
TOOLS = ("buildah", "debootstrap", "unshare", "setpriv")
PACKAGES = ("python3", "python3-pip", "python3-venv", "python-is-python3", "ca-certificates")
IMAGE = "localhost/regard:image-test"
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")
BUNDLE = Path("etc/ssl/certs/ca-certificates.crt")  # where Debian keeps the certificates that are trusted


class Builder:
    """buildah with a store of its own in a folder; vfs and chroot need nothing of the kernel that a container lacks."""

    def __init__(self, folder: Path) -> None:
        """A store below `folder`, made when it is first needed."""
        place = ["--root", str(folder / "store"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]
        self._buildah = ["buildah", *place]

    def __call__(self, *words: str) -> str:
        """What a buildah command prints on standard output; CalledProcessError."""
        return subprocess.run([*self._buildah, *words], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def inspect(self) -> dict[str, Any]:
        """All that is said of the built image."""
        found: dict[str, Any] = json.loads(self("inspect", "--type", "image", IMAGE))
        return found

    def build(self, context: Path, folder: Path) -> None:
        """Build the Dockerfile's last stage on the base made here, with what it prints shown."""
        file = folder / "Dockerfile"
        file.write_text(DIGEST.sub("", (context / "Dockerfile").read_text(encoding="utf-8")), encoding="utf-8")
        options = ("--isolation", "chroot", "--pull-never", "--tag", IMAGE, "--file", str(file))
        subprocess.run([*self._buildah, "bud", *options, str(context)], check=True)


def make_base(builder: Builder, folder: Path) -> None:
    """A Debian with Python, named as the Dockerfile's base; it trusts the certificates that this machine trusts.

    The digest that the Dockerfile names is another image's, so that the build leaves it out.
    """
    (name,) = {
        DIGEST.sub("", rest.partition(" AS ")[0]) for word, rest in instructions() if word == "FROM" and ":" in rest
    }
    tree = folder / "base"
    # In a mount namespace of its own: what debootstrap mounts into the tree is gone when it ends, however that is.
    bootstrap = (
        "unshare",
        "--mount",
        "debootstrap",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        "bookworm",
        str(tree),
    )
    subprocess.run(bootstrap, check=True, stdout=subprocess.DEVNULL)
    for path in tree.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        path.unlink()  # the base that it stands for has no packages of a system to keep apart
    shutil.rmtree(tree / "var/cache/apt/archives")
    shutil.copyfile("/" / BUNDLE, tree / BUNDLE)
    container = builder("from", "scratch")
    builder("copy", "--quiet", container, str(tree), "/")
    builder("config", "--env", "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", container)
    builder("config", "--env", f"SSL_CERT_FILE=/{BUNDLE}", "--env", "UV_SYSTEM_CERTS=true", container)
    builder("commit", "--quiet", "--rm", container, name)
    shutil.rmtree(tree)


@contextlib.contextmanager
def container_of(builder: Builder, folder: Path) -> Iterator[Container]:
    """The built image's files and a data folder that is the image's user's, until the block ends."""
    name = builder("from", "--pull-never", IMAGE)
    data = folder / "data"
    data.mkdir()
    said = builder.inspect()["OCIv1"]["config"]
    user = int(said["User"].partition(":")[0])
    environment = {name: value for name, _, value in (pair.partition("=") for pair in said["Env"])}
    os.chown(data, user, user)
    try:
        yield Container(Path(builder("mount", name)), data, environment, user)
    finally:
        builder("umount", name)
        builder("rm", name)


def ingest_and_find(container: Container, folder: Path, port: str) -> list[str]:
    """Start api and worker on a port; both get healthy, drawings go in, and a sentence finds its own. What was seen.

    AssertionError where something is otherwise than it should be.
    """
    said = {name: service(name) for name in ("api", "worker")}
    settings = {name: {**one.environment, "REGARD_PORT": port} for name, one in said.items()}
    started = [container.start(one.command, settings[name], folder / f"{name}.log") for name, one in said.items()]
    try:
        begun = time.monotonic()
        for name, one in said.items():
            until(partial(healthy, container, one, settings[name]), f"{name} never became healthy")
        ready = time.monotonic() - begun
        held = [confinement(process.pid) for process in started]
        assert held == [(str(container.user), "0000000000000000", "1")] * len(started), held
        touched = container.run(("touch", "/opt/regard/mine"), {})
        assert touched.returncode != 0, "the file system can be written to"
        assert "Read-only file system" in touched.stderr, touched.stderr
        hits = answer(f"http://127.0.0.1:{port}")
        assert hits[0]["filename"] == FOUND, hits
        assert hits[0]["explanation"]["contributions"]
        assert {path.stat().st_uid for path in container.data.rglob("*")} == {container.user}
        return [
            f"api and worker healthy after {ready:.0f} s: uid {container.user}, no capability, read-only root",
            f"“{SENTENCE}” found {hits[0]['filename']} first of {len(hits)}, with its reasons",
        ]
    except BaseException:
        for name in said:
            print(f"--- {name}\n{(folder / f'{name}.log').read_text(errors='replace')[-4000:]}", file=sys.stderr)
        raise
    finally:
        for process in started:
            end(process)


def healthy(container: Container, one: Service, settings: dict[str, str]) -> bool:
    """Whether a service's health check passes, run where docker would run it."""
    return container.run(one.healthcheck, settings).returncode == 0


def confinement(pid: int) -> tuple[str, str, str]:
    """(user, capabilities, no new privileges) of what a started process runs."""
    child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
    lines = Path(f"/proc/{child}/status").read_text().splitlines()
    found = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return found["Uid"][1], found["CapBnd"][0], found["NoNewPrivs"][0]


def answer(url: str) -> list[dict[str, Any]]:
    """What the sentence finds once all drawings are taken in."""
    files = [("images", (path.name, path.read_bytes())) for path in sorted(DRAWINGS.iterdir())]
    receipt = httpx.post(f"{url}/ingest", files=files, timeout=120).raise_for_status().json()
    until(
        lambda: patient.get(f"{url}{receipt['status_url']}").json()["state"] == "done",
        "the drawings were not taken in",
    )
    asked = {"query": SENTENCE, "explain": True}
    found: list[dict[str, Any]] = httpx.post(f"{url}/search/text", json=asked, timeout=120).json()["results"]
    return found


def try_image(folder: Path) -> None:
    """Build, start and ask; what each step took is printed."""
    builder = Builder(folder)
    begun = time.monotonic()
    make_base(builder, folder)
    based = time.monotonic()
    builder.build(ROOT, folder)
    built = time.monotonic()
    size = sum(layer["size"] for layer in json.loads(builder.inspect()["Manifest"])["layers"])  # as unpacked
    with container_of(builder, folder) as container, held_port() as port:
        lines = ingest_and_find(container, folder, str(port))
    over = time.monotonic()
    print(*lines, sep="\n")
    print(
        f"minutes: {(based - begun) / 60:.1f} base, {(built - based) / 60:.1f} build, {(over - built) / 60:.1f} trial"
    )
    print(f"size of the image: {size / 1e9:.2f} GB")


def main(words: Sequence[str]) -> None:
    """Try the image in a folder that is removed again; SystemExit where something that it needs is missing."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        lacks = ", ".join(missing) or "the rights of root"
        raise SystemExit(f"make image-test needs {lacks}: run it as root after apt-get install buildah debootstrap")
    with tempfile.TemporaryDirectory(prefix="regard-image-", dir=words[0] if words else "/var/tmp") as place:
        try_image(Path(place))


if __name__ == "__main__":
    main(sys.argv[1:])
