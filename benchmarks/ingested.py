"""Upload of pictures to a running service."""

from collections.abc import Sequence

from rich.console import Console
from rich.progress import track

from regard_client import Client, Picture

NOTES = Console(stderr=True)  # standard output is for the report alone


def ingest(client: Client, pictures: Sequence[Picture]) -> dict[str, str]:
    """Ingest all pictures and wait until they can be found; their ids by their names."""
    receipts = list(client.upload(pictures))
    for receipt in track(receipts, description="Finding regions", console=NOTES):
        assert not receipt.rejected, receipt.rejected
        assert receipt.job_id is not None
        job = client.wait(receipt.job_id)
        assert job["failed"] == 0, job
    return {each["filename"]: each["image_id"] for receipt in receipts for each in receipt.accepted}
