"""The folders of region records, one for each extractor: creating, describing, inspecting and removing them.

A data directory with a single extractor has only the folder `regions`; a later detector's records lie in
`regions/<digest>`.
"""

import json
import logging
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from index.files import make_folder, remove_strays, replace_file, sync_folder
from index.records import RegionStoreEntry
from index.views.slab import HEADER, RECORDS, LayoutMismatch, Slab, stored_layout
from index.views.view_manifest import NAME as VIEW_MANIFEST
from models.extractors.base import PICTURE, Extractor
from models.extractors.coco_classes import COCO_CLASSES
from models.extractors.config import CONFIG_FILE, BadExtractor
from models.extractors.precomputed import PrecomputedConfig, PrecomputedExtractor, load_precomputed
from service.errors import Misconfigured
from service.storage.data_dir import DataDir
from service.storage.regions.entries import ANSWERING, FIRST_FOLDER, region_store_entries
from service.storage.regions.extractor_identity import stored_extractor
from service.storage.regions.records import RecordLayout

# Labels of the detector of release 0.1, which did not store them beside its records.
EARLIER_LABELS = {"85cfbf82856bafcd14024bcdc30c3cf4": (*COCO_CLASSES, PICTURE)}

log = logging.getLogger(__name__)


def open_slab(folder: Path, extractor: Extractor, is_empty: bool) -> Slab:
    """The extractor's slab, opened for writing; one without valid records (`is_empty`) is replaced if its layout
    differs."""
    layout = RecordLayout.of(extractor)
    try:
        return layout.open(folder, write=True)
    except LayoutMismatch:
        if not is_empty:
            raise
        remove_slab(folder)
        return layout.open(folder, write=True)


def describe_store(folder: Path, extractor: Extractor) -> None:
    """Store the extractor's description and labels beside the records, for when it is no longer available."""
    config = PrecomputedConfig(
        digest=extractor.digest,
        num_regions=extractor.num_regions,
        feature_dim=extractor.feature_dim,
        labels=tuple(extractor.labels),
    )
    path = folder / CONFIG_FILE
    if not path.is_file() or path.read_bytes() != config.to_json():
        make_folder(folder)
        replace_file(path, config.to_json())


def described_extractor(folder: Path, digest: str) -> PrecomputedExtractor:
    """The extractor of the store in `folder` as described there: shapes, and labels if known.

    FileNotFoundError where there is no store, Misconfigured where its description is damaged.
    """
    if (folder / CONFIG_FILE).exists():
        return _read_description(
            folder, "if its detector is still in use, remove the file, and a worker writes it anew"
        )
    num_regions, feature_dim = stored_layout(folder)["features"][0]
    labels = EARLIER_LABELS.get(digest, ())
    if not labels:
        log.warning("%s is missing: the found regions have no labels; restore it from a backup", folder / CONFIG_FILE)
    return PrecomputedExtractor(
        PrecomputedConfig(digest=digest, num_regions=num_regions, feature_dim=feature_dim, labels=labels)
    )


def _read_description(folder: Path, alternative: str) -> PrecomputedExtractor:
    """The extractor described by config.json in `folder`; Misconfigured, with advice, where that is damaged."""
    try:
        return load_precomputed(folder)
    except BadExtractor as fault:
        raise Misconfigured(
            f"the description of the stored regions is damaged ({fault}): restore the file from a backup; {alternative}"
        ) from fault


def imported_extractor(data: DataDir) -> PrecomputedExtractor | None:
    """The extractor of features without pictures, as described at their import; None if it was not described.

    Misconfigured where the description is damaged.
    """
    if not (data.extractor / CONFIG_FILE).exists():
        return None
    return _read_description(data.extractor, f"or remove it if there is a copy, {FIRST_FOLDER}/{CONFIG_FILE}")


def features_extractor(data: DataDir, shipped: str) -> PrecomputedExtractor | None:
    """The extractor of a data directory that holds features without pictures.

    None where it holds none, as after an import that stored nothing, or those of the shipped detector, whose digest is
    `shipped`.
    """
    if not data.catalog.is_file():
        return None
    with closing(Catalog(data.catalog)) as catalog:
        if (stored := stored_extractor(catalog)) is None:
            return None
        if (imported := imported_extractor(data)) is not None:
            return None if imported.digest == shipped else imported
        if stored == shipped or not catalog.holds_features_alone():
            return None
        return described_extractor(data.root / region_store_entries(catalog, stored)[0].folder, stored)


def other_extractors(data: DataDir, digest: str) -> tuple[set[str], set[str]]:
    """Digests of the other extractors of a data directory: those whose records remain, and those given up."""
    if not data.catalog.is_file():
        return set(), set()
    with closing(Catalog(data.catalog)) as catalog:
        other_entries = region_store_entries(catalog, digest)[1:]
    answering = {entry.extractor for entry in other_entries if entry.state in ANSWERING}
    return answering, {entry.extractor for entry in other_entries} - answering


def remove_slab(folder: Path) -> bool:
    """Remove the slab and its description from the folder, but not the folders below it. False where there is no
    slab."""
    files = [folder / name for name in (RECORDS, HEADER, CONFIG_FILE) if (folder / name).exists()]
    for file in files:
        file.unlink()
    if files:
        sync_folder(folder)
    return bool(files)


def remove_given_up(data: DataDir, entries: Sequence[RegionStoreEntry]) -> None:
    """Remove the records of given-up stores, and the views made from them. Repeating it does no harm."""
    given_up = {entry.extractor for entry in entries if entry.state == "removed"}
    for entry in entries:
        folder = data.root / entry.folder
        if entry.state == "removed" and remove_slab(folder):
            log.info("the regions that the extractor %s found were removed", entry.extractor)
        if entry.state == "removed" and entry.folder != FIRST_FOLDER and folder.is_dir():
            _remove_emptied(folder)
    for view in data.views.iterdir() if given_up and data.views.is_dir() else ():
        if _extractor_of_view(view) in given_up:
            # The manifest goes last: without it, no later run would recognize the view.
            for part in view.iterdir():
                if part.is_dir():
                    shutil.rmtree(part)
            shutil.rmtree(view)


def _remove_emptied(folder: Path) -> None:
    """Remove a folder whose slab is gone, unless somebody put other files there."""
    remove_strays(folder)
    try:
        folder.rmdir()
    except OSError as fault:
        log.warning("%s is not needed any more and stays: %s", folder, fault.strerror)


def _extractor_of_view(folder: Path) -> str | None:
    try:
        content = json.loads((folder / VIEW_MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    return content.get("extractor") if isinstance(content, dict) else None
