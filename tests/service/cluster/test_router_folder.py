"""A router's folder goes with the router: at its end, or, where it was killed, at the next start."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from service.cluster.routing.router_folder import ROUTERS, RouterFolder
from service.errors import Misconfigured
from service.storage.data_dir import DataDir
from tests.support.project_files import ROOT

HELD = """
import sys, time
from pathlib import Path
from service.cluster.routing.router_folder import RouterFolder
held = RouterFolder(Path(sys.argv[1]))
(held.path / "upload").write_bytes(b"half of it")
print(held.path, flush=True)
time.sleep(600)
"""


def folders(data_dir: Path) -> set[Path]:
    return {path for path in (data_dir / ROUTERS).iterdir() if path.is_dir()}


def test_what_a_killed_router_left_is_removed_by_the_next_start(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HELD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as router:
        assert router.stdout is not None
        try:
            left = Path(router.stdout.readline().strip())
            with closing(RouterFolder(tmp_path)) as beside:  # one that runs keeps its folder
                assert folders(tmp_path) == {left.parent, beside.path.parent}
        finally:
            router.kill()
    assert (left / "upload").exists()
    with closing(RouterFolder(tmp_path)) as fresh:
        assert folders(tmp_path) == {fresh.path.parent}
    assert folders(tmp_path) == set()


def test_a_catalog_can_be_opened_in_it(tmp_path: Path) -> None:
    with closing(RouterFolder(tmp_path)) as held, closing(Catalog(DataDir(held.path).catalog)) as catalog:
        assert catalog.num_slots() == 0


def test_a_data_directory_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / ROUTERS).write_text("not a folder")
    with pytest.raises(Misconfigured, match=r"routers cannot be written \(File exists\), where a router keeps uploads"):
        RouterFolder(tmp_path)
