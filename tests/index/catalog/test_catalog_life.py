"""Any order of events in a catalog, against plain dictionaries."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from index.catalog.catalog import Catalog
from tests.support.catalogs import make_ready, picture


class Living(RuleBasedStateMachine):
    """Any order of events against dictionaries; another process's catalog sees the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.catalog, self.other = (Catalog(Path(self.folder.name) / "catalog.sqlite") for _ in range(2))
        self.state: dict[str, str] = {}
        self.captions: dict[str, list[str]] = {}
        self.slots: list[str] = []
        self.caption_slots: list[tuple[str, str]] = []
        self.now = 0.0
        self.version = self.catalog.version()

    def teardown(self) -> None:
        self.catalog.close()
        self.other.close()
        self.folder.cleanup()

    def place_captions(self, name: str) -> None:
        new = [(name, text) for text in self.captions[name] if (name, text) not in self.caption_slots]
        self.caption_slots += new

    @rule(names=st.lists(st.sampled_from("abcd"), min_size=1, max_size=4), caption=st.sampled_from(["", "x", "y"]))
    def accept(self, names: list[str], caption: str) -> None:
        said = [caption] if caption else []
        job = self.catalog.take_in([picture(name, captions=said) for name in names], self.now).job_id
        for name in names:
            if self.state.get(name, "failed") in ("failed", "deleted"):
                self.state[name] = "ready" if name in self.slots else "queued"
            self.captions.setdefault(name, []).extend(t for t in said if t not in self.captions.get(name, []))
            if name in self.slots:
                self.place_captions(name)
        status = self.other.jobs.find(job)
        assert status is not None
        assert status.total == len(set(names))
        assert (status.state == "done") == all(self.state[name] == "ready" for name in names)

    @precondition(lambda self: "queued" in self.state.values())
    @rule(limit=st.integers(1, 3))
    def work(self, limit: int) -> None:
        batch = [waiting.image_id for waiting in self.catalog.queue.waiting(limit)]
        make_ready(self.catalog, *batch)
        for name in batch:
            self.state[name] = "ready"
            self.slots.append(name)
            self.place_captions(name)

    @precondition(lambda self: "queued" in self.state.values())
    @rule()
    def fail(self) -> None:
        name = self.catalog.queue.waiting(1)[0].image_id
        self.catalog.queue.set_aside(name, "bad", self.now)
        self.state[name] = "failed"

    @rule(name=st.sampled_from("abcd"))
    def delete(self, name: str) -> None:
        assert self.catalog.delete(name, self.now) == (self.state.get(name, "deleted") != "deleted")
        if name in self.state:
            self.state[name] = "deleted"

    @invariant()
    def agrees(self) -> None:
        for side in (self.catalog, self.other):
            assert side.counts() == {
                state: list(self.state.values()).count(state) for state in ("ready", "queued", "failed", "deleted")
            }
            shown = [self.state[name] != "deleted" for name in self.slots]
            np.testing.assert_array_equal(side.visible(), np.array(shown, np.bool_))
            heard = [self.state[name] != "deleted" for name, _ in self.caption_slots]
            np.testing.assert_array_equal(side.visible_captions(), np.array(heard, np.bool_))
            placed = side.captions_at(range(len(self.caption_slots)))
            assert [(one.image_id, one.text) for one in placed] == self.caption_slots
            assert side.known_ids("abcd") == {
                name for name, state in self.state.items() if state in ("queued", "ready")
            }

    @rule()
    def version_follows(self) -> None:
        before = self.other.version()
        assert self.catalog.version() == before
        self.catalog.take_in([picture("e")], self.now)
        self.catalog.delete("e", self.now)
        assert self.other.version() > before
        self.state["e"] = "deleted"
        self.captions.setdefault("e", [])


TestLiving = Living.TestCase
TestLiving.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
