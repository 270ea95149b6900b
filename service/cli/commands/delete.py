"""`regard delete`."""

from service.cli.connection import connect
from service.cli.given_ids import each_picture, ids_given
from service.cli.options import ImageIds, Url


def delete(image_ids: ImageIds, url: Url = None) -> None:
    """Delete pictures of a server. For a day `regard restore` brings them back."""
    with connect(url) as client:
        for image_id, _ in each_picture(ids_given(image_ids), client.delete):
            print(f"{image_id} deleted")
