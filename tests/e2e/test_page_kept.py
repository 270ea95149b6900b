"""Nothing is lost by the page: what a form cannot show stays, folders with equal names, a service that restarts."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import patient
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import FilePayload, Route, expect

from tests.e2e.browser import Visit, send

pytestmark = pytest.mark.browser

# Drops folders, each with one picture of the same name, as a browser hands them over; where none is given, its file
# cannot be read.
DROP_FOLDERS = """
([name, folders]) => {
  const entry = (folder, text) => {
    const content = Uint8Array.from(atob(text ?? ""), (one) => one.charCodeAt(0));
    const whole = new File([content], name, { type: "image/png" });
    const file = (take, fail) => text ? take(whole) : fail(new DOMException());
    const inside = [[{ isFile: true, fullPath: `/${folder}/${name}`, file }], []];
    const createReader = () => ({ readEntries: (take) => take(inside.shift()) });
    return { isFile: false, fullPath: `/${folder}`, createReader };
  };
  const items = folders.map(([folder, text]) => ({ webkitGetAsEntry: () => entry(folder, text) }));
  const drop = new Event("drop", { bubbles: true, cancelable: true });
  Object.defineProperty(drop, "dataTransfer", { value: { types: ["Files"], items } });
  document.querySelector("[data-drop=add]").dispatchEvent(drop);
}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        send(url, "red-blue.png", png(two_coloured("red", "blue", 320, 240)), {"captions": ["red and blue"]})
        yield url


def base64_png(left: str, right: str) -> str:
    return base64.b64encode(png(two_coloured(left, right, 64, 48))).decode()


def test_what_no_line_can_show_stays_as_it_is(visit: Visit) -> None:
    page = visit.page
    (image,) = patient.get(f"{visit.address}/images").json()["images"]
    url = f"{visit.address}/images/{image['image_id']}"
    kept = {"captions": ["one\ntwo", "three"], "tags": {"exif:lens": "35mm: f/2", "note": "two\nlines", "year": 2020}}
    patient.patch(url, json=kept).raise_for_status()

    def edit(label: str, before: str, after: str) -> dict[str, Any]:
        page.reload()
        page.locator("#main li.card").get_by_role("button", name="Edit").click()
        form = page.locator("form.editor")
        box = form.get_by_label(label)
        assert before in box.input_value()
        box.fill(box.input_value().replace(before, after) if before else after)
        form.get_by_role("button", name="Save").click()
        expect(form).to_be_hidden()
        known = patient.get(f"{url}/info").json()
        return {name: known[name] for name in kept}

    assert edit("Date", "", "2020-02-02") == kept
    assert edit("Tags", "35mm", "50mm") == {**kept, "tags": {**kept["tags"], "exif:lens": "50mm: f/2"}}  # type: ignore[dict-item]
    assert edit("Captions", "three", "four")["captions"] == ["one\ntwo", "four"]


def test_a_line_that_is_no_tag_is_refused_and_nothing_is_changed(visit: Visit) -> None:
    page = visit.page
    (image,) = patient.get(f"{visit.address}/images").json()["images"]
    before = patient.get(f"{visit.address}/images/{image['image_id']}/info").json()
    page.reload()
    page.locator("#main li.card").get_by_role("button", name="Edit").click()
    form = page.locator("form.editor")
    form.get_by_label("Tags").fill("no colon here")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("“no colon here” has no colon")
    expect(form.get_by_label("Tags")).to_have_attribute("aria-invalid", "true")
    assert patient.get(f"{visit.address}/images/{image['image_id']}/info").json() == before


def test_a_caption_that_came_meanwhile_is_not_lost(visit: Visit) -> None:
    page = visit.page
    (image,) = patient.get(f"{visit.address}/images").json()["images"]
    url = f"{visit.address}/images/{image['image_id']}"
    patient.patch(url, json={"captions": []}).raise_for_status()
    page.reload()
    page.locator("#main li.card").get_by_role("button", name="Edit").click()
    patient.patch(url, json={"captions": ["found in the file"]}).raise_for_status()
    form = page.locator("form.editor")
    form.get_by_label("Date").fill("2021-03-04")
    form.get_by_role("button", name="Save").click()
    expect(form).to_be_hidden()
    assert patient.get(f"{url}/info").json()["captions"] == ["found in the file"]
    page.locator("#main li.card").get_by_role("button", name="Edit").click()
    expect(form.get_by_label("Date")).to_have_value("2021-03-04")  # as it was written


def test_a_moment_stays_as_it_was_until_another_date_is_written(visit: Visit) -> None:
    page, form = visit.page, visit.page.locator("form.editor")
    (image,) = patient.get(f"{visit.address}/images").json()["images"]
    moments = ["2020-08-21T09:46:12Z", "2020-08-21T09:46:12Z", "2020-08-22T10:00:00Z"]
    patient.patch(f"{visit.address}/images/{image['image_id']}", json={"taken_at": moments[0]}).raise_for_status()
    for label, text, moment in zip(
        ("Captions", "Date"), ("seen anew", "22 August 2020 10:00"), moments[1:], strict=True
    ):
        page.reload()
        page.locator("#main li.card").get_by_role("button", name="Edit").click()
        expect(form.get_by_label("Date")).to_have_value("2020-08-21 09:46")
        form.get_by_label(label).fill(text)
        form.get_by_role("button", name="Save").click()
        expect(form).to_be_hidden()
        assert patient.get(f"{visit.address}/images/{image['image_id']}/info").json()["taken_at"] == moment


def test_folders_with_equal_names_are_all_taken_in(visit: Visit) -> None:
    folders = [["Trip1", base64_png("cyan", "red")], ["Trip2", base64_png("green", "yellow")]]
    visit.page.evaluate(DROP_FOLDERS, ["1.png", folders])
    expect(visit.page.locator("#add").get_by_role("status")).to_have_text("Done: 2 of 2 can be found.")
    images = patient.get(f"{visit.address}/images").json()["images"]
    assert {one["tags"]["album"] for one in images if one["filename"] == "1.png"} == {"Trip1", "Trip2"}
    for one in images:
        if one["filename"] == "1.png":
            patient.delete(f"{visit.address}/images/{one['image_id']}").raise_for_status()


def test_a_name_that_reads_otherwise_in_a_form_stays_as_it_is(visit: Visit) -> None:
    visit.page.evaluate(DROP_FOLDERS, ["a%22b.png", [["Trip7", base64_png("blue", "red")]]])
    panel = visit.page.locator("#add")
    expect(panel.get_by_role("status")).to_have_text("Done: 1 of 1 can be found.")
    content = base64.b64decode(base64_png("red", "green"))
    files: list[FilePayload] = [{"name": "c%0Ad.png", "mimeType": "image/png", "buffer": content}]
    panel.locator("input#choose-files").set_input_files(files)
    expect(panel.get_by_role("status")).to_have_text("Done: 1 of 1 can be found.")
    for name in ("a%22b.png", "c%0Ad.png"):
        (one,) = [one for one in patient.get(f"{visit.address}/images").json()["images"] if one["filename"] == name]
        patient.delete(f"{visit.address}/images/{one['image_id']}").raise_for_status()


def test_what_cannot_be_read_of_a_drop_is_told_and_costs_nothing_else(visit: Visit) -> None:
    folders = [["Trip5", None], ["Trip6", base64_png("green", "cyan")]]
    visit.page.evaluate(DROP_FOLDERS, ["4.png", folders])
    panel = visit.page.locator("#add")
    expect(panel.get_by_role("status")).to_have_text("Done: 1 of 2 can be found, 1 left out.")
    expect(panel.locator("ul.reasons")).to_contain_text("Trip5/4.png cannot be read")
    images = patient.get(f"{visit.address}/images").json()["images"]
    (stored,) = [one for one in images if one["filename"] == "4.png"]
    assert stored["tags"]["album"] == "Trip6"
    patient.delete(f"{visit.address}/images/{stored['image_id']}").raise_for_status()


def test_a_service_that_restarts_is_waited_for(visit: Visit) -> None:
    asked = list[str]()

    def loading(route: Route) -> None:
        asked.append(route.request.url)
        if route.request.url.endswith("/events") or len(asked) < 3:
            route.fulfill(status=503, json={"detail": "The service is loading."}, headers={"Retry-After": "1"})
        else:
            route.continue_()

    visit.page.route("**/jobs/**", loading)
    visit.page.evaluate(DROP_FOLDERS, ["2.png", [["Trip3", base64_png("blue", "cyan")]]])
    expect(visit.page.locator("#add").get_by_role("status")).to_have_text("Done: 1 of 1 can be found.")
    assert len(asked) >= 3


def test_a_service_that_refuses_ends_the_waiting(visit: Visit) -> None:
    visit.page.route("**/jobs/**", lambda route: route.fulfill(status=404, json={"detail": "There is no such job."}))
    visit.page.evaluate(DROP_FOLDERS, ["3.png", [["Trip4", base64_png("red", "cyan")]]])
    expect(visit.page.locator("#add").get_by_role("status")).to_have_text(
        "There is no such job. Done: 0 of 1 can be found."
    )
