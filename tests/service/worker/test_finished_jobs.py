"""Jobs that ended are forgotten, one that is not done never, and no picture with them."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.database.connection import Database
from service.clocks import THIS_MACHINE
from service.units import SECONDS_A_DAY
from service.worker.maintenance.finished_jobs import KEPT_DAYS, FinishedJobs
from tests.support.catalogs import make_ready, picture

NOW = 1_700_000_000.0
LONG = KEPT_DAYS * SECONDS_A_DAY


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
        yield catalog


def forget(catalog: Catalog) -> None:
    forgetting = FinishedJobs(catalog, THIS_MACHINE)
    while forgetting.advance():
        pass


def test_a_folder_sent_every_night_keeps_the_jobs_of_a_month(catalog: Catalog, tmp_path: Path) -> None:
    nights = [catalog.take_in([picture("a"), picture("b")], NOW + day * SECONDS_A_DAY).job_id for day in range(40)]
    make_ready(catalog, "a", "b")
    forget(catalog)
    known = [job_id for job_id in nights if catalog.jobs.find(job_id) is not None]
    assert known == nights[9:]  # as old as that is not older
    assert catalog.counts()["ready"] == 2
    with closing(Database(tmp_path / "catalog.sqlite")) as database, database.reading() as db:
        assert db.execute("SELECT count(*) FROM job_images").fetchone()[0] == 2 * len(known)


def test_a_job_that_waits_is_kept_however_old(catalog: Catalog) -> None:
    waiting = catalog.take_in([picture("a")], NOW).job_id
    catalog.take_in([picture("b")], NOW + 2 * LONG)
    forget(catalog)
    assert catalog.jobs.find(waiting) is not None
    make_ready(catalog, "a")
    forget(catalog)
    assert catalog.jobs.find(waiting) is None


def test_the_latest_job_is_kept_whatever_the_clock_says(catalog: Catalog) -> None:
    only = catalog.take_in([picture("a")], 0.0).job_id  # of a machine whose clock was not set yet
    make_ready(catalog, "a")
    forget(catalog)
    assert catalog.jobs.find(only) is not None


def test_a_job_of_a_clock_that_was_ahead_makes_no_later_one_old(catalog: Catalog) -> None:
    ahead = catalog.take_in([picture("a")], time.time() + 12 * LONG).job_id
    late = [catalog.take_in([picture(name)], time.time()).job_id for name in "bc"]
    make_ready(catalog, "a", "b", "c")
    forget(catalog)
    assert all(catalog.jobs.find(job_id) is not None for job_id in [ahead, *late])
