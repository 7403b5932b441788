"""A set of texts as 64-bit hashes: eight bytes each."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from regard.corpora.corpus import Pair

Hashes = NDArray[np.uint64]

MAX_BLOCK_HASHES = 1 << 23  # hashes in a block (64 MiB), whose merging needs twice its memory


def hash_texts(texts: Iterable[str], *, seed: int = 0) -> Hashes:
    """The 64-bit BLAKE2b of each text (N,), keyed by `seed`; P(collision) is n² / 2⁶⁵."""
    key = seed.to_bytes(8, "little") if seed else b""
    digests = (
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
        for text in texts
    )
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


def hash_exact_pairs(pairs: Iterable[Pair], *, seed: int = 0) -> Hashes:
    """A hash of both texts of each pair (N,), unnormalised."""
    return hash_texts((f"{len(one.source)} {one.source}{one.target}" for one in pairs), seed=seed)


class HashSet:
    """A set of hashes, in sorted blocks of decreasing size."""

    def __init__(self) -> None:
        self._blocks: list[Hashes] = []

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def contains(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of `hashes` (N,) have been added: (N,)."""
        found = np.zeros(len(hashes), np.bool_)
        for block in self._blocks:
            places = np.searchsorted(block, hashes).clip(max=len(block) - 1)
            found |= block[places] == hashes
        return found

    def add_new(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Add `hashes` (N,) and return which were new (N,); of equal ones only the first is."""
        distinct, first = np.unique(hashes, return_index=True)
        fresh = ~self.contains(distinct)
        self._append(distinct[fresh])
        new = np.zeros(len(hashes), np.bool_)
        new[first[fresh]] = True
        return new

    def _append(self, block: Hashes) -> None:
        """Add a sorted block, merged with previous ones that are not much larger."""
        while self._blocks and len(self._blocks[-1]) <= min(
            2 * len(block), MAX_BLOCK_HASHES - len(block)
        ):
            # stable sort merges two sorted runs in linear time
            block = np.sort(np.concatenate((self._blocks.pop(), block)), kind="stable")
        if len(block):
            self._blocks.append(block)
