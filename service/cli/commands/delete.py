"""`regard delete`."""

from service.cli.options import DEFAULT_URL, ImageIds, Url


def delete(image_ids: ImageIds, url: Url = DEFAULT_URL) -> None:
    """Delete pictures of a server. For a day `regard restore` brings them back."""
    from service.client import Client  # noqa: PLC0415 - half a second, which `--help` should not take

    with Client.from_environment(url) as client:
        for image_id in image_ids:
            client.delete(image_id)
            print(f"{image_id} deleted")
