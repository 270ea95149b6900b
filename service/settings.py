"""Every setting of Regard: an environment variable REGARD_<NAME>, a flag and a line of the docs.

Besides these, `regard_client` reads a service's key and address, and tests of kills read a fault point.
"""

import difflib
import functools
import logging
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.model_names import model_name
from service.redis_url import check_redis_url
from service.units import MB, SECONDS_A_DAY

PREFIX = "REGARD_"
MAX_HEAD_BYTES = 32 * 1024  # of a request's address and headers
A_YEAR_S = 366.0 * SECONDS_A_DAY  # the longest timeout
# Kubernetes and Docker set such variables for every service whose name begins with `regard`, REGARD_PORT among them.
SERVICE_LINK = re.compile(r"REGARD_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")  # the value of a ..._PORT among them
DEFAULT_URL = "http://127.0.0.1:8000"
SIMILAR = 0.9  # the similarity from which a name counts as misspelt: one letter off, in the shortest names

log = logging.getLogger(__name__)
Names = Annotated[tuple[str, ...], NoDecode]


class ClientSettings(BaseSettings):
    """Settings of commands that call a server. The key has no flag, since other users of a machine see command
    lines."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    api_key: SecretStr | None = Field(
        None, description="API key that commands such as `regard search` send to the server; none if not set."
    )
    url: str = Field(
        DEFAULT_URL,
        description="Address of the service for such commands, unless `--url` gives another; host:port will do.",
    )


class ClusterSettings(BaseSettings):
    """Settings of a collection that is spread over several machines."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    ray_address: str = Field(
        "auto", description="Address of the Ray cluster, host:port; auto for the one of this node."
    )
    shards: int = Field(
        1, ge=1, le=1000, description="How many parts the pictures are spread over when a cluster is begun."
    )
    replicas: int = Field(2, ge=1, le=9, description="How many copies of each part there are, each on another node.")
    write_quorum: int = Field(
        1,
        ge=1,
        description="How many copies must have a change on disk before it is acknowledged; every live one has, always.",
    )
    search_deadline_s: float = Field(
        2.0,
        gt=0,
        le=A_YEAR_S,
        description="Seconds after which a search goes on without the parts that did not answer.",
    )
    search_round_trips: int = Field(
        2,
        ge=1,
        le=2,
        description="Times that a search for a sentence may wait for all parts. Each scores its likely share of the"
        " candidates at once; with 2, one that holds more is asked again, in a search of a hundred, and the answer is"
        " that of one machine; with 1 such a candidate is missed (cluster.md).",
    )
    routers: int = Field(2, ge=1, description="Most processes that answer HTTP requests; as many as are needed run.")

    @model_validator(mode="after")
    def _reachable_quorum(self) -> "ClusterSettings":
        if self.write_quorum > self.replicas:
            raise ValueError(f"write_quorum is {self.write_quorum}, and there are {self.replicas} replicas")
        return self


class Settings(BaseSettings):
    """Settings of a service, from arguments, then the environment, then defaults."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    data_dir: Path = Field(Path("data"), description="Folder that holds everything Regard stores.")
    role: Literal["all", "api", "worker"] = Field(
        "all", description="What runs here: the web side (api), the worker, or both (all)."
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    insecure: bool = Field(
        False, description="Listen beyond this machine although there are no API keys: everybody there may do anything."
    )
    rate_limit: float = Field(
        50.0,
        ge=0,
        description="Requests a second that each API key may make on average; 0 for no limit.",
    )
    rate_burst: int = Field(500, ge=1, description="Requests that an API key may make at once after a pause.")
    allowed_hosts: Names = Field(
        (),
        description="Host names, with commas between, under which browsers may reach this service besides localhost"
        " and the address that it listens on, e.g. photos.example.org; * for any, *.example.org for all below one.",
    )
    web_processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes that answer requests on the port: more of them use more processors (operations.md)."
        " Bounds on connections, uploads and waiting work hold for each, on rates too where there is no Redis.",
    )
    max_connections: int = Field(512, ge=1, description="Most connections at a time; 503 beyond it.")
    max_uploads: int = Field(16, ge=1, description="Most requests with files received at a time; 503 beyond it.")
    header_timeout_s: float = Field(
        10.0, gt=0, le=A_YEAR_S, description="Seconds in which the head of a request must be complete; 408 after it."
    )
    stall_timeout_s: float = Field(
        30.0,
        gt=0,
        le=A_YEAR_S,
        description="Seconds after which a stalled request body or response is ended.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much is logged.")
    log_format: Literal["text", "json"] = Field("text", description="Lines of text, or one JSON object a line.")
    otlp_endpoint: str | None = Field(
        None,
        description="OpenTelemetry collector that gets a trace of each request, e.g. http://localhost:4318; needs the"
        " extra `tracing`; none if not set.",
    )
    redis_url: str | None = Field(
        None, description="Redis for wake-ups and cached results, e.g. redis://localhost:6379/0; optional."
    )

    device: str = Field("auto", description="Where models run: cpu, cuda, cuda:1, or auto (CUDA where it works).")
    threads: int | None = Field(
        None, ge=1, le=1024, description="CPU threads of each process; PyTorch's choice if not set."
    )
    kernels: bool = Field(
        True,
        description="Score stored pictures by the built kernels, on a GPU by the Triton kernel; else by PyTorch alone.",
    )
    gpu_memory: int = Field(
        8192 * MB,
        ge=0,
        description="Bytes of a GPU's memory that hold records of stored pictures, for all models together; those"
        " beyond are copied for each search.",
    )
    detector: Path | None = Field(
        None,
        description="Folder of the detector's weights; if not set the shipped one, none for features made elsewhere.",
    )
    models: Names = Field(
        ("bfan-equal", "scan-t2i-avg", "caan", "camp", "sman"),
        min_length=1,
        description="Models to serve, with commas between, the first is the default: shipped names, folders of weights"
        " (also as NAME=FOLDER), or several with + between for the mean of their scores.",
    )
    preload: bool = Field(
        False,
        description="Load all models when the service starts; otherwise those besides the default when a query first"
        " names them, on a GPU all in any case.",
    )
    views: Names = Field(
        (), description="Names of models that pictures are encoded for, the default among them; all if not set."
    )

    max_file_bytes: int = Field(32 * MB, ge=1, description="Largest picture file taken, in bytes.")
    max_body_bytes: int = Field(512 * MB, ge=1, description="Largest request body taken, in bytes.")
    max_files: int = Field(2000, ge=1, description="Most files taken in one request.")
    max_pixels: int = Field(
        80_000_000, ge=1, le=178_956_970, description="Largest picture decoded, in pixels (width x height)."
    )
    disk_reserve_bytes: int = Field(
        512 * MB, ge=0, description="Bytes kept free on the disk of the data directory; 507 for uploads beyond it."
    )
    decode_workers: int = Field(2, ge=1, description="Processes that decode pictures side by side.")
    decode_timeout_s: float = Field(
        20.0, gt=0, le=A_YEAR_S, description="Seconds after which the decoding of a picture is ended."
    )
    inspect_timeout_s: float = Field(
        5.0, gt=0, le=A_YEAR_S, description="Seconds after which the inspection of an uploaded file's header is ended."
    )
    decode_memory_bytes: int = Field(
        2048 * MB, ge=256 * MB, description="Address space of a decoding process, in bytes."
    )
    with_places: bool = Field(
        False,
        description="Tag new pictures with the place where they were taken, found in a table on this machine by the"
        " coordinates in their files, which are ignored otherwise; needs the extra `places`.",
    )
    detect_batch: int = Field(8, ge=1, description="Pictures given to the detector at a time while ingesting.")

    queue_cost: int = Field(
        8_000_000,
        ge=1,
        description="Most work waiting for the accelerator, candidates x regions x words and 1000 for each word to"
        " encode; 503 beyond it.",
    )
    cache_entries: int = Field(1024, ge=0, description="Results kept in memory where there is no Redis; 0 for none.")
    cache_seconds: float = Field(
        3600.0,
        gt=0,
        le=A_YEAR_S,
        description="Seconds that Redis keeps a cached result; without Redis the next change of the library ends it.",
    )
    worker_silent_s: float = Field(
        60.0,
        gt=0,
        le=A_YEAR_S,
        description="Seconds without a heartbeat of the worker after which /readyz says not ready.",
    )
    scrub_rate: float = Field(
        MB,
        ge=0,
        description="Bytes a second that the worker reads of records and originals to compare them with their"
        " checksums; 0 for none.",
    )
    delete_grace_s: float = Field(
        float(SECONDS_A_DAY),
        ge=0,
        description="Seconds during which a deletion can be undone; then all is erased.",
    )

    @field_validator("models", "views", "allowed_hosts", mode="before")
    @classmethod
    def _split(cls, names: Any) -> Any:
        if isinstance(names, str):
            return tuple(name.strip() for name in names.split(",") if name.strip())
        return names

    @field_validator("redis_url")
    @classmethod
    def _checked_redis(cls, url: str | None) -> str | None:
        return None if url is None else check_redis_url(url)

    @field_validator("otlp_endpoint")
    @classmethod
    def _checked_web_address(cls, url: str | None) -> str | None:
        if url is not None and not re.fullmatch(r"https?://[^/\s]+\S*", url):
            raise ValueError(f"{url!r} is no address of a collector, such as http://localhost:4318")
        return url

    @field_validator("data_dir", mode="before")
    @classmethod
    def _checked_folder(cls, folder: Any) -> Any:
        if folder == "":
            raise ValueError("names no folder; the one you are in is .")
        return folder

    @model_validator(mode="after")
    def _known_views(self) -> "Settings":
        names = [model_name(entry) for entry in self.models]
        unknown = [entry for entry in self.views if model_name(entry) not in names]
        if unknown:
            raise ValueError(f"views names {', '.join(unknown)}, which models does not: {', '.join(names)}")
        if names[0] not in self.built_views:
            raise ValueError(f"views leaves out {names[0]}, the default model: name it too, or another first in models")
        return self

    @model_validator(mode="before")
    @classmethod
    def _check_environment(cls, values: Any) -> Any:
        """Refuse misspelt variables, which pydantic-settings would ignore, and warn about other unknown ones."""
        known_names = [
            PREFIX + name.upper() for kind in (cls, ClientSettings, ClusterSettings) for name in kind.model_fields
        ]
        for name in sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known_names):
            if SERVICE_LINK.fullmatch(name) or (name.endswith("_PORT") and SERVICE_ADDRESS.match(os.environ[name])):
                continue
            if similar := difflib.get_close_matches(name, known_names, n=1, cutoff=SIMILAR):
                raise ValueError(f"no setting is called {name}; did you mean {similar[0]}?")
            _warn_of_unknown(name)
        address = os.environ.get(f"{PREFIX}PORT", "")
        if SERVICE_ADDRESS.match(address) and values.get("port") == address:
            return {name: value for name, value in values.items() if name != "port"}
        return values

    @property
    def built_views(self) -> tuple[str, ...]:
        """Names of the models that have a view."""
        return tuple(model_name(entry) for entry in self.views or self.models)


@functools.cache
def _warn_of_unknown(name: str) -> None:
    """Log, once a process, that a variable is no setting."""
    log.warning("the environment variable %s is no setting of Regard and is ignored", name)
