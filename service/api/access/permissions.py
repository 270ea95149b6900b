"""The permission that each route needs. A route that is not listed needs `admin`, and fails a test until it is.

Open to everybody is what tells next to nothing about the pictures: the page and the description of the routes, which
anybody can read in the source; the health checks, which orchestrators ask without a key; and signing in and out.
Metrics tell how many pictures there are and what is asked how often, so they need a key, which Prometheus can send.
An original may tell where it was taken, which is for those who keep the library, not for all who look at it; so is
what a deleted picture showed, and what was said of it.
"""

from service.auth.permissions import Permission

READ, WRITE, ADMIN = Permission
OPEN = None
LISTS_DELETED = WRITE  # what GET /images needs besides, where it is asked for what was deleted

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
    ("GET", "/images/{image_id}/thumbnail"): READ,
    ("GET", "/images/{image_id}/deleted-thumbnail"): WRITE,
    ("GET", "/images/{image_id}/regions"): READ,
    ("GET", "/images/{image_id}/info"): READ,
    ("GET", "/images/{image_id}/explain.png"): READ,
    ("GET", "/tags"): READ,
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
    """The permission that a route needs, by its method and its path as declared; OPEN for none.

    HEAD counts as GET. A mounted application is listed by GET and the path that it is mounted at.
    """
    return NEEDED.get(("GET" if method == "HEAD" else method, path), ADMIN)
