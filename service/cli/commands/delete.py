"""`regard delete`."""

from service.cli.connection import connect
from service.cli.given_ids import each_picture, ids_given, print_each
from service.cli.options import AsJson, ImageIds, Url


def delete(image_ids: ImageIds, url: Url = None, as_json: AsJson = False) -> None:
    """Delete pictures of a server. `regard restore` can undo this for a day."""
    with connect(url) as client:
        deleted = ({"image_id": image_id} for image_id, _ in each_picture(ids_given(image_ids), client.delete))
        print_each(deleted, lambda one: f"{one['image_id']} deleted", as_json)
