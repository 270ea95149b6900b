"""`regard words`: word vectors learnt from captions."""

from pathlib import Path
from typing import Annotated

import typer

from models.datasets.captions import read_sentences
from service.cli.terminal.output import print_note, print_table, show_progress
from service.errors import UserError, user_input


def words(
    captions: Annotated[
        list[Path],
        typer.Argument(
            exists=True, dir_okay=False, help="Captions: .jsonl, COCO's annotations (.json), or text with one per line."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Text file to write, for `regard train --word-vectors`.")],
    split: Annotated[str, typer.Option(help="Split of the .jsonl files to learn from.")] = "train",
    dim: Annotated[int, typer.Option(min=1, help="Numbers in a vector: a recipe's word_dim.")] = 300,
    least: Annotated[int, typer.Option(min=1, help="Learn only words that occur this often.")] = 2,
    ask: Annotated[list[str] | None, typer.Option(help="Print the words nearest to this one, repeatable.")] = None,
) -> None:
    """Learn word vectors from captions alone. The file OUT.parts provides vectors for other words."""
    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} to write {out.name} to")
    texts: list[str] = []
    for path in captions:
        with user_input(path):
            texts += read_sentences(path, split)
    from models.training.caption_word_vectors import (
        TooFewWords,
        learn_word_vectors,
        nearest_words,
    )

    with show_progress() as progress, progress.activity("learning word vectors"):
        try:
            vectors, parts = learn_word_vectors(texts, dim, least)
        except TooFewWords as fault:
            raise UserError(f"{fault}; give a smaller --dim, a lower --least or more captions") from fault
    parts.save(out.with_name(out.name + ".parts"))  # first, so that the vectors never exist without it
    vectors.save(out)
    print_note(f"{out}: vectors of {len(vectors.words)} words")
    if ask:
        rows = [
            [word, " ".join(f"{near} {cosine:.2f}" for near, cosine in nearest_words(vectors, parts, word))]
            for word in ask
        ]
        print_table("word", "nearest", rows=rows)
