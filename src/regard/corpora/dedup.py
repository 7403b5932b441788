"""A set of texts that costs eight bytes for each, whatever their length."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

BLOCK = 1 << 23
"""The most hashes in a block (64 MiB): merging takes twice the room of a block for a moment, and
this keeps that small, while the blocks to search stay few."""


def hash_texts(texts: Iterable[str], *, seed: int = 0) -> Hashes:
    """The 64-bit BLAKE2b of each text (N,); another `seed`, from 0, gives unrelated hashes.

    Among n texts some two unlike ones share a hash with a chance of about n² / 2⁶⁵: for a hundred
    million, one in four thousand.
    """
    key = seed.to_bytes(8, "little") if seed else b""
    digests = (
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
        for text in texts
    )
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


class HashSet:
    """The hashes met so far, in sorted blocks of shrinking size."""

    def __init__(self) -> None:
        self._blocks: list[Hashes] = []

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    @property
    def nbytes(self) -> int:
        """The memory that the hashes take."""
        return sum(block.nbytes for block in self._blocks)

    def contains(self, hashes: Hashes) -> NDArray[np.bool_]:
        """True where a hash of `hashes` (N,) has been added before: (N,)."""
        found = np.zeros(len(hashes), np.bool_)
        for block in self._blocks:
            places = np.searchsorted(block, hashes).clip(max=len(block) - 1)
            found |= block[places] == hashes
        return found

    def add_new(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Add `hashes` (N,): True where one was new, so at the first of equal ones only: (N,)."""
        distinct, first = np.unique(hashes, return_index=True)
        fresh = ~self.contains(distinct)
        self._append(distinct[fresh])
        new = np.zeros(len(hashes), np.bool_)
        new[first[fresh]] = True
        return new

    def _append(self, block: Hashes) -> None:
        """Keep a sorted block, merged with those before it that are not much larger.

        Each hash is so merged a logarithmic number of times, and a logarithmic number of blocks
        is left to search.
        """
        while self._blocks and len(self._blocks[-1]) <= min(2 * len(block), BLOCK - len(block)):
            # two sorted runs, which the stable sort merges in linear time
            block = np.sort(np.concatenate((self._blocks.pop(), block)), kind="stable")
        if len(block):
            self._blocks.append(block)
