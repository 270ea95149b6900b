"""Reports of measured recall, calibration and boxes, put into their places in docs/quality.json."""

from benchmarks.figures_file import Report, rounded, rounded_to

DEFAULT = "bfan-equal"
SECOND_HALF = "second"  # of the pictures, on which no recipe was chosen
CALIBRATION = (
    "calibration_error",
    "first_answer",
    "matched",
)  # parts of a model's figures that `regard calibrate` gives
DIRECTION_OF = {"text": "text_to_image", "image": "image_to_text"}  # names in a report of `regard calibrate`


def collect(quality: Report, report: Report) -> None:
    """Put one report into its place, with as many digits as are shown. Raises ValueError if it has no place."""
    if "direction" in report:
        quality.setdefault("over_http", {}).setdefault("reports", {})[report["direction"]] = rounded(report)
        return
    name = report["model"]
    for kind in ("grounding", "short_questions"):
        if kind in report:
            boxes = quality.setdefault("boxes", {})
            boxes["model"], boxes["digest"], boxes[kind] = name, report["digest"], report[kind]
            return
    if "held_out" in report:
        _collect_calibration(quality["models"]["reports"].setdefault(name, {}), report)
    elif "image_to_text" not in report["exhaustive"]:
        quality.setdefault("large_gallery", {})["report"] = rounded(report)
    else:
        _collect_recall(quality, report)


def _collect_calibration(figures: Report, report: Report) -> None:
    """Put a report of `regard calibrate` among the figures of its model."""
    errors: Report = {}
    first: Report = {}
    for way, galleries in report["held_out"].items():
        for size, result in galleries.items():
            errors.setdefault(size, {})[DIRECTION_OF[way]] = round(result["error"], 3)
            if "first" in result:
                figures_of_first = {name: round(result["first"][name], 3) for name in ("error", "brier_skill")}
                first.setdefault(size, {})[DIRECTION_OF[way]] = figures_of_first
    figures["calibration_error"] = errors
    if first:
        figures["first_answer"] = first
    if "matched" in report:
        figures["matched"] = rounded_to(report["matched"], 2)


def _collect_recall(quality: Report, report: Report) -> None:
    """Put recalls of all pictures, of their second half or of the first few into their places."""
    about, whole = report.get("about", {}), quality["about"]["images"]
    part, size = about.get("part"), report["images"]
    subject = f"a report of {size} pictures, {report['model']}"
    if part is None and size == whole:
        _put_model(quality, report)
    elif part is None and about.get("first", size) == size and (about or size != whole // 2):
        if report["model"] != DEFAULT:
            raise ValueError(f"{subject}: the first pictures alone are kept of {DEFAULT} only")
        quality["first_pictures"]["report"] = rounded(report)
    elif part == SECOND_HALF and size == whole - whole // 2:
        if _is_of_all(quality["models"]["reports"].get(report["model"], {}), report["digest"]):
            raise ValueError(f"{subject}: these weights were measured on all pictures, which include this half")
        _put_model(quality, report, part=part)
    elif not about:
        raise ValueError(f"{subject}, does not say which half they are: measure again, with --part second")
    else:
        raise ValueError(
            f"{subject}, part {part}: kept are those of all {whole}, of --part second, and of --first without --part"
        )


def _is_of_all(figures: Report, digest: str) -> bool:
    """Whether a model's figures are those of these weights on all pictures."""
    return figures.get("digest") == digest and "part" not in figures


def _put_model(quality: Report, report: Report, **more: str) -> None:
    """Put recalls among a model's figures, and keep its calibration."""
    models, name = quality["models"]["reports"], report["model"]
    kept = {key: value for key, value in models.get(name, {}).items() if key in CALIBRATION}
    models[name] = {**rounded(report), **more, **kept}


def collect_seed(quality: Report, seed: int, report: Report) -> None:
    """Put a report of another training of the default model with its seed. Raises ValueError for another model."""
    if report["model"] != DEFAULT:
        raise ValueError(f"trainings from other seeds are kept of {DEFAULT} only, and this is {report['model']}")
    figures = quality["seeds"]["reports"].setdefault(str(seed), {})
    figures["digest"] = report["digest"]
    if "short_questions" in report:
        figures["short_questions"] = {"templates": {"a X": report["short_questions"]["templates"]["a X"]}}
    else:
        figures |= {part: rounded(report[part]) for part in ("exhaustive", "stage_one", "difference")}
