"""A service inside a Python program: there as long as the block, gone with the program however it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regard_client import Picture
from service.embedded import embedded_service
from service.errors import UserError
from service.this_machine import is_running, processes_under
from tests.e2e.pictures import painted
from tests.e2e.stack import until
from tests.support.project_files import ROOT
from tests.support.small_services import small_service

pytestmark = pytest.mark.timeout(600)

PROGRAM = """
import sys, time
from service.embedded import embedded_service

with embedded_service({data!r}, **{settings!r}) as client:
    try:
        print("begun", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        print(client.ready()["status"], flush=True)
    time.sleep(600)
"""


def test_pictures_are_found_in_the_block_and_kept_for_the_next(tmp_path: Path) -> None:
    settings, data = small_service(tmp_path), tmp_path / "data"
    (photo,) = painted(1)
    with embedded_service(data, **settings) as client:
        for receipt in client.upload([Picture(photo.content, name=photo.name, captions=list(photo.captions))]):
            assert receipt.job_id is not None
            client.wait(receipt.job_id)
        (hit,) = client.search_text(photo.captions[0])["results"]
    with embedded_service(data, **settings) as client:
        assert [image["image_id"] for image in client.images()] == [hit["image_id"]]


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no detector"), embedded_service(tmp_path / "data", detector=nowhere):
        pass


@pytest.mark.parametrize("setting", ["role", "host", "port", "rate_limit"])
def test_what_it_chooses_itself_is_refused(tmp_path: Path, setting: str) -> None:
    with pytest.raises(ValueError, match=f"chooses {setting} itself"), embedded_service(tmp_path, **{setting: "0"}):
        pass


def test_what_is_no_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no_such_setting"), embedded_service(tmp_path, no_such_setting=1):
        pass


def test_ctrl_c_is_for_the_program_alone_whose_death_ends_the_service(tmp_path: Path) -> None:
    program = PROGRAM.format(data=str(tmp_path / "data"), settings=small_service(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == "begun\n"
            started = processes_under(running.pid)
            assert len(started) > 1
            os.killpg(running.pid, signal.SIGINT)
            assert running.stdout.readline() == "ready\n"
        finally:
            running.kill()
    until(lambda: not any(map(is_running, started)), "the service outlived the program")
