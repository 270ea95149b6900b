"""The addresses a service may listen on: without keys those of this machine alone, unless a setting allows others."""

import ipaddress
import logging

from service.auth.key_file import read_keys
from service.errors import Misconfigured
from service.settings import Settings
from service.storage.data_dir import DataDir

log = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. A name other than localhost may mean anything, and is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_loopback_name(host: str) -> bool:
    """Whether browsers and our client ask this machine alone by this name in lower case: names below localhost, too
    (RFC 6761). A service that is to listen there asks a resolver, which may know another address."""
    return is_loopback(host) or host.endswith(".localhost")


def is_any_address(host: str) -> bool:
    """Whether it stands for all addresses of whichever machine listens there."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def open_without_keys(settings: Settings) -> bool:
    """Whether requests without a key are answered for as long as there are no keys."""
    return settings.insecure or is_loopback(settings.host)


def check_exposure(settings: Settings) -> None:
    """Misconfigured where strangers could reach a service that has no keys; a warning where that was asked for."""
    if is_loopback(settings.host) or read_keys(DataDir(settings.data_dir).keys):
        return
    create = f"regard keys create NAME --permission admin --data-dir {settings.data_dir}"
    if not settings.insecure:
        raise Misconfigured(
            f"{settings.host} can be reached from other machines, and there are no API keys: everybody there could"
            f" read, add and delete pictures. Create a key first ({create}), listen on 127.0.0.1, or say --insecure"
        )
    log.warning(
        "there are no API keys: everybody who reaches %s port %d may read, add and delete pictures; `%s` ends that",
        settings.host,
        settings.port,
        create,
    )
