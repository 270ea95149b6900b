"""`regard bench serve | ingest | start` measure a real service, small here, over real HTTP."""

import json
from pathlib import Path

import PIL.Image
import pytest

from models.bench import busy, timing
from service.bench.charts import chart_of
from service.bench.memory import proportional_memory
from service.bench.synthetic import fill_with_pictures
from service.cli.main import app
from service.errors import UserError
from service.model_loading import LoadedModels
from service.processes.service_process import ServiceProcess
from service.settings import Settings
from tests.support.small_services import small_service

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A small model and detector, and a machine whose rates are measured in no time."""
    monkeypatch.setattr(timing, "PEAK_SIZE", 32)
    monkeypatch.setattr(timing, "READ_NUMBERS", 1 << 10)
    monkeypatch.setattr(busy, "BUSY", busy.LOOP)  # processes that wait: what they cost is no matter here
    for name, value in small_service(tmp_path).items():
        monkeypatch.setenv(f"REGARD_{name.upper()}", value)


def measured(what: str, folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    plot = folder / "chart.png"
    app(["bench", what, "--rounds=1", "--threads=1", f"--plot={plot}", "--json", *arguments], standalone_mode=False)
    report = json.loads(capsys.readouterr().out)
    rows: list[dict[str, object]] = report["rows"]
    with PIL.Image.open(plot) as drawn:
        assert drawn.width > 0
    assert chart_of(what, rows).series
    return rows


def test_searches_are_compared_with_what_one_process_allows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "kept"
    given = ("--pictures=70", "--clients=2", "--seconds=0.3", "--candidates=20", f"--data-dir={data}")
    rows = {str(row["form"]): row for row in measured("serve", tmp_path, capsys, *given)}
    loops = ("keep-alive", "new connections", "open loop")
    assert sorted(rows) == sorted(["in process", "one client", *loops, *(f"{loop}, 2 web processes" for loop in loops)])
    for row in rows.values():
        assert (row["pictures"], row["candidates"], row["failed"]) == (70, 20, 0)
        assert float(str(row["queries_per_second"])) > 0
        assert float(str(row["p50_ms"])) <= float(str(row["p95_ms"])) <= float(str(row["p99_ms"]))
    assert rows["in process"]["ratio_to_in_process"] == 1.0
    # Run again, it takes the pictures that are there.
    settings = Settings(data_dir=data)
    assert fill_with_pictures(settings, LoadedModels.from_settings(settings, stored=False), 70) == 70


def test_ingestion_is_told_by_stage_and_against_the_bare_extractor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row["what"]: row for row in measured("ingest", tmp_path, capsys, "--pictures=4", "--beside=1")}
    stages = [row for what, row in rows.items() if str(what).startswith("stage: ")]
    assert len(stages) == 4
    assert sum(float(str(row["share"])) for row in stages) == pytest.approx(1)
    assert float(str(rows["over HTTP"]["ratio"])) > 0
    assert float(str(rows["bare extractor"]["seconds_per_picture"])) > 0
    # Beside a busy process it is told, too, what threads that spin while they wait would cost.
    assert rows["extractor, idle threads spinning"]["ratio"] == 1
    assert float(str(rows["extractor, idle threads passive"]["ratio"])) > 0


def test_a_start_is_told_with_its_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = measured("start", tmp_path, capsys)
    assert 0 < float(str(rows[0]["listening_s"])) <= float(str(rows[0]["ready_s"]))
    assert rows[0]["memory_mb"] is None or float(str(rows[0]["memory_mb"])) > 50
    assert all(float(str(row["refused_s"])) > 0 for row in rows[1:])


def test_a_service_that_does_not_start_is_no_figure(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", detector=tmp_path / "nothing")
    with ServiceProcess(settings, tmp_path / "log") as service, pytest.raises(UserError, match="no detector"):
        service.seconds_until("/readyz")


def test_what_has_ended_holds_no_memory() -> None:
    assert proportional_memory(2**30) in (0.0, None)
