"""A Markdown table of several models' hits for short questions, which are the names of classes.

`regard evaluate --short-questions` measures one model.

python -m benchmarks.short_questions bfan-equal sman --boxes coco/boxes.json --images coco

Means over the classes that enough pictures show: hits among the first five answers as a share of those possible, first
answers that are right, mean average precision; and how many classes have no hit among the first five.
"""

from benchmarks.boxed_models import boxes_parser, measured_models
from benchmarks.boxed_tables import table
from service.cli.evaluation.boxed_pictures import ANSWER_MEASURES


def main() -> None:
    """Print the table."""
    parser = boxes_parser(__doc__)
    parser.add_argument("--least", type=int, default=3, help="pictures that must show a class")
    args = parser.parse_args()
    rows = [
        [
            f"`{model}`",
            template,
            search.replace("_", " "),
            *(f"{measures[name]:.2f}" for name in ANSWER_MEASURES),
            str(len(measures["without_hit"])),
        ]
        for model, report in measured_models(args, "short_questions", least=args.least)
        for template, searches in report["templates"].items()
        for search, measures in searches.items()
    ]
    print(table("model", "question", "search", *ANSWER_MEASURES.values(), "classes without a hit", rows=rows))


if __name__ == "__main__":
    main()
