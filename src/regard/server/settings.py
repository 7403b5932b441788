"""Settings of the server."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from regard.settings import Settings

_ORIGIN = re.compile(r"\*|https?://(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?", re.ASCII)


def _check_origin(origin: str) -> str:
    """The origin, if a browser could ever send it."""
    if not _ORIGIN.fullmatch(origin):
        raise ValueError(
            "must be an origin such as https://example.com or http://localhost:8080, without a "
            "path, or *"
        )
    return origin.lower()


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ServerSettings(Settings):
    """Where the server listens, how it batches requests, and which it refuses."""

    host: str = "127.0.0.1"
    """Address to listen at; 127.0.0.1 can be reached from this machine only."""
    port: int = Field(default=5000, ge=0, le=65535)
    """Port to listen at; 0 takes a free one."""
    window: NonNegativeFloat = 0.005
    """Seconds that a request waits for others to join its batch."""
    batch_tokens: PositiveInt = 2048
    """Source tokens in a batch."""
    workers: PositiveInt = 1
    """Batches of a model translated at a time, one in each thread; its weights are loaded once."""
    queue: PositiveInt = 1024
    """Requests that may wait for a model; further ones are answered 503."""
    timeout: PositiveFloat = 60.0
    """Seconds within which a request must be answered; one that cannot be, by the time that recent
    batches took, is refused at once with 503, and one that then takes longer with 504."""
    read_timeout: PositiveFloat = 15.0
    """Seconds within which a request must have arrived (after that the answer is 408), and for
    which a client may stop reading its response."""
    grace: PositiveFloat = 120.0
    """Seconds that active requests get to finish when the server is told to stop."""
    max_bytes: PositiveInt = 4 * 1024 * 1024
    """Longest request body in bytes; longer ones are answered 413."""
    max_bytes_held: PositiveInt = 32 * 1024 * 1024
    """Bytes in the bodies of all active requests; one that would exceed this is answered 503."""
    max_characters: PositiveInt = 50_000
    """The most characters in all texts of a request together."""
    max_texts: PositiveInt = 256
    """The most texts in one request."""
    rate_limit: PositiveInt | None = None
    """Requests a minute from one key, or from one address if there are no keys; further ones are
    answered 429. Not limited by default."""
    max_alternatives: PositiveInt = 10
    """The most alternatives to a translation that a request may ask for."""
    max_beam: PositiveInt = 16
    """The widest beam that a request may ask for."""
    sentences: bool | None = None
    """true: translate the sentences of a line one by one, and copy text that is not a sentence
    unchanged. false: translate whole lines. null: as configured in each run."""
    origins: tuple[Annotated[str, AfterValidator(_check_origin)], ...] = ()
    """Origins whose pages may call the server (CORS); none by default, * allows any."""
    hosts: tuple[str, ...] = ()
    """Host names accepted in requests, in addition to loopback names if the server listens at a
    loopback address."""
    files: Path | None = None
    """Folder for translated files, shared by several servers; files are kept for ten minutes. null:
    each server keeps its files in memory, where only it can serve them."""
    watch: bool = False
    """Reload a model when its weights change."""
    watch_every: PositiveFloat = 2.0
    """Seconds between two checks of the weights."""

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """The accepted host names; empty (any name) by default unless at a loopback address."""
        loopback = ("localhost", "127.0.0.1", "::1", self.host) if is_loopback(self.host) else ()
        return (*loopback, *self.hosts)
