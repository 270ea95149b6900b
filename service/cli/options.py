"""Options and arguments that several commands share."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

import typer

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="The server: host:port, or a URL; REGARD_URL if not given, else http://127.0.0.1:8000.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Model = Annotated[str | None, typer.Option("--model", help="A model of `regard models`; the default if not given.")]
WeightsOrNames = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A shipped model, the folder of one, or several joined by + (their mean); the default if not given.",
    ),
]
NumResults = Annotated[int, typer.Option("-k", min=1, max=1000, help="How many results at most.")]
ShortlistLength = Annotated[int, typer.Option("--shortlist", min=1, max=1000, help="How many candidates are reranked.")]
ResultOrder = Annotated[
    Literal["relevance", "date"],
    typer.Option("--sort", help="relevance: best first; date: the same results, newest first."),
]
MinScore = Annotated[float | None, typer.Option("--min-score", help="Leave out results that score lower.")]
MinProbability = Annotated[
    float | None, typer.Option("--min-probability", min=0, max=1, help="Leave out results that are less probable.")
]
GroupNearDuplicates = Annotated[
    bool, typer.Option("--group-near-duplicates", help="Show pictures that look alike as one result.")
]
Thumbnails = Annotated[
    bool,
    typer.Option(
        "--thumbnails/--no-thumbnails", help="Show the pictures small, in terminals that can (kitty, iTerm2, sixels)."
    ),
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, or auto.")]
DetectorFolder = Annotated[
    Path | None, typer.Option("--detector", help="Folder of the detector's weights; the shipped one if not given.")
]
DataFolder = Annotated[
    Path | None, typer.Option("--data-dir", help="The data directory; REGARD_DATA_DIR if not given.")
]
Albums = Annotated[
    bool, typer.Option("--albums/--no-albums", help="Tag each picture of a folder with the folder's name, as `album`.")
]
Sidecars = Annotated[
    bool,
    typer.Option("--sidecars/--no-sidecars", help="Describe pictures by the XMP and Google Takeout files beside them."),
]
CalibrationSplit = Annotated[
    str | None, typer.Option("--split", help="Split to fit on and evaluate with; not the one trained on.")
]
HeldOut = Annotated[
    float,
    typer.Option(
        "--held-out", min=0, max=1, help="Share of the pictures to evaluate with; both parts need 50 pictures."
    ),
]
GallerySeed = Annotated[
    int, typer.Option("--seed", min=0, help="Random seed of the bank, the halves and the galleries.")
]
ImageIds = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="Ids of pictures, as searches print them; - reads them from a pipe."),
]
OnlyIds = Annotated[bool, typer.Option("--ids", help="Print only ids, one per line, for commands that read them.")]
PictureFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A picture file.")]
CaptionsFile = Annotated[
    Path | None,
    typer.Option(
        "--captions", exists=True, dir_okay=False, help='JSON lines: {"image": .., "captions": [..], "split": ..}.'
    ),
]
FeaturesFolder = Annotated[
    Path | None, typer.Option("--features", exists=True, file_okay=False, help="Output folder of `regard extract`.")
]
PrecompFolder = Annotated[
    Path | None,
    typer.Option("--precomp", exists=True, file_okay=False, help="Features and captions in SCAN's layout instead."),
]
PrecompExtractor = Annotated[
    str | None, typer.Option("--extractor", help="Name of the extractor of --precomp; bottom-up-36 if not given.")
]
NumRegions = Annotated[
    int | None,
    typer.Option("--regions", min=1, help="Only the first regions of every picture; 1: only the whole picture."),
]
OutFolder = Annotated[Path, typer.Option("--out", help="Folder to write to; an unfinished run there is resumed.")]


def refuse_unread(context: typer.Context, kind: str, read: Collection[str]) -> None:
    """BadParameter for options that were given to a command but are not read by this `kind` of its work.

    `read` holds the names of the parameters that are read. Arguments are always read.
    """
    unread = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.param_type_name == "option" and parameter.name and parameter.name not in read
        if (source := context.get_parameter_source(parameter.name)) and source.name == "COMMANDLINE"
    ]
    if unread:
        raise typer.BadParameter(f"{kind} does not read {', '.join(unread)}: leave it out")


EndWithStdin = Annotated[bool, typer.Option("--end-with-stdin", hidden=True)]  # for child processes
