"""The built page that is committed is, byte for byte, what its sources and the HTTP interface's document build; what it
computes without a browser is what its own tests (`service/page/tests`) expect."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.project_files import ROOT

pytestmark = pytest.mark.slow

TYPES = Path("service/page/src/openapi.ts")
BUILT = Path("service/web")


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with what builds them, of the versions that are locked, and nothing that was built before."""
    folder = tmp_path_factory.mktemp("build")
    shutil.copytree(ROOT / "service/page", folder / "service/page", ignore=shutil.ignore_patterns("node_modules"))
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs/openapi.json", folder / "docs")
    (folder / TYPES).unlink(missing_ok=True)
    run(folder, "ci", "--no-audit", "--no-fund")
    return folder


def run(folder: Path, *arguments: str) -> None:
    """Run npm where the page's sources are. AssertionError with its last words where that fails."""
    ended = subprocess.run(
        ["npm", *arguments], cwd=folder / "service/page", capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]


@pytest.mark.node
def test_building_gives_the_files_that_are_committed(copy: Path) -> None:
    run(copy, "run", "build")
    built, committed = files_of(copy / BUILT), files_of(ROOT / BUILT)
    assert built.keys() == committed.keys()
    assert [name for name in built if built[name] != committed[name]] == [], "run `make page`"
    run(copy, "run", "check")  # that it is well written, and that it sends and reads what the document says


@pytest.mark.node
def test_what_is_written_otherwise_than_the_rest_is_refused(copy: Path) -> None:
    (copy / "service/page/src/odd.ts").write_text("export const odd = 'one'\n")
    with pytest.raises(AssertionError, match=r"odd\.ts"):
        run(copy, "run", "check")
    (copy / "service/page/src/odd.ts").unlink()


def test_the_styles_hold_nothing_that_safari_16_lacks() -> None:
    assert "light-dark(" not in (ROOT / BUILT / "page.css").read_text(encoding="utf-8")


@pytest.mark.node
def test_what_the_page_computes_and_says_is_right(copy: Path) -> None:
    run(copy, "test")


@pytest.mark.node
def test_a_changed_interface_changes_the_types_that_the_page_is_checked_with(copy: Path) -> None:
    document = copy / "docs/openapi.json"
    document.write_text(document.read_text(encoding="utf-8").replace('"shortlist_rank"', '"shortlist_place"'))
    run(copy, "run", "build")
    assert "shortlist_place" in (copy / TYPES).read_text(encoding="utf-8")
    with pytest.raises(AssertionError, match="shortlist_rank"):  # which the page reads
        run(copy, "run", "check")
