"""Word vectors made from captions, and what they make of words."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli.output import note, print_table

app = typer.Typer()


@app.command()
def words(
    captions: Annotated[
        list[Path],
        typer.Argument(
            exists=True, dir_okay=False, help="Captions as .jsonl, COCO's annotations as .json, text with one a line."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write, as text; `regard train --word-vectors` reads it.")],
    split: Annotated[str, typer.Option(help="Split of the .jsonl files to learn from.")] = "train",
    dim: Annotated[int, typer.Option(min=1, help="Numbers in a vector: a recipe's word_dim.")] = 300,
    least: Annotated[int, typer.Option(min=1, help="A word must occur this often.")] = 2,
    ask: Annotated[list[str] | None, typer.Option(help="Show what is near this word, repeatable.")] = None,
) -> None:
    """Learn word vectors from captions alone. Beside OUT, OUT.parts gives vectors to words that do not occur."""
    from models.datasets.captions import read_sentences  # noqa: PLC0415
    from models.training.caption_word_vectors import learn_word_vectors, nearest_words  # noqa: PLC0415 - imports torch

    sentences = [text for path in captions for text in read_sentences(path, split)]
    vectors, parts = learn_word_vectors(sentences, dim, least)
    vectors.save(out)
    parts.save(out.with_name(out.name + ".parts"))
    note(f"{out}: vectors of {len(vectors.words)} words")
    if ask:
        rows = [
            [word, " ".join(f"{near} {cosine:.2f}" for near, cosine in nearest_words(vectors, parts, word))]
            for word in ask
        ]
        print_table("word", "nearest", rows=rows)
