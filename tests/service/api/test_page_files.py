"""The page as files: what it may load, that it is what its sources build, and that nobody needs node for it."""

import hashlib
import re
from pathlib import Path

import pytest

from tests.support.project_files import ROOT
from tests.support.web_app import Api, problem

SOURCES, BUILT = ROOT / "service" / "page" / "src", ROOT / "service" / "web"


def test_the_built_page_is_that_of_its_sources() -> None:
    digest = hashlib.sha256()
    written_anew = SOURCES / "openapi.ts"
    for path in sorted({*SOURCES.iterdir()} - {written_anew}, key=lambda path: path.name):
        digest.update(f"{path.name}\n".encode())
        digest.update(path.read_bytes())
    first = (BUILT / "page.js").read_text(encoding="utf-8").partition("\n")[0]
    assert first.endswith(f" {digest.hexdigest()}"), "run `make page`"
    for name in ("index.html", "icon.svg"):
        assert (BUILT / name).read_bytes() == (SOURCES / name).read_bytes(), "run `make page`"


def test_the_page_and_all_that_it_names_are_served(api: Api) -> None:
    page = api.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    named = set(re.findall(r'(?:src|href)="(/page/[^"]+)"', page.text))
    assert {Path(path).name for path in named} == {path.name for path in BUILT.iterdir()} - {"index.html"}
    for path in named:
        part = api.get(path)
        assert part.status_code == 200
        assert part.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/page/page.css"])
def test_a_copy_that_is_still_right_keeps_its_own_policy(api: Api, path: str) -> None:
    part = api.get(path)
    again = api.request("GET", path, headers={"if-none-match": part.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    shared = again.headers.keys() & part.headers.keys() - {"x-request-id", "date"}
    assert {name: again.headers[name] for name in shared} == {name: part.headers[name] for name in shared}
    assert "content-security-policy" not in again.headers  # browsers would take it for the copy's


@pytest.mark.parametrize("path", ["/page/nothing.js", "/page/..%2f__init__.py", "/page/%2e%2e/settings.py"])
def test_nothing_else_is_served(api: Api, path: str) -> None:
    problem(api.get(path), 404, "not-found")


def test_nothing_of_the_page_names_another_origin_or_stands_inline() -> None:
    text = (BUILT / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r"https?://|\sstyle=|\son[a-z]+=|<style|<script[^>]*>[^<]", text)
