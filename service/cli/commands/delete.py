"""`regard delete`."""

from service.cli.connection import connect
from service.cli.options import ImageIds, Url, ids_given


def delete(image_ids: ImageIds, url: Url = None) -> None:
    """Delete pictures of a server. For a day `regard restore` brings them back."""
    with connect(url) as client:
        for image_id in ids_given(image_ids):
            client.delete(image_id)
            print(f"{image_id} deleted")
