"""`regard convert`: published checkpoints and features, converted to Regard's layouts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from models.datasets.captions import read_sentences
from service.cli.options import refuse_unread
from service.cli.terminal.output import print_note, show_progress
from service.cli.training.recipe_changes import change_recipe
from service.errors import UserError, user_input

CHECKPOINTS = ("scan", "bfan", "camp")
NEEDED_FOR_CONCEPTS = ("one_stage", "classifier", "sentence_encoder")
OPTIONS_OF_KINDS = dict.fromkeys(CHECKPOINTS, ("vocab", "extractor")) | {
    "tsv": ("regions", "objects", "extractor"),
    "sentence-encoder": ("captions", "names"),
    "yolox": (),
    "detector": (*NEEDED_FOR_CONCEPTS, "sentence_map", "picture_network", "in_bytes", "change"),
}  # options of each kind, besides --out


def convert(
    context: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            help="scan, bfan or camp: a checkpoint. tsv: bottom-up region features. sentence-encoder: MiniLM."
            " yolox: YOLOX-nano's ONNX file. detector: a trained detector's model.safetensors, which gets concepts."
        ),
    ],
    files: Annotated[list[Path], typer.Argument(exists=True, help="One file, TSVs, or MiniLM's folder.")],
    out: Annotated[Path, typer.Option(help="Folder to write; an unfinished conversion of features is resumed.")],
    vocab: Annotated[Path | None, typer.Option(help="The checkpoint's vocabulary, as its authors ship it.")] = None,
    regions: Annotated[int, typer.Option(min=1, help="The largest number of boxes of a picture in a TSV.")] = 36,
    objects: Annotated[Path | None, typer.Option(help="Names of a TSV's objects, one per line.")] = None,
    extractor: Annotated[str, typer.Option(help="Name of the extractor of the features.")] = "bottom-up-36",
    captions: Annotated[
        list[Path] | None,
        typer.Option(exists=True, dir_okay=False, help="For a sentence encoder: captions with its vocabulary."),
    ] = None,
    names: Annotated[
        list[Path] | None,
        typer.Option(exists=True, dir_okay=False, help="For a sentence encoder: names to know as well, one per line."),
    ] = None,
    one_stage: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="For a detector: YOLOX-nano, ONNX or converted.")
    ] = None,
    classifier: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="For a detector: ImageNet's classes over its backbone."),
    ] = None,
    sentence_encoder: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="For a detector: MiniLM's folder.")
    ] = None,
    sentence_map: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="For a detector: a map of features to MiniLM's space, in the format of --classifier.",
        ),
    ] = None,
    picture_network: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="For a detector: OUT of a `regard train backbone` whose backbone describes whole pictures; repeatable"
            " for the mean.",
        ),
    ] = None,
    in_bytes: Annotated[
        bool, typer.Option("--in-bytes", help="For a detector: store most weights in one byte instead of two.")
    ] = False,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="For a detector: change its config.json: name=value, repeatable.")
    ] = None,
) -> None:
    """Convert published checkpoints and features for Regard.

    Encoders and detectors, too. No code in the files is run.
    """
    if kind not in OPTIONS_OF_KINDS:
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(OPTIONS_OF_KINDS)}")
    refuse_unread(context, kind, ("out", *OPTIONS_OF_KINDS[kind]))
    if wrong := next((path for path in files if path.is_dir() is not (kind == "sentence-encoder")), None):
        raise typer.BadParameter(f"{wrong} is {'a folder' if wrong.is_dir() else 'no folder'}")
    match kind:
        case "tsv":
            _convert_features(files, out, regions, objects, extractor)
        case "sentence-encoder":
            _convert_sentence_encoder(files, captions, names or [], out)
        case "yolox":
            if len(files) != 1:
                raise typer.BadParameter("YOLOX is one file")
            _convert_yolox(files[0], out)
        case "detector":
            if len(files) != 1:
                raise typer.BadParameter("a detector is one file")
            _convert_detector(
                files[0],
                change or [],
                out,
                in_bytes,
                one_stage=one_stage,
                classifier=classifier,
                sentence_encoder=sentence_encoder,
                sentence_map=sentence_map,
                picture_networks=picture_network or [],
            )
        case _:
            if vocab is None or len(files) != 1:
                raise typer.BadParameter("a checkpoint is converted with --vocab, one at a time")
            _convert_checkpoint(kind, files[0], vocab, out, extractor)


def _convert_checkpoint(kind: str, file: Path, vocab: Path, out: Path, extractor: str) -> None:
    if not vocab.is_file():
        raise UserError(f"there is no vocabulary {vocab}")
    if (out / "config.json").exists():
        raise UserError(f"{out} holds a checkpoint already: name a new folder with --out")
    with show_progress() as progress, progress.activity("converting"):
        from models.conversion.convert import convert_checkpoint

        with user_input(file):
            digest = convert_checkpoint(kind, file, vocab, out, extractor)  # type: ignore[arg-type]
    print_note(f"{out}: digest {digest}")


def _convert_sentence_encoder(folders: list[Path], captions: list[Path] | None, names: list[Path], out: Path) -> None:
    if len(folders) != 1 or not captions:
        raise typer.BadParameter("a sentence encoder is converted with --captions, one at a time")
    with user_input(folders[0]):
        texts = [text for path in captions for text in read_sentences(path)]
        named = [line for path in names for line in read_sentences(path)]
        with show_progress() as progress, progress.activity("converting"):
            from models.conversion.sentence_encoder import convert_sentence_encoder

            digest = convert_sentence_encoder(folders[0], texts, named, out)
    print_note(f"{out}: digest {digest}")


def _convert_yolox(file: Path, out: Path) -> None:
    from models.conversion.yolox_onnx import convert_yolox

    with user_input(file):
        written = convert_yolox(file, out)
    print_note(f"{written}: YOLOX-nano's weights")


def _convert_detector(
    file: Path,
    changes: list[str],
    out: Path,
    in_bytes: bool,
    picture_networks: Sequence[Path],
    **parts: Path | None,
) -> None:
    with show_progress() as progress, progress.activity("converting"), user_input():
        from models.conversion.detector import concept_config, convert_detector

        config = concept_config(file)
        needed = [name for name in NEEDED_FOR_CONCEPTS if parts[name] is None]
        if not config.concept_dim and needed:
            options = ", ".join("--" + name.replace("_", "-") for name in needed)
            raise typer.BadParameter(f"{file} has no concepts yet: it is converted with {options} as well")
        digest = convert_detector(
            file,
            change_recipe(config, changes),
            out,
            in_bytes=in_bytes,
            picture_networks=picture_networks,
            **parts,
        )
    print_note(f"{out}: digest {digest}")


def _convert_features(files: list[Path], out: Path, regions: int, objects: Path | None, extractor: str) -> None:
    if objects is not None and not objects.is_file():
        raise UserError(f"there is no file {objects}")
    with show_progress() as progress, user_input():
        task = progress.add_task("converting", None)
        from models.datasets.bottom_up_tsv import convert_tsv

        for done in convert_tsv(files, out, num_regions=regions, objects=objects, extractor=extractor):
            task.update(done)
        if task.completed:
            task.finish()
            return
        task.over = True  # an empty bar would look as if nothing had been found
        progress.changed(task)
        print_note(f"{out} already holds all pictures of these files")
