"""Arguments that name captioned pictures and a shipped model, for programs that compare rankings by captions."""

import argparse
from pathlib import Path

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import read_captions
from models.datasets.feature_store import open_features
from models.matching.checkpoint import load_matcher
from models.matching.single_matcher import SingleMatcher

WEIGHTS = Path(__file__).parents[1] / "models" / "weights"


def captions_parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments of these programs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True, help="folder that `regard extract` wrote")
    parser.add_argument("--captions", type=Path, required=True, help="their captions as JSON lines")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--model", default="bfan-equal", help="a shipped model")
    return parser


def given_pictures(args: argparse.Namespace) -> CaptionedFeatures:
    """The pictures that the arguments name."""
    return CaptionedFeatures.join(open_features(args.features), read_captions(args.captions, args.split))


def given_matcher(args: argparse.Namespace) -> SingleMatcher:
    """The model that the arguments name."""
    return load_matcher(WEIGHTS / args.model)
