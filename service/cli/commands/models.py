"""`regard models`."""

from service.cli.options import DEFAULT_URL, AsJson, Url
from service.cli.output import print_json, print_note, print_table


def models(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List the models of a server. Says how much each can search."""
    from service.client import Client  # noqa: PLC0415 - half a second, which `--help` should not take

    with Client.from_environment(url) as client:
        answer = client.models()
    if as_json:
        print_json(answer)
        return
    rows = [
        [
            f"{one.name} (default)" if one.default else one.name,
            one.state,
            str(one.pictures),
            str(one.missing_pictures),
            one.digest,
        ]
        for one in answer.models
    ]
    print_table("model", "state", "pictures", "missing", "digest", rows=rows)
    if answer.migration is not None:
        print_note(answer.migration.message)
