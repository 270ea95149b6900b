"""What the ledger holds possible always holds what is true, and what is false is noticed."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from service.chaos.findings import Findings
from service.chaos.ledger import LedgerEntry, PictureState, deleted, edited, restored, uploaded
from service.chaos.pictures import draw

PICTURE = draw(1, 1)
ALLOWED: dict[str, list[Callable[[PictureState], set[PictureState]]]] = {
    "absent": [uploaded],
    "present": [uploaded, edited, deleted(3.0)],
    "deleted": [uploaded, restored],
}
STEPS = st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans(), st.booleans()), max_size=12)


def shown(state: PictureState) -> tuple[int | None, bool]:
    """What a look at the service would see of it."""
    is_there = state.status == "present"
    return (state.edition if is_there else None), is_there


@given(STEPS)
def test_whatever_is_answered_or_not_the_truth_is_possible_and_its_opposite_is_found(
    steps: list[tuple[int, bool, bool, bool]],
) -> None:
    entry, true, findings = LedgerEntry(PICTURE, 1), PictureState(), Findings()
    for choice, is_answered, is_done, is_looked_at in steps:
        state = entry.state
        if state is None or is_looked_at:  # a client leaves alone what it is not certain of
            entry.look(*shown(true), findings)
            continue
        change = ALLOWED[state.status][choice % len(ALLOWED[state.status])]
        outcomes = sorted(change(true), key=str)
        if is_answered:
            entry.acknowledge(change)
            true = outcomes[choice % len(outcomes)]
        else:
            entry.leave_open(change)
            true = outcomes[choice % len(outcomes)] if is_done else true
        assert true in entry.possible or true.status != "present"
    entry.look(*shown(true), findings)
    assert findings.all() == []
    edition, is_there = shown(true)
    entry.look(edition, not is_there, findings)
    assert [(finding.kind, finding.subject) for finding in findings.all()] == [("lost", PICTURE.image_id)]


def test_a_change_that_was_acknowledged_and_is_not_there_is_lost() -> None:
    entry, findings = LedgerEntry(PICTURE, 1), Findings()
    entry.acknowledge(uploaded)
    entry.acknowledge(edited)
    entry.look(0, True, findings)
    assert "edition 0 where 1 was saved" in str(findings.all()[0])
    entry.look(0, True, findings)
    assert findings.count("lost") == 1
