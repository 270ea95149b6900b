"""The request of every route, from the client's arguments."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard_client.answers import (
    CaptionsAnswer,
    DatesAnswer,
    FailuresAnswer,
    ImageInfo,
    ImageListed,
    ImagesAnswer,
    IngestAnswer,
    JobAnswer,
    JobsAnswer,
    LiveAnswer,
    ModelListed,
    ModelsAnswer,
    PictureEdit,
    PictureFilter,
    ReadyAnswer,
    RegionsAnswer,
    RetryAnswer,
    SimilarAnswer,
    TagsAnswer,
    TextAnswer,
)
from regard_client.call import Call, FilePart, content_of, json_as, nothing, part_of_path
from regard_client.errors import Misconfigured
from regard_client.options import SearchOptions, SimilarSearchOptions, Sort, TextSearchOptions
from regard_client.pictures import Content, Picture, as_picture, manifest_of


def search_text(query: str, options: TextSearchOptions) -> Call[TextAnswer]:
    """Pictures for a sentence."""
    body = {"query": query, **_without_none(options)}
    return Call(method="POST", path="/search/text", body=body, read=json_as(TextAnswer))


def search_captions(content: Content | None, image_id: str | None, options: SearchOptions) -> Call[CaptionsAnswer]:
    """Captions for a picture, which is a file or a stored one."""
    form, files = _picture_form("captions", content, image_id, options)
    return Call(method="POST", path="/search/image", form=form, files=files, read=json_as(CaptionsAnswer))


def search_similar(content: Content | None, image_id: str | None, options: SimilarSearchOptions) -> Call[SimilarAnswer]:
    """Pictures like a picture, which is a file or a stored one."""
    form, files = _picture_form("images", content, image_id, options)
    return Call(method="POST", path="/search/image", form=form, files=files, read=json_as(SimilarAnswer))


def _picture_form(
    target: str, content: Content | None, image_id: str | None, options: SearchOptions | SimilarSearchOptions
) -> tuple[dict[str, str], list[FilePart]]:
    if (content is None) == (image_id is None):
        raise Misconfigured("ask with a picture or with the image_id of a stored one: one of them, not both")
    fields = {**_without_none(options), "target": target, **_without_none({"image_id": image_id})}
    form = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
    if content is None:
        return form, []
    name = "picture" if isinstance(content, bytes) else Path(content).name
    return form, [FilePart("image", name, content)]


def ingest(pictures: Iterable[Picture | str | Path], restore: bool) -> Call[IngestAnswer]:
    """An upload of pictures in one request."""
    sent = [as_picture(each) for each in pictures]
    if not sent:
        raise Misconfigured("there is no picture to send")
    return Call(
        method="POST",
        path="/ingest",
        form=_without_none({"manifest": manifest_of(sent), "restore": None if restore else "false"}),
        files=[FilePart("images", each.name, each.content) for each in sent],
        read=json_as(IngestAnswer),
    )


def job(job_id: str) -> Call[JobAnswer]:
    """The progress of an ingestion."""
    return Call(method="GET", path=f"/jobs/{part_of_path(job_id)}", read=json_as(JobAnswer))


def jobs(limit: int | None, after: str | None) -> Call[JobsAnswer]:
    """A page of the ingestions."""
    query = _without_none({"after": after, "limit": limit})
    return Call(method="GET", path="/jobs", query=query, read=json_as(JobsAnswer))


def failures(after: str | None, limit: int | None) -> Call[FailuresAnswer]:
    """A page of the pictures that failed."""
    query = _without_none({"after": after, "limit": limit})
    return Call(method="GET", path="/failures", query=query, read=json_as(FailuresAnswer))


def retry(image_id: str) -> Call[RetryAnswer]:
    """Another try of a failed picture."""
    path = f"/failures/{part_of_path(image_id)}/retry"
    return Call(method="POST", path=path, read=json_as(RetryAnswer), twice=False)


def images(
    after: str | None, limit: int, sort: Sort | None, filter: PictureFilter | None, deleted: bool
) -> Call[ImagesAnswer]:
    """A page of stored or of deleted pictures."""
    condition = None if filter is None else json.dumps(filter)
    query = _without_none(
        {"after": after, "limit": limit, "sort": sort, "filter": condition, "deleted": deleted or None}
    )
    return Call(method="GET", path="/images", query=query, read=json_as(ImagesAnswer))


def dates() -> Call[DatesAnswer]:
    """The months in which pictures were taken."""
    return Call(method="GET", path="/dates", read=json_as(DatesAnswer))


def tags(search: str | None, after: str | None, limit: int, values: int | None) -> Call[TagsAnswer]:
    """A page of the tags in use."""
    query = _without_none({"search": search, "after": after, "limit": limit, "values": values})
    return Call(method="GET", path="/tags", query=query, read=json_as(TagsAnswer))


def info(image_id: str) -> Call[ImageInfo]:
    """Everything known of a picture."""
    return Call(method="GET", path=_picture(image_id, "/info"), read=json_as(ImageInfo))


def regions(image_id: str) -> Call[RegionsAnswer]:
    """The regions found in a picture."""
    return Call(method="GET", path=_picture(image_id, "/regions"), read=json_as(RegionsAnswer))


def picture(image_id: str) -> Call[bytes]:
    """A picture as a file."""
    return Call(method="GET", path=_picture(image_id), read=content_of)


def original(image_id: str) -> Call[bytes]:
    """A picture's file as it was uploaded."""
    return Call(method="GET", path=_picture(image_id, "/original"), read=content_of)


def archive(image_ids: Iterable[str], path: str | Path) -> Call[None]:
    """Originals in one ZIP file."""
    body = {"image_ids": list(image_ids)}
    return Call(method="POST", path="/images/archive", body=body, into=Path(path), read=nothing)


def deleted_thumbnail(image_id: str) -> Call[bytes]:
    """A small JPEG of a deleted picture."""
    return Call(method="GET", path=_picture(image_id, "/deleted-thumbnail"), read=content_of)


def thumbnail(image_id: str) -> Call[bytes]:
    """A small JPEG of a picture."""
    return Call(method="GET", path=_picture(image_id, "/thumbnail"), read=content_of)


def explain_png(image_id: str, query: str, model: str | None) -> Call[bytes]:
    """A drawing that explains why a picture answers a sentence."""
    fields = _without_none({"query": query, "model": model})
    return Call(method="GET", path=_picture(image_id, "/explain.png"), query=fields, read=content_of)


def edit(image_id: str, changes: PictureEdit) -> Call[ImageListed]:
    """A change of captions, tags, date or name."""
    return Call(method="PATCH", path=_picture(image_id), body=changes, read=json_as(ImageListed))


def delete(image_id: str) -> Call[None]:
    """The deletion of a picture."""
    return Call(method="DELETE", path=_picture(image_id), read=nothing, twice=False)


def restore(image_id: str) -> Call[ImageListed]:
    """The undoing of a deletion."""
    return Call(method="POST", path=_picture(image_id, "/restore"), read=json_as(ImageListed))


def models() -> Call[ModelsAnswer]:
    """The models of the server; older servers omit `collection`."""
    return Call(method="GET", path="/models", read=json_as(ModelsAnswer, besides="collection"))


def build(name: str) -> Call[ModelListed]:
    """The building of the view of a model that settings leave out."""
    return Call(method="POST", path=f"/models/{part_of_path(name)}/build", read=json_as(ModelListed))


def live() -> Call[LiveAnswer]:
    """Whether the process answers."""
    return Call(method="GET", path="/livez", read=json_as(LiveAnswer), again=False)


def ready() -> Call[ReadyAnswer]:
    """Whether the server can search and ingest; sent once, since "not yet" is an answer."""
    return Call(method="GET", path="/readyz", read=json_as(ReadyAnswer), again=False)


def _picture(image_id: str, rest: str = "") -> str:
    return f"/images/{part_of_path(image_id)}{rest}"


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not None; the server chooses the others."""
    return {name: value for name, value in options.items() if value is not None}
