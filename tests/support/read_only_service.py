"""A service on a data directory that this process may not write, whoever runs it.

python -m tests.support.read_only_service DATA prints, as JSON, what requests are answered with, and what a worker says.
"""

import json
import stat
import sys
from pathlib import Path
from typing import Any

from service.errors import UserError
from service.model_loading import LoadedModels
from service.settings import Settings
from service.worker.process import open_worker
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.web_app import Web
from tests.support.without_privilege import output_without_privilege


def answers_without_writing(data: Path) -> dict[str, Any]:
    """What the program below prints for a data directory of which every file and folder may not be written."""
    for path in [data, *data.rglob("*")]:
        path.chmod(stat.S_IRUSR | (stat.S_IXUSR if path.is_dir() else 0))
    try:
        said = output_without_privilege("-m", "tests.support.read_only_service", str(data))
    finally:
        for path in [data, *data.rglob("*")]:
            path.chmod(stat.S_IRUSR | stat.S_IWUSR | (stat.S_IXUSR if path.is_dir() else 0))
    answered: dict[str, Any] = json.loads(said.splitlines()[-1])
    return answered


def main() -> None:
    """Ask, and print the answers."""
    folder = Path(sys.argv[1])
    settings = Settings(data_dir=folder, decode_workers=1)
    extractor, matcher = FakeExtractor(), FakeMatcher()
    try:
        with open_worker(settings, extractor, [matcher]):
            said = "it works"
    except UserError as fault:
        said = str(fault)
    web = Web(settings, LoadedModels.of(extractor, {"fake": matcher}, views=["fake"]))
    (image,) = web.get("/images").json()["images"]
    answered = {
        "worker": said,
        "found": [hit["image_id"] for hit in web.text("red").json()["results"]],
        "shown": web.get(image["url"]).status_code,
        "thumbnail": web.get(image["thumbnail_url"]).status_code,
        "upload": web.request("POST", "/ingest", files={"images": ("a.png", b"1")}).json()["type"],
        "edit": web.request("PATCH", image["url"], json={"captions": []}).json()["type"],
        "deletion": web.request("DELETE", image["url"]).json()["type"],
    }
    web.close()
    print(json.dumps(answered))


if __name__ == "__main__":
    main()
