"""An example of every answer, for the OpenAPI document, by operationId."""

from typing import Any

IMAGE = "9f86d081884c7d659a2feaa0c55ad015"
OTHER_IMAGE = "2c26b46b68ffc68ff99b453c1d304134"
JOB = "0c6f0f6a1d524b1f8c1a5d3a3f1d9e77"

_LINKS = {"image_id": IMAGE, "url": f"/images/{IMAGE}", "thumbnail_url": f"/images/{IMAGE}/thumbnail"}
_OTHER = {"image_id": OTHER_IMAGE, "thumbnail_url": f"/images/{OTHER_IMAGE}/thumbnail"}
_METADATA = {
    "filename": "dog.jpg",
    "width": 1600,
    "height": 1200,
    "taken_at": "2024-07-01T12:00:00Z",
    "captions": ["a dog on a beach"],
    "tags": {"year": 2024},
}
_REGIONS = [
    {"box": [0, 0, 1600, 1200], "label": "picture", "confidence": 1.0},
    {"box": [410.5, 320, 900, 1100.5], "label": "dog", "confidence": 0.93},
]
_EXPLANATION = {
    "kind": "words attend regions",
    "words": [
        {"text": "<start>", "special": True, "content": False},
        {"text": "dog", "special": False, "content": True},
        {"text": "<end>", "special": True, "content": False},
    ],
    "contributions": [0.061, 0.148, 0.062],
    "regions": _REGIONS,
    "attention": [[0.5, 0.5], [0.1, 0.9], [0.6, 0.4]],
    "shares": [[0.03, 0.031], [0.012, 0.136], [0.038, 0.024]],
    "word_weights": None,
    "region_weights": None,
}
_SEARCH = {
    "model": "bfan-equal",
    "model_digest": "4b1f0c6f0f6a1d52",
    "k": 1,
    "shortlist": 100,
    "index_version": "17-8-2-5f3a9c01d2e4b687",
    "cached": False,
    "left_out": 0,
    "matched": True,
}
_TIMES = {"encode": 2.1, "shortlist": 0.4, "rerank": 6.3, "total": 9.6}
_JOB = {
    "job_id": JOB,
    "created_at": "2024-07-02T08:00:00Z",
    "state": "running",
    "total": 3,
    "done": 1,
    "failed": 1,
}
_FAILURE = {"image_id": IMAGE, "filename": "cut.jpg", "reason": "The file ends in the middle.", "attempts": 1}
_MODEL = {
    "name": "bfan-equal",
    "digest": "4b1f0c6f0f6a1d52",
    "default": True,
    "loaded": True,
    "calibrated": True,
    "state": "ready",
    "pictures": 8,
    "captions": 2,
    "missing_pictures": 0,
    "missing_captions": 0,
}
_CAPTION_HIT = {
    "rank": 1,
    "caption_id": 12,
    "text": "a dog on a beach",
    "image_id": IMAGE,
    "score": 0.312,
    "probability": 0.64,
    "shortlist_rank": 1,
}

_LISTED = {**_LINKS, **_METADATA, "state": "ready", "added_at": "2024-07-02T08:00:00Z"}

EXAMPLES: dict[str, dict[str, Any]] = {
    "search_text": {
        **_SEARCH,
        "query": "dog 2024",
        "match": "both",
        "suggestion": {"query": "dog", "taken_at": {"gte": "2024", "lte": "2024"}},
        "matched_by_pictures": True,
        "unknown_words": [],
        "read_as": {},
        "results": [
            {
                "rank": 1,
                "found_by": ["pictures", "text"],
                "score": 0.271,
                "probability": 0.71,
                "shortlist_rank": 3,
                **_LINKS,
                **_METADATA,
                "near_duplicates": [{**_OTHER, "filename": "dog-2.jpg", "bits": 2}],
                "explanation": _EXPLANATION,
            }
        ],
        "timings_ms": {**_TIMES, "text": 0.2},
    },
    "search_image": {
        **_SEARCH,
        "target": "captions",
        "results": [_CAPTION_HIT],
        "timings_ms": {"detect": 310.0, **_TIMES},
    },
    "ingest": {
        "job_id": JOB,
        "status_url": f"/jobs/{JOB}",
        "accepted": [{"image_id": IMAGE, "filename": "dog.jpg", "duplicate": False, "restored": False}],
        "rejected": [
            {
                "filename": "notes.jpg",
                "problem": "This is text, not a picture, whatever its name says.",
                "retryable": False,
                "deleted": False,
            }
        ],
    },
    "get_job": {**_JOB, "failures": [_FAILURE]},
    "list_jobs": {"jobs": [_JOB], "next": None},
    "get_archive_ticket": {
        "url": "/images/archive?ticket=rgt_...",
        "pictures": 2,
        "num_bytes": 1_624_958,
        "lasts_s": 60,
    },
    "list_failures": {"failures": [_FAILURE], "next": None},
    "list_images": {
        "images": [_LISTED],
        "next": None,
        "total": 1,
        "queued": 0,
    },
    "restore_image": _LISTED,
    "edit_image": _LISTED,
    "get_info": {
        **_LINKS,
        **_METADATA,
        "state": "ready",
        "added_at": "2024-07-02T08:00:00Z",
        "num_bytes": 812_400,
        "kind": "jpg",
        "extractor": "0d4e9569fe4024fef132e753cffae9a3",
        "regions": _REGIONS,
        "failure": None,
    },
    "retry_failure": {"job_id": JOB, "status_url": f"/jobs/{JOB}"},
    "get_regions": {
        "image_id": IMAGE,
        "width": 1600,
        "height": 1200,
        "extractor": "0d4e9569fe4024fef132e753cffae9a3",
        "regions": _REGIONS,
    },
    "list_tags": {
        "tags": [{"name": "year", "pictures": 8, "distinct_values": 1, "values": [{"value": 2024, "pictures": 8}]}],
        "next": None,
    },
    "list_dates": {"months": [{"month": "2024-05", "pictures": 8}], "undated": 2},
    "list_models": {"models": [_MODEL], "collection": "8b1d2c3e4f506172", "migration": None},
    "build_view": {**_MODEL, "state": "building", "pictures": 3, "missing_pictures": 5},
    "get_session": {"required": True, "permission": None, "key_id": None, "name": None},
    "sign_in": {"required": True, "permission": "write", "key_id": "k7f3mq9xw2pa", "name": "phone"},
    "alive": {"status": "alive"},
    "ready": {
        "status": "ready",
        "checks": {"model": "ok", "view": "ok", "regions": "ok", "worker": "ok", "disk": "ok", "catalog": "ok"},
    },
}
