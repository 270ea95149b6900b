"""Pictures sent to a running service, and waited for."""

from collections.abc import Sequence

from rich.console import Console
from rich.progress import track

from regard_client import Client, Picture

NOTES = Console(stderr=True)  # so that what is printed is the report alone


def ingest(client: Client, pictures: Sequence[Picture]) -> dict[str, str]:
    """Ingest all pictures and wait until they can be found; their ids by their names."""
    receipts = list(client.upload(pictures))
    for receipt in track(receipts, description="Finding regions", console=NOTES):
        assert not receipt.rejected, receipt.rejected
        assert receipt.job_id is not None
        job = client.wait(receipt.job_id)
        assert job["failed"] == 0, job
    return {one["filename"]: one["image_id"] for receipt in receipts for one in receipt.accepted}
