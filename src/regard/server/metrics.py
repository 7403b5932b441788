"""What the server counts, in Prometheus' form."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LINES_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServerMetrics:
    """Counters of one server, in a registry of their own."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        seconds = partial(Histogram, registry=self.registry, buckets=SECONDS_BUCKETS)
        lines = partial(Histogram, registry=self.registry, buckets=LINES_BUCKETS)
        self.requests = counter(
            "regard_requests_total", "Requests answered.", ["route", "method", "status"]
        )
        self.seconds = seconds(
            "regard_request_seconds", "From a request's head to its answer's end.", ["route"]
        )
        self.active_requests = gauge("regard_requests_inside", "Requests being answered.")
        self.queued = gauge("regard_queue_requests", "Requests that wait for a model.", ["model"])
        self.batches = lines("regard_batch_lines", "Lines translated together.", ["model"])
        self.batch_seconds = seconds("regard_batch_seconds", "What a batch took.", ["model"])
        self.tokens = counter("regard_source_tokens_total", "Source tokens read.", ["model"])
        self.dropped = counter(
            "regard_requests_dropped_total", "Requests given up before their answer.", ["reason"]
        )
        self.reloads = counter("regard_reloads_total", "Models loaded again.", ["model", "outcome"])

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)
