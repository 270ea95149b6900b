"""The parts of the OpenAPI document that signatures cannot say: multipart forms and whole examples."""

from typing import Any

from service.asked import ImageAsked

EXAMPLE_ID = "9f86d081884c7d659a2feaa0c55ad015"
BINARY = {"type": "string", "format": "binary"}


def _form(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def _image_fields() -> dict[str, Any]:
    fields: dict[str, Any] = ImageAsked.model_json_schema()["properties"]
    words = "The filter of POST /search/text, as JSON text."
    return {
        "image": {**BINARY, "description": "The picture to ask with: JPEG, PNG, WebP, BMP, TIFF or GIF."},
        **fields,
        "filter": {"type": "string", "description": words, "examples": ['{"tags": {"year": {"gte": 2020}}}']},
    }


IMAGE_FORM = _form(_image_fields(), [])
INGEST_FORM = _form(
    {
        "images": {
            "type": "array",
            "items": BINARY,
            "minItems": 1,
            "description": "Pictures: JPEG, PNG, WebP, BMP, TIFF, or GIF, of which the first frame counts.",
        },
        "manifest": {
            "type": "string",
            "description": 'JSON: {"<filename>": {"captions": [..], "tags": {..}, "taken_at": "RFC 3339"}}',
            "examples": [
                '{"dog.jpg": {"captions": ["a dog on a beach"], "tags": {"year": 2024},'
                ' "taken_at": "2024-07-01T12:00:00Z"}}'
            ],
        },
    },
    ["images"],
)

_PICTURE_HIT = {
    "rank": 1,
    "image_id": EXAMPLE_ID,
    "score": 0.271,
    "probability": None,
    "shortlist_rank": 3,
    "url": f"/images/{EXAMPLE_ID}",
    "thumbnail_url": f"/images/{EXAMPLE_ID}/thumbnail",
    "width": 1600,
    "height": 1200,
    "filename": "dog.jpg",
    "taken_at": "2024-07-01T12:00:00Z",
    "captions": ["a dog on a beach"],
    "tags": {"year": 2024},
}
_COMMON = {
    "model": "scan-t2i-avg",
    "model_digest": "4b1f0c6f0f6a1d52",
    "k": 1,
    "shortlist": 100,
    "index_version": "17-8-2",
    "cached": False,
}
_TIMES = {"encode": 2.1, "shortlist": 0.4, "rerank": 6.3, "total": 9.6}


def answers(example: dict[str, Any], status: int = 200) -> dict[int | str, dict[str, Any]]:
    """A route's good answer as an example."""
    return {status: {"content": {"application/json": {"example": example}}}}


TEXT_ANSWERS = answers(
    {
        **_COMMON,
        "query": "a dog runs on the beach",
        "unknown_words": [],
        "results": [
            {
                **_PICTURE_HIT,
                "explanation": {
                    "kind": "words attend regions",
                    "words": [
                        {"text": "<start>", "special": True},
                        {"text": "dog", "special": False},
                        {"text": "<end>", "special": True},
                    ],
                    "contributions": [0.061, 0.148, 0.062],
                    "regions": [
                        {"box": [0, 0, 1600, 1200], "label": "picture", "confidence": 1.0},
                        {"box": [410.5, 320, 900, 1100.5], "label": "dog", "confidence": 0.93},
                    ],
                    "attention": [[0.5, 0.5], [0.1, 0.9], [0.6, 0.4]],
                    "word_weights": None,
                    "region_weights": None,
                },
            }
        ],
        "timings_ms": _TIMES,
    }
)
IMAGE_ANSWERS = answers(
    {
        **_COMMON,
        "target": "captions",
        "results": [
            {
                "rank": 1,
                "caption_id": 12,
                "text": "a dog on a beach",
                "image_id": EXAMPLE_ID,
                "score": 0.312,
                "probability": None,
                "shortlist_rank": 1,
            }
        ],
        "timings_ms": {"detect": 310.0, **_TIMES},
    }
)
INGEST_ANSWERS = answers(
    {
        "job_id": "0c6f0f6a1d524b1f8c1a5d3a3f1d9e77",
        "status_url": "/jobs/0c6f0f6a1d524b1f8c1a5d3a3f1d9e77",
        "accepted": [{"image_id": EXAMPLE_ID, "filename": "dog.jpg", "duplicate": False}],
        "rejected": [{"filename": "notes.txt", "problem": "This is not a picture in a format that Regard reads."}],
    },
    status=202,
)
