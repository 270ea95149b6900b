"""`regard detect`."""

from service.cli.feature_extraction import load_detector
from service.cli.find_regions import decode_picture, find_regions
from service.cli.options import AsJson, DetectorFolder, Device, PictureFile
from service.cli.terminal.output import print_json, print_table, show_progress
from service.model_names import check_detector


def detect(
    picture: PictureFile, detector: DetectorFolder = None, device: Device = "auto", as_json: AsJson = False
) -> None:
    """Find the regions of a picture."""
    check_detector(detector)
    decoded = decode_picture(picture)
    with show_progress() as progress, progress.activity("finding regions"):
        extractor = load_detector(detector, device)
        found = find_regions(extractor, decoded).regions
    regions = [{"box": region.box, "label": region.label, "confidence": region.confidence} for region in found]
    if as_json:
        print_json(
            {"width": decoded.width, "height": decoded.height, "extractor": extractor.digest, "regions": regions}
        )
        return
    rows = [
        [region.label, f"{region.confidence or 0:.2f}", ", ".join(f"{edge:.0f}" for edge in region.box or ())]
        for region in found
    ]
    print_table("label", "confidence", "box", rows=rows)
