"""The permission that each route needs. A route that is not listed needs `admin`, and fails a test until it is.

Routes that reveal next to nothing about the pictures are open: the page and the description of the routes, which are
public in the source; the health checks, which orchestrators call without a key; and signing in and out. Metrics reveal
the number of pictures and the use of the service, so they need a key, which Prometheus can send. An original may reveal
where it was taken, so it needs `write`, as do deleted pictures and their descriptions.
"""

from service.auth.permissions import Permission

READ, WRITE, ADMIN = Permission
OPEN = None
LISTS_DELETED = WRITE  # needed in addition by GET /images for deleted pictures

NEEDED: dict[tuple[str, str], Permission | None] = {
    ("GET", "/"): OPEN,
    ("GET", "/page/{name}"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/docs/style.css"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/livez"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/metrics"): READ,
    ("GET", "/session"): OPEN,
    ("POST", "/session"): OPEN,
    ("DELETE", "/session"): OPEN,
    ("POST", "/search/text"): READ,
    ("POST", "/search/image"): READ,
    ("GET", "/images"): READ,
    ("GET", "/images/{image_id}"): READ,
    ("GET", "/images/{image_id}/original"): WRITE,
    ("POST", "/images/archive"): WRITE,
    ("POST", "/images/archive/ticket"): WRITE,
    ("GET", "/images/{image_id}/thumbnail"): READ,
    ("GET", "/images/{image_id}/deleted-thumbnail"): WRITE,
    ("GET", "/images/{image_id}/regions"): READ,
    ("GET", "/images/{image_id}/info"): READ,
    ("GET", "/images/{image_id}/explain.png"): READ,
    ("GET", "/tags"): READ,
    ("GET", "/dates"): READ,
    ("GET", "/models"): READ,
    ("GET", "/jobs"): READ,
    ("GET", "/jobs/{job_id}"): READ,
    ("GET", "/jobs/{job_id}/events"): READ,
    ("GET", "/failures"): READ,
    ("POST", "/failures/{image_id}/retry"): WRITE,
    ("POST", "/ingest"): WRITE,
    ("DELETE", "/images/{image_id}"): WRITE,
    ("POST", "/images/{image_id}/restore"): WRITE,
    ("PATCH", "/images/{image_id}"): WRITE,
    ("POST", "/models/{name}/build"): ADMIN,
}


def needed_permission(method: str, path: str) -> Permission | None:
    """The permission that a route needs, by its method and declared path; OPEN for none.

    HEAD counts as GET. A mounted application is listed under GET and its mount path.
    """
    return NEEDED.get(("GET" if method == "HEAD" else method, path), ADMIN)
