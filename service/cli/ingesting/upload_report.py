"""Notes on the outcome of files that a folder watch sends."""

from collections import deque
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus

from regard_client import Client, Receipt, RegardError, RequestRefused
from regard_client.answers import JobAnswer
from service.cli.ingesting.summary import IngestSummary
from service.cli.terminal.output import first_names, note_names, print_note, visible


class UploadReport:
    """Counts and prints the outcome of files: whether they are accepted, and whether their pictures can be found."""

    def __init__(self, client: Client) -> None:
        self.summary = IngestSummary()
        self._client = client
        self._jobs: deque[tuple[str, list[str]]] = deque()  # id, names of the new pictures

    @property
    def num_jobs(self) -> int:
        """The number of jobs whose outcome was not reported yet."""
        return len(self._jobs)

    def report_receipt(self, receipt: Receipt, later: Container[str]) -> None:
        """Report a request's files, except for names that will be sent again `later`."""
        waiting = [file["filename"] for file in receipt.rejected if file["filename"] in later]
        note_names("not checked in time, and sent again later", waiting)
        rejected = [file for file in receipt.rejected if file["filename"] not in later]
        self.summary.count_receipt(replace(receipt, rejected=rejected))
        note_names("deleted before, and left so", [file["filename"] for file in rejected if file.get("deleted")])
        for file in rejected:
            if not file.get("deleted"):
                print_note(f"turned away: {visible(file['filename'])}: {file['problem']}")
        accepted = receipt.accepted
        note_names("there already", [file["filename"] for file in accepted if file["duplicate"]])
        note_names("deleted before, and brought back", [file["filename"] for file in accepted if file.get("restored")])
        if receipt.job_id is not None:
            self._jobs.append((receipt.job_id, [file["filename"] for file in accepted if not file["duplicate"]]))

    def report_jobs(self) -> None:
        """Report the jobs that are done, up to the first that is not."""
        while self._jobs:
            job_id, names = self._jobs[0]
            job: JobAnswer | None = None
            try:
                job = self._client.job(job_id)
            except RequestRefused as refused:
                if refused.status != HTTPStatus.NOT_FOUND:
                    raise
            if job is not None and job["state"] != "done":
                return
            self._jobs.popleft()
            if job is None:
                print_note(f"the service no longer knows the outcome of {first_names(names)}")
            else:
                self._report_job(job, names)

    def _report_job(self, job: JobAnswer, names: Sequence[str]) -> None:
        self.summary.count_failures(job["failures"])
        for failure in job["failures"]:
            print_note(f"set aside: {visible(failure['filename'])}: {failure['reason']}")
        failed = {failure["filename"] for failure in job["failures"]}
        note_names("can be found", [name for name in names if name not in failed])

    def note_pending(self) -> None:
        """Report the jobs that are done, if the service answers, and print how many pictures are pending."""
        with suppress(RegardError):
            self.report_jobs()
        if pending := sum(len(names) for _, names in self._jobs):
            print_note(f"{pending} pictures are with the service, which goes on finding their regions: `regard jobs`")
