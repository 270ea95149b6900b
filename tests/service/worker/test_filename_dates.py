"""Dates in the names of files."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.worker.filename_dates import date_in_name

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("filename", "moment"),
    [
        ("IMG_20230315_153012.jpg", "2023-03-15T15:30:12"),
        ("PXL_20230315_153012345.jpg", "2023-03-15T15:30:12"),
        ("PXL_20230315_153012345.PORTRAIT.jpg", "2023-03-15T15:30:12"),
        ("IMG20230315153012.jpg", "2023-03-15T15:30:12"),
        ("IMG-20230315-WA0001.jpg", "2023-03-15T00:00:00"),
        ("Screenshot_20250302-101112.png", "2025-03-02T10:11:12"),
        ("Screenshot 2025-03-02 at 10.11.12.png", "2025-03-02T10:11:12"),
        ("signal-2023-03-15-15-30-12.jpg", "2023-03-15T15:30:12"),
        ("2023-03-15 15.30.12.jpg", "2023-03-15T15:30:12"),
        ("2023-03-15 beach.jpg", "2023-03-15T00:00:00"),
        ("2019/12/20230315.jpg", "2023-03-15T00:00:00"),
        ("12345678_20230315.jpg", "2023-03-15T00:00:00"),
    ],
)
def test_names_of_cameras_phones_and_messengers(filename: str, moment: str) -> None:
    assert date_in_name(filename, NOW) == datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "filename",
    [
        "IMG_0412.jpg",
        "DSC20231.jpg",
        "beach 2023.jpg",
        "20231315.jpg",  # of month 13
        "20230230.jpg",  # of no day
        "20270101.jpg",  # after now
        "19700101.jpg",  # before there were such cameras
        "120230315.jpg",
        "202303151.jpg",
        "a3f20230315bc9e0.jpg",
        "2023-0315.jpg",
        "2023-03-15/IMG_0412.jpg",  # of a folder, which may hold what was copied that day
        "",
    ],
)
def test_other_numbers_are_no_dates(filename: str) -> None:
    assert date_in_name(filename, NOW) is None


@given(st.text())
def test_any_name_is_read(filename: str) -> None:
    found = date_in_name(filename, NOW)
    assert found is None or found <= NOW
