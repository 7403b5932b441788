"""How the server runs."""

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
    """Whether an address can be reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ServerSettings(Settings):
    """Where it listens, how it gathers requests, and what it refuses."""

    host: str = "127.0.0.1"
    """Address to listen at; 127.0.0.1 is reached from this machine alone."""
    port: int = Field(default=5000, ge=0, le=65535)
    """Port to listen at; 0 takes a free one."""
    window: NonNegativeFloat = 0.005
    """Seconds that a request waits for others to be translated with."""
    batch_tokens: PositiveInt = 2048
    """Source tokens translated together."""
    workers: PositiveInt = 1
    """Batches of a model translated at a time, each by a thread: its weights are loaded once."""
    queue: PositiveInt = 1024
    """Requests that may wait for a model; the next are answered 503."""
    timeout: PositiveFloat = 60.0
    """Seconds within which a request is answered, or else 504."""
    read_timeout: PositiveFloat = 15.0
    """Seconds within which a request must have arrived, or else 408; and that a client may take
    nothing of its answer."""
    grace: PositiveFloat = 120.0
    """Seconds given to requests under way when the server is told to stop."""
    max_bytes: PositiveInt = 4 * 1024 * 1024
    """Longest body of a request; a longer one is answered 413."""
    max_bytes_held: PositiveInt = 32 * 1024 * 1024
    """Bytes of the bodies of all requests under way; one that would add more is answered 503."""
    max_characters: PositiveInt = 50_000
    """Characters that the texts of a request may have together."""
    max_texts: PositiveInt = 256
    """Most texts in one request."""
    rate_limit: PositiveInt | None = None
    """Requests a minute from one key, or where there are no keys from one address; the next are
    answered 429. Not limited by default."""
    max_alternatives: PositiveInt = 10
    """Most alternatives to a translation that may be asked for."""
    max_beam: PositiveInt = 16
    """Widest beam that may be asked for."""
    sentences: bool | None = None
    """Whether the sentences of a line are translated one by one, and what is no sentence comes back
    as it is, or lines go in whole; none: as each run has learned."""
    origins: tuple[Annotated[str, AfterValidator(_check_origin)], ...] = ()
    """Origins whose pages may call the server (CORS); none by default, * is any."""
    hosts: tuple[str, ...] = ()
    """Names the server goes by; where it listens at a loopback address, those of it besides."""
    files: Path | None = None
    """Folder for translated files, ten minutes each, that several servers share; otherwise they are
    held in memory, and fetched from the server that has made them."""
    watch: bool = False
    """Load a model again when its weights change."""
    watch_every: PositiveFloat = 2.0
    """Seconds between two looks at the weights."""

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """The accepted host names; none, for any name, where the server listens to the network."""
        loopback = ("localhost", "127.0.0.1", "::1", self.host) if is_loopback(self.host) else ()
        return (*loopback, *self.hosts)
