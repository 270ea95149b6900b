"""A small collection of coloured pictures, as a worker stores it, for tests of searches and web processes."""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import PIL.Image

from index.catalog.catalog import Catalog
from index.records import DetectedPicture, NewPicture, TagValue
from index.views.view_writer import ViewWriter
from models.matching.lazy_matcher import LazyMatcher
from models.text.reader import readable
from service.media.decode_pool import DecodeFailed, DecodePool
from service.search.engine import SearchEngine
from service.search.local_gallery import LocalGalleries
from service.search.model_views import ModelView, ModelViews
from service.search.requests import ImageSearchRequest, TextSearchRequest
from service.search.results import ImageSearchResult, TextSearchResult
from service.storage.data_dir import DataDir
from service.storage.originals import Originals
from service.storage.regions.records import PictureFeatures, RecordLayout, pack
from service.storage.regions.stores import RegionStores
from tests.support.fakes import COLOURS, FakeExtractor, FakeMatcher

NOW = 1_700_000_000.0


def two_coloured(left: str, right: str, width: int = 40, height: int = 20) -> PIL.Image.Image:
    """A picture with a left and a right half."""
    picture = PIL.Image.new("RGB", (width, height), tuple(255 * part for part in COLOURS[left]))
    half = PIL.Image.new("RGB", (width // 2, height), tuple(255 * part for part in COLOURS[right]))
    picture.paste(half, (width - width // 2, 0))
    return picture


def image_id_of(name: str) -> str:
    """An id such as the service makes of a picture's bytes."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


NAMES = [f"{left} and {right}" for left, right in itertools.product(COLOURS, repeat=2)]


class Library:
    """Catalog, region slab and one view in `folder`, with a SearchEngine over them."""

    def __init__(
        self, folder: Path, others: Sequence[FakeMatcher] = (), extractor: FakeExtractor | None = None
    ) -> None:
        """`others` are models that are known but have no view; `extractor` finds regions where one is given."""
        self.folder = folder
        self.extractor, self.matcher = extractor or FakeExtractor(), FakeMatcher()
        data = DataDir(folder)
        self.catalog = Catalog(data.catalog)
        self._slab = RecordLayout.of(self.extractor).open(data.regions, write=True)
        view = data.view(self.matcher.digest)
        self.writer = ViewWriter(
            view,
            layout=self.matcher.image_layout(self.extractor.num_regions, self.extractor.feature_dim),
            embed_dim=self.matcher.embed_dim,
            word_dim=self.matcher.word_dim,
            digest=self.matcher.digest,
            extractor=self.extractor.digest,
        )
        views = [ModelView(self.matcher.name, LazyMatcher.of(self.matcher), view, maintained=True)]
        views += [ModelView(one.name, LazyMatcher.of(one), data.view(one.digest), maintained=False) for one in others]
        self.regions = RegionStores(data, self.catalog, self.extractor)
        self.models = ModelViews(views, self.catalog, self.regions)
        self.models.refresh()
        galleries = LocalGalleries(self.catalog, self.regions, self.models, self.extractor)
        self.search = SearchEngine(galleries, self.models, self.extractor)

    def add(
        self,
        name: str,
        picture: PIL.Image.Image,
        captions: Sequence[str] = (),
        tags: Mapping[str, TagValue] | None = None,
        taken_at: float | None = None,
        added_at: float = NOW,
        view: bool = True,
        filename: str | None = None,
    ) -> str:
        """Store a picture with its regions; without `view` the view lags behind. Its id."""
        image_id = image_id_of(name)
        new = NewPicture(
            image_id=image_id,
            filename=filename or f"{name}.png",
            extension="png",
            num_bytes=1,
            captions=captions,
            tags=tags or {},
            taken_at=taken_at,
        )
        self.catalog.take_in([new], added_at)
        self.commit(image_id, picture)
        if view:
            self.catch_up()
        return image_id

    def commit(self, image_id: str, picture: PIL.Image.Image, size: tuple[int, int] | None = None, **said: Any) -> None:
        """Give a queued picture its regions; `size` is its full size, where `picture` is reduced, and `said` what its
        file says of itself."""
        slot = self.catalog.num_slots()
        width, height = size or picture.size
        scale = width / picture.width, height / picture.height
        self._slab.append(slot, pack(self.extractor.extract([picture]), [scale]))
        ready = DetectedPicture(
            image_id=image_id,
            slot=slot,
            width=width,
            height=height,
            extractor=self.extractor.digest,
            **said,
        )
        self.catalog.commit([ready])

    def work(self, originals: Originals, pool: DecodePool) -> None:
        """Process everything that is queued, as a worker does."""
        for queued in self.catalog.queue.waiting(100):
            path = originals.path(queued.image_id, queued.extension)
            try:
                stripped = originals.stripped(queued.image_id, queued.extension)
                decoded = pool.decode(path, originals.thumbnail(queued.image_id), stripped)
            except DecodeFailed as failed:
                self.catalog.queue.set_aside(queued.image_id, failed.reason, NOW)
            else:
                said = {"captions": [decoded.caption] if decoded.caption else [], "taken_at": decoded.taken_at}
                tags = {"keywords": "; ".join(decoded.keywords)} if decoded.keywords else {}
                size = decoded.width, decoded.height
                self.commit(queued.image_id, decoded.picture, size, **said, tags=tags)
        self.catch_up()

    def catch_up(self) -> None:
        """Bring the view up to date, and then the searches."""
        self.extend_view()
        self.models.refresh()

    def extend_view(self) -> None:
        """Bring the view up to date with the catalog."""
        regions = self.regions.of(self.extractor.digest)
        assert regions is not None
        for slot in range(self.writer.counts().images, self.catalog.num_slots()):
            images, embeddings = self.matcher.encode_regions(regions.features(slot).as_batch())
            arrays = {name: tensor.numpy() for name, tensor in images.tensors().items()}
            self.writer.add_images(slot, arrays, embeddings.numpy())
        for slot in range(self.writer.counts().captions, self.catalog.num_caption_slots()):
            (caption,) = self.catalog.captions_at([slot])
            words, embeddings = self.matcher.encode_sentences([readable(self.matcher.words, caption.text)])
            self.writer.add_captions(slot, [words.vectors[0].numpy()], embeddings.numpy())

    def text(self, query: str, **fields: Any) -> TextSearchResult:
        """Pictures for a sentence; `fields` are those of a request, see there."""
        return self.search.text(self.search.begin(self.request(query, **fields)))

    def request(self, query: str, **fields: Any) -> TextSearchRequest:
        """The request of such a search, of the pictures alone unless `match` says otherwise."""
        return TextSearchRequest(query=query, **{"match": "pictures", **fields})

    def image(self, picture: PictureFeatures, image_id: str | None = None, **fields: Any) -> ImageSearchResult[Any]:
        """Captions for a picture, or pictures like it; `fields` are those of a request."""
        return self.search.image(self.search.begin(ImageSearchRequest(**fields)), picture, image_id)

    def features(self, image_id: str) -> PictureFeatures:
        """The regions of a stored picture."""
        return self.search.stored(image_id, self.extractor.digest)

    @property
    def version(self) -> str:
        """The index version that an answer would have now."""
        return self.search.begin(TextSearchRequest(query="red")).index_version

    def close(self) -> None:
        """Close every file."""
        for part in (self.models, self.regions, self.writer, self._slab, self.catalog):
            part.close()


def sixty_four(folder: Path) -> Library:
    """A library of all pairs of colours; every picture has two captions, every third has no date."""
    library = Library(folder)
    for number, name in enumerate(NAMES):
        left, right = name.split(" and ")
        library.add(
            name,
            two_coloured(left, right),
            captions=[name, f"a picture of {left}"],
            tags={"number": number, "left": left},
            taken_at=NOW - 1000 * number if number % 3 else None,
            added_at=NOW + number,
        )
    return library
