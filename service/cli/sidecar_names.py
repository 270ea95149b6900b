"""The names of sidecars, files that describe the pictures beside them.

Photo managers write `a.xmp` or `a.jpg.xmp` for `a.jpg`, Google Takeout `a.jpg.json` or
`a.jpg.supplemental-metadata.json`, perhaps cut. For a copy, `a(1).jpg`, the number comes last: `a.jpg(1).json`.
`a-edited.jpg` shares the file of its original.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from index.catalog.text_index import composed

SUPPLEMENT = ".supplemental-metadata"
CUT_AT = 46  # characters, to which Takeout cuts what comes before `.json`
NUMBERED = re.compile(r"(.+)(\(\d+\))", re.DOTALL)
EDITED = ("-edited", "-bearbeitet", "-modifié", "-modificato", "-editado", "-bewerkt", "-edytowane")  # by language


def sidecars_by_picture(pictures: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    """Picture -> its sidecars, best first, by the names of files in one folder. A cut name that may mean several
    originals means none."""
    there = dict[str, str]()
    for name in names:
        base, _, extension = composed(name).rpartition(".")
        if extension.lower() in ("xmp", "json"):
            there[f"{base}.{extension.lower()}"] = name
    found, meant = dict[str, list[str]](), defaultdict[str, set[str]](set)
    for picture in pictures if there else ():
        own = composed(picture)
        found[picture] = [f"{own}.xmp", f"{PurePosixPath(own).stem}.xmp"]
        for name, original in _takeout_names(own):
            if name in there:
                found[picture].append(name)
                meant[name].add(original)
                break
    kept = {one: [there[name] for name in found[one] if name in there and len(meant[name]) < 2] for one in found}
    return {picture: sidecars for picture, sidecars in kept.items() if sidecars}


def _takeout_names(picture: str) -> Iterator[tuple[str, str]]:
    """The names that a sidecar of Takeout may have, best first, each with the original that it means."""
    originals = list(_originals(picture))
    for name, number in originals:
        full = name + SUPPLEMENT
        ends = (len(name), *range(len(full), len(name), -1))
        yield from ((f"{full[:end]}{number}.json", name) for end in ends)
    for name, number in reversed(originals):
        ends = (CUT_AT, CUT_AT - len(number))
        yield from ((f"{name[:end]}{number}.json", name) for end in ends if end < len(name))


def _originals(picture: str) -> Iterator[tuple[str, str]]:
    """The picture and, if it is a copy or edited, its original; each with the number of the copy or ""."""
    yield picture, ""
    path = PurePosixPath(picture)
    numbered = NUMBERED.fullmatch(path.stem)
    stem, number = numbered.groups() if numbered else (path.stem, "")
    if number:
        yield stem + path.suffix, number
    for ending in EDITED:
        if stem.endswith(ending) and stem != ending:
            yield from _originals(stem.removesuffix(ending) + number + path.suffix)
