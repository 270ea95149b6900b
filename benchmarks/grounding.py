"""A Markdown table of where several models' explanations point (`regard evaluate --grounding` for one model).

python -m benchmarks.grounding bfan-equal scan-i2t-avg --boxes coco/boxes.json --images coco --captions \
    coco/captions.jsonl

For every picture and class that is marked in it, the model gives a region for the class's word. The figures are the
percentage of these regions that overlap an object of the class (IoU 0.3), and of those whose centre lies inside one,
with the half width of the interval over pictures. "random" is the expectation of a random region.
"""

from benchmarks.boxed_models import boxes_parser, measured_models
from benchmarks.boxed_tables import table


def main() -> None:
    """Print the table."""
    rows = []
    covered = ""
    for model, report in measured_models(boxes_parser(__doc__).parse_args(), "grounding"):
        for kind, pointers in report["pointing"].items():
            for way in (name for name in pointers if name != "questions"):
                shown = " (shown)" if way == report["shown_by"] else ""
                intervals = pointers[way]["interval"]
                cells = [
                    f"{pointers[way][by]:.1f} ± {(intervals[by][1] - intervals[by][0]) / 2:.1f}"
                    for by in ("overlap", "centre")
                ]
                rows.append([f"`{model}`", f"{kind} ({pointers['questions']})", f"{way}{shown}", *cells])
        covered = " and ".join(f"{each['percent']:.1f} % of {objects}" for objects, each in report["coverage"].items())
    print(table("model", "question (how many)", "region by", "IoU 0.3", "centre inside", rows=rows))
    print(f"\nAny region covers (IoU 0.3) {covered}.")


if __name__ == "__main__":
    main()
