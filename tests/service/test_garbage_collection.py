"""Objects that a process loaded before it answers: later collections of garbage do not look at them."""

import asyncio
import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from models.matching.lazy_matcher import LazyMatcher, MatcherHeader
from service.api.first_use import ModelLoader
from service.garbage_collection import pass_over_loaded_objects, without_collections
from service.search.model_views import ModelView
from tests.support.fakes import FakeMatcher, at_once

ANSWERING = """
import gc, os, signal, socket, sys, threading
from pathlib import Path
from types import SimpleNamespace
from service.serve import _WebSide, exit_on_signals
from service.settings import Settings

async def nothing(scope, receive, send):
    pass

loaded = [[] for _ in range(1000)]

def listens():
    looked_at = {id(one) for one in gc.get_objects()}
    print(sum(id(one) in looked_at for one in loaded), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

exit_on_signals()
with socket.create_server(("127.0.0.1", 0)) as listening:
    services = SimpleNamespace(ending=threading.Event())
    _WebSide(nothing, services, Settings(data_dir=Path(sys.argv[1])), "").answer(listening, listens)
"""


class Ring:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def is_looked_at(one: object) -> bool:
    return any(other is one for other in gc.get_objects())


def test_loaded_objects_are_passed_over_and_later_ones_are_not() -> None:
    loaded = Ring()
    assert is_looked_at(loaded)
    pass_over_loaded_objects()
    later = Ring()
    assert not is_looked_at(loaded)
    assert is_looked_at(later)


def test_garbage_of_before_and_after_is_collected() -> None:
    before = weakref.ref(Ring())
    pass_over_loaded_objects()
    after = weakref.ref(Ring())
    gc.collect()
    assert before() is None
    assert after() is None


def test_a_loaded_object_that_nothing_refers_to_is_freed() -> None:
    loaded = [{"a": [1]}, FakeMatcher("a", "b")]
    pass_over_loaded_objects()
    matcher = weakref.ref(loaded[1])
    loaded.clear()
    assert matcher() is None


def test_a_model_loaded_at_its_first_use_is_passed_over(tmp_path: Path) -> None:
    matcher = FakeMatcher("other", "other-matcher")
    lazy = LazyMatcher(MatcherHeader.of(matcher), lambda: matcher)
    loader = ModelLoader()
    asyncio.run(loader.load(ModelView("other", lazy, tmp_path, maintained=False), at_once))
    loader.close()
    assert not is_looked_at(matcher)


def test_a_web_process_passes_over_what_it_has_loaded_before_it_listens(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", ANSWERING, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ended.stdout == "0\n"


def test_nothing_is_collected_while_objects_are_made_that_stay() -> None:
    assert gc.isenabled()
    with without_collections():
        with without_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collections_go_on_where_loading_fails() -> None:
    with pytest.raises(OSError, match="no weights"), without_collections():
        raise OSError("no weights")
    assert gc.isenabled()


def test_what_is_there_at_the_end_is_not_looked_at_again() -> None:
    program = "from service.garbage_collection import collect_nothing_at_exit as end; import atexit, gc\n"
    told = "atexit.register(lambda: print(len(gc.get_objects()), gc.get_freeze_count() > 1000)); end()"
    ended = subprocess.run([sys.executable, "-c", program + told], capture_output=True, text=True, check=True)
    looked_at, is_frozen = ended.stdout.split()
    assert int(looked_at) < 100
    assert is_frozen == "True"
