"""The ranks of a training that `--devices` or `torchrun` started, and their communication.

Every process runs the same program. Numbers that control the program are exchanged through a
separate group (gloo, on the hosts), so that no rank waits for a device; gradients through NCCL
between GPUs and through gloo between CPUs.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import FileStore, PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from regard.errors import LostRankError
from regard.json_files import dump_json, parse_json
from regard.models.contracts import AnyModel
from regard.training.distributed.launch import PARENT_POLL_SECONDS, Launch
from regard.training.distributed.ranks import ALONE, JsonT, ModelWeights, Ranks, T
from regard.training.distributed.sharded_weights import ShardedWeights
from regard.training.loss import LossFn

EXCHANGE_TIMEOUT = timedelta(minutes=10)  # of gradients, which all ranks exchange at the same time
DECISION_TIMEOUT = timedelta(days=7)
"""The timeout of control messages: the other ranks may wait long while rank 0 cleans a corpus or
validates. If a process ends, the others notice at once, independently of the timeout."""
JOIN_SECONDS = 600.0  # after which a rank that has not joined the others ends
AGENT_STORE_VARIABLE = "TORCHELASTIC_USE_AGENT_STORE"
"""Set to True by a launcher that listens at the address where the ranks meet."""
CONNECT_SECONDS = 30.0  # within which it must answer
BUCKET_NUMBERS = 1 << 25  # numbers that are exchanged at once: 128 MiB of float32


class ProcessGroupRanks(Ranks):
    """The processes of a training that were started together."""

    def __init__(self, number: int, count: int) -> None:
        self.number, self.count = number, count
        self._decisions = dist.new_group(backend="gloo", timeout=DECISION_TIMEOUT)

    def gather_numbers(self, numbers: Sequence[int]) -> list[list[int]]:
        own = torch.tensor(numbers, dtype=torch.int64)
        found = [torch.empty_like(own) for _ in range(self.count)]
        with explain_lost_rank():
            dist.all_gather(found, own, group=self._decisions)
        return [one.tolist() for one in found]

    def from_first(self, make: Callable[[], JsonT]) -> JsonT:
        text = dump_json(make()).encode() if self.leads else b""
        size = max(sizes[0] for sizes in self.gather_numbers([len(text)]))
        content = torch.zeros(size, dtype=torch.uint8)
        if self.leads:
            content.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        with explain_lost_rank():
            dist.broadcast(content, 0, group=self._decisions)
        value: JsonT = parse_json(content.numpy().tobytes())
        return value

    def made_by_first(self, make: Callable[[], T], read: Callable[[], T]) -> T:
        if self.leads:
            made = make()
            self.any(False)  # a barrier: the others continue
            return made
        self.any(False)
        return read()

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        for bucket in _buckets(tensors):
            with _flattened(bucket) as flat, explain_lost_rank():
                dist.all_reduce(flat)

    def broadcast_(self, tensors: Sequence[Tensor]) -> None:
        for bucket in _buckets(tensors):
            with _flattened(bucket) as flat, explain_lost_rank():
                dist.broadcast(flat, 0)

    def gather(self, tensor: Tensor) -> list[Tensor]:
        found = [torch.empty_like(tensor) for _ in range(self.count)] if self.leads else None
        with explain_lost_rank():
            dist.gather(tensor.contiguous(), found, 0)
        return [tensor] if found is None else found

    def shard(self, model: AnyModel, loss: LossFn) -> ModelWeights:
        return ShardedWeights(model, loss)

    def sum_gradients(self, parameters: Sequence[Tensor], *, in_place: bool = False) -> None:
        """A parameter without a gradient on this rank gets the sum of the others', or zeros; on a
        CPU none where no rank has one, so that it does not decay.
        """
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        if trained and trained[0].device.type == "cpu":  # a GPU is not waited for
            counts = torch.tensor([parameter.grad is not None for parameter in trained]).int()
            self.sum_([counts])
            trained = [one for one, count in zip(trained, counts.tolist(), strict=True) if count]
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if in_place:
            self.sum_([parameter.grad for parameter in trained if parameter.grad is not None])
            return
        for bucket in _buckets(trained):
            flat, parts = _flatten([one.grad for one in bucket if one.grad is not None])
            with explain_lost_rank():
                dist.all_reduce(flat)
            for parameter, part in zip(bucket, parts, strict=True):
                parameter.grad = part


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Groups of consecutive tensors of one dtype, each to be exchanged at once."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        size = sum(one.numel() for one in bucket)
        if bucket and (size + tensor.numel() > BUCKET_NUMBERS or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def _flatten(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """A copy of the numbers of all tensors as one (N,), and its parts in the tensors' shapes.

    One kernel copies all of them: `torch.cat` is slow for many tensors of different sizes.
    """
    sizes = [tensor.numel() for tensor in tensors]
    flat = tensors[0].new_empty(sum(sizes))
    split = torch.split(flat, sizes)
    parts = [part.view_as(tensor) for part, tensor in zip(split, tensors, strict=True)]
    with torch.no_grad():
        torch._foreach_copy_(parts, list(tensors))
    return flat, parts


@contextmanager
def _flattened(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """A context with the numbers of all tensors as one (N,), which are copied back at its end."""
    flat, parts = _flatten(tensors)
    yield flat
    with torch.no_grad():
        torch._foreach_copy_(list(tensors), parts)


@contextmanager
def explain_lost_rank() -> Iterator[None]:
    """A context in which communication errors become errors that say what has probably happened."""
    try:
        yield
    except RuntimeError as error:
        # gloo's: "[file:line] Connection closed by peer ADDRESS. This is typically caused by …"
        reason = str(error).splitlines()[0].partition("] ")[2].partition(". This is")[0]
        raise LostRankError(
            "another process of this training has ended or cannot be reached, and this one ends "
            f"with it; checkpoints are intact, continue with --resume ({reason or error})"
        ) from None


# -- joining the others -----------------------------------------------------------------------


@contextmanager
def _limited_wait(launch: Launch) -> Iterator[None]:
    """A context in which this process ends if it waits too long for the others inside gloo or NCCL,
    where it handles no signal, or if the parent that they have in common has ended.
    """
    joined = Event()

    def watch() -> None:
        deadline = time.monotonic() + JOIN_SECONDS
        while not joined.wait(PARENT_POLL_SECONDS):
            lost = launch.parent and os.getppid() != launch.parent
            if lost or time.monotonic() > deadline:
                why = "what has started it has ended" if lost else f"not in {JOIN_SECONDS:.0f} s"
                message = f"error: {_cannot_join(launch)}: {why}\n"
                os.write(2, message.encode())
                os._exit(1)

    Thread(target=watch, name="join-watch", daemon=True).start()
    try:
        yield
    finally:
        joined.set()


def _cannot_join(launch: Launch) -> str:
    return f"rank {launch.number} of {launch.ranks} cannot join the others at {launch.address}"


def check_launcher(launch: Launch, environment: Mapping[str, str] = os.environ) -> None:
    """Raise an error if a launcher that is to answer at the ranks' address does not, as when it was
    killed while they were loading: torch would try to reach it for ten minutes.
    """
    if environment.get(AGENT_STORE_VARIABLE) != str(True):
        return
    host, _, port = launch.address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise LostRankError(
            f"{_cannot_join(launch)}: what has started them does not answer there ({error}); start "
            "them again"
        ) from None


@contextmanager
def joined_ranks(device: torch.device, *, even_one: bool = False) -> Iterator[Ranks]:
    """A context with the ranks of this training after they have joined: the processes that were
    started together, or this one alone. A single process of a launcher counts as alone too, unless
    `even_one`.
    """
    launch = Launch.of_environment()
    if launch.ranks <= (0 if even_one else 1):
        yield ALONE
        return
    number, count = launch.number, launch.ranks
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    check_launcher(launch)
    try:
        with _limited_wait(launch):
            dist.init_process_group(
                "nccl" if on_gpu else "gloo",
                store=_meeting_place(launch),
                rank=number,
                world_size=count,
                timeout=EXCHANGE_TIMEOUT,
                device_id=device if on_gpu else None,
            )
            ranks = ProcessGroupRanks(number, count)
    except (RuntimeError, ValueError) as error:
        raise LostRankError(f"{_cannot_join(launch)}: {str(error).splitlines()[0]}") from None
    yield ranks
    dist.destroy_process_group()  # not after an error: it might wait for a rank that has ended


def _meeting_place(launch: Launch) -> Store:
    """Where the ranks exchange the addresses at which they listen to each other."""
    if launch.parent:
        store = FileStore(launch.address, launch.ranks)
        store.set_timeout(EXCHANGE_TIMEOUT)
        return store
    store, _, _ = next(rendezvous("env://", timeout=EXCHANGE_TIMEOUT))
    # torchrun keeps one store for all restarts, with addresses of processes that have ended
    return PrefixStore(f"restart-{launch.restarts}", store)
