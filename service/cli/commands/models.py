"""`regard models`."""

from service.cli.connection import connect
from service.cli.options import AsJson, Url
from service.cli.terminal.output import print_json, print_note, print_table


def models(url: Url = None, as_json: AsJson = False) -> None:
    """List the models of a server. Shows how many pictures each can search."""
    with connect(url) as client:
        answer = client.models()
    if as_json:
        print_json(answer)
        return
    rows = [
        [
            f"{one['name']} (default)" if one["default"] else one["name"],
            one["state"],
            "yes" if one.get("loaded", True) else "when asked",
            str(one["pictures"]),
            str(one["missing_pictures"]),
            one["digest"],
        ]
        for one in answer["models"]
    ]
    print_table("model", "state", "loaded", "pictures", "missing", "digest", rows=rows)
    if migration := answer.get("migration"):
        print_note(migration["message"])
