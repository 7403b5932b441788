"""A bulk translation on Ray Data: tasks read blocks, and actors translate them."""

import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa
import ray
import ray.data
from ray.data import ActorPoolStrategy, DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata
from ray.exceptions import RayError, RayTaskError

from regard.cluster.bulk import PendingInput, RayOptions
from regard.cluster.bulk_inputs import SourceBlock, read_blocks
from regard.cluster.bulk_job import BlockTranslator, BulkJob, TranslatedBlock
from regard.engines.engine_tuning import count_cores
from regard.errors import RegardError, RunError, SettingsError
from regard.interruption import InterruptedBySignal, raise_interrupt

COLUMN = "block"  # the one column of our datasets: a block in JSON
TASKS_PER_ACTOR = 2  # blocks that an actor translates or has waiting
OBJECT_STORE_BYTES = 256 << 20  # of a cluster on this machine: many times the blocks in flight
LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 5.0  # timeout for the answer of a cluster
STDERR = 2  # its file descriptor
RAY_STAMP = re.compile(rb"^\[[^]]*\] ")  # date, time and process, before a line of Ray's log
LOG_LEVEL_LINE = b"Set ray log level from environment variable"
RAY_ADVICE = re.compile(r"\nFailed to .* after \d+/\d+ attempts.*", re.DOTALL)
"""Advice about its own settings that Ray Data adds to the message of an error."""
OUR_ERROR = re.compile(r"^regard\.errors\.\w+: ")  # if Ray has only the text of an error
QUIET = ("ray", "ray.data", "ray.serve", "ray._private")


@contextmanager
def ray_cluster(options: RayOptions) -> Iterator[int]:
    """Connect to Ray, unless this process is connected; yields the number of actors.

    The dashboard listens only on this machine. See also `RayOptions.environment`.
    """
    if ray.is_initialized():
        yield options.actors or _room_for_actors(options)
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        _connect(options)
        signal.signal(signal.SIGTERM, raise_interrupt)  # in place of Ray's handler
        yield options.actors or _room_for_actors(options)
    finally:
        ray.shutdown()
        signal.signal(signal.SIGTERM, before)


def _connect(options: RayOptions) -> None:
    """Start Ray on this machine, or connect to a cluster."""
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)
    for handler in logging.getLogger("ray.data").handlers:
        if isinstance(handler, logging.StreamHandler):  # its errors are raised here too
            handler.setLevel(logging.CRITICAL)
    local: dict[str, Any] = {}
    if options.address is not None:
        _check_address(options.address)
    else:
        cores = count_cores() if options.actors is None else options.actors * options.cores
        local = {
            "num_cpus": max(cores, options.cores),
            "include_dashboard": options.dashboard,
            "dashboard_host": LOOPBACK,
            "object_store_memory": OBJECT_STORE_BYTES,
        }
    try:
        with _without_repeated_lines():
            ray.init(
                address=options.address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **local,
            )
    except SystemExit:  # raised by Ray's handler of SIGTERM
        raise InterruptedBySignal(signal.SIGTERM) from None
    except Exception as error:  # Ray's type if it gives up, as on a busy machine
        ray.shutdown()
        token = "; is RAY_AUTH_TOKEN the token of the cluster?" if options.address else ""
        reason = f"{_last_line(error)}{token}"
        raise SettingsError(f"Ray cannot be started or reached: {reason}") from None


@contextmanager
def _without_repeated_lines() -> Iterator[None]:
    """Buffer stderr until the end, and drop repeated lines (as from each attempt to connect) and
    the line in which Ray's C++ code says that it reads RAY_BACKEND_LOG_LEVEL.
    """
    sys.stderr.flush()
    kept = os.dup(STDERR)
    with TemporaryFile() as held:
        os.dup2(held.fileno(), STDERR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, STDERR)
            os.close(kept)
            held.seek(0)
            with suppress(OSError):  # stderr may be closed
                said = {RAY_STAMP.sub(b"", line): line for line in held}
                lines = (line for line in said.values() if LOG_LEVEL_LINE not in line)
                os.write(STDERR, b"".join(lines))


def _check_address(address: str) -> None:
    """Raise an error if nothing answers at the address: Ray would try for a quarter of an hour."""
    host, colon, port = address.rpartition(":")
    if "://" in address or (colon and not port.isdecimal()):
        raise SettingsError(
            f"--address {address}: must be HOST:PORT, such as ray-head:6379, or auto"
        )
    if not colon:
        return  # auto: Ray fails at once if there is no cluster
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise SettingsError(
            f"--address {address}: no Ray cluster answers ({error}); start one with: ray start "
            "--head, or leave out --address"
        ) from None


def translate_on_ray(
    inputs: Sequence[PendingInput], job: BulkJob, options: RayOptions
) -> Generator[TranslatedBlock, None, None]:
    """The translations of the unfinished blocks, in the order in which they are ready.

    At most a few blocks for each actor are in flight. An actor that dies is replaced, and its
    blocks are translated again.
    """
    with ray_cluster(options) as actors:
        _configure()
        actors = min(actors, sum(len(one.waiting) for one in inputs))  # more would never work
        blocks = ray.data.read_datasource(
            BlockSource(inputs), override_num_blocks=len(inputs), num_cpus=0
        )
        translated = blocks.map_batches(
            _TranslationActor,
            fn_constructor_args=(job,),
            batch_size=1,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=TASKS_PER_ACTOR),
            num_cpus=options.cores,
            num_gpus=1 if options.on_gpu else None,
        )
        try:
            # no prefetch: it would hold a block back until the next one is translated
            one_by_one = {"batch_size": None, "prefetch_batches": 0, "batch_format": "pyarrow"}
            for table in translated.iter_batches(**one_by_one):
                for block in table.column(COLUMN).to_pylist():
                    yield TranslatedBlock.model_validate_json(block)
        except RayError as error:
            raise _as_our_error(error) from None


class BlockSource(Datasource):  # type: ignore[misc]  # Ray is not typed
    """Our blocks as a source of Ray Data: a read task for each input, which waits while actors are
    busy. Local files are read on this machine, URIs on any.
    """

    def __init__(self, inputs: Sequence[PendingInput]) -> None:
        super().__init__()
        self._inputs = tuple((one.file, one.index, one.finished) for one in inputs)

    @property
    def supports_distributed_reads(self) -> bool:
        return all(file.is_remote for file, _, _ in self._inputs)

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(partial(_read_tables, *one), metadata) for one in self._inputs]


def _read_tables(*one: Any) -> Iterator[pa.Table]:
    """A table of one row for each unfinished block of an input."""
    for block in read_blocks(*one):
        yield _as_table(block)


class _TranslationActor:
    """A block translator as an actor of Ray Data."""

    def __init__(self, job: BulkJob) -> None:
        self._translate = BlockTranslator(job)

    def __call__(self, table: pa.Table) -> pa.Table:
        [block] = table.column(COLUMN).to_pylist()
        return _as_table(self._translate(SourceBlock.model_validate_json(block)))


def _as_table(block: SourceBlock | TranslatedBlock) -> pa.Table:
    return pa.table({COLUMN: [block.model_dump_json()]})


def _configure() -> None:
    """Make each of our blocks a block of Ray Data, and print only our own progress."""
    context = DataContext.get_current()
    context.target_max_block_size = 1  # byte: no two rows share a block
    context.enable_progress_bars = context.print_on_execution_start = False
    context.enable_auto_log_stats = context.log_internal_stack_trace = False
    context.raise_original_map_exception = True


def _room_for_actors(options: RayOptions) -> int:
    """The number of actors for which the cluster has cores, or GPUs."""
    resources = ray.cluster_resources()
    room = resources.get("GPU", 0) if options.on_gpu else resources.get("CPU", 0) // options.cores
    if room < 1:
        wanted = "a GPU" if options.on_gpu else f"{options.cores} cores"
        raise SettingsError(
            f"no machine of the cluster has {wanted} for an actor; it has "
            f"{resources.get('CPU', 0):g} cores and {resources.get('GPU', 0):g} GPUs"
        )
    return int(room)


def _as_our_error(error: RayError) -> RegardError:
    """The error of an actor or a reader, in one line."""
    cause: BaseException = error
    if isinstance(error, RayTaskError) and isinstance(error.cause, Exception):
        cause = error.cause
    if isinstance(cause, RegardError):
        cause.args = (RAY_ADVICE.sub("", str(cause)),)
        return cause
    return RunError(
        f"an actor failed: {_last_line(cause)}; finished blocks are kept, and the same command "
        "continues from there"
    )


def _last_line(error: BaseException) -> str:
    text = RAY_ADVICE.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return OUR_ERROR.sub("", lines[-1]) if lines else type(error).__name__
