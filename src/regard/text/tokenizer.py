"""What every tokenizer promises: text <-> ids, without loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # arrays are for training: who only translates imports no NumPy
    from regard.text.ragged import Ragged


class Tokenizer(ABC):
    """A vocabulary and a way to cut text into its pieces.

    Ids never hold BOS, EOS or PAD: those belong to batches. `decode(encode(text))` is the
    normalised text whenever no piece is unknown.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Ids run from 0 to `size` - 1, the four special ones first."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, normalised as the settings say."""

    @abstractmethod
    def sample_segmentation(self, texts: "Ragged", seed: int) -> "Ragged":
        """The ids of each text, cut at random (subword regularisation), from those of `encode`.

        The answer depends on the texts and the seed alone. Tokenizers that can cut a text in one
        way only give the ids back.
        """

    @abstractmethod
    def surfaces(self, text: str) -> list[str]:
        """For each id of `encode([text])` the stretch of `text` that it is for, UNK or not.

        Together they are the text as it was given; the normalised one where that has other than
        one character for each. Of a character in several ids, the last has it.
        """

    @abstractmethod
    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        """The text that the ids spell; special ids are left out, but UNK shows as `⁇`.

        If `unknown` is given, it holds for each UNK what shows instead.
        """

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each id as a reader may see it: `▁` for a space, `<0x0A>` for a byte not to be seen."""

    @abstractmethod
    def words(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> list[int | None]:
        """For each id, the number of the first word of `decode(ids, unknown)` that it is in.

        Words are those of `split_units`: in scripts without spaces single letters. None for a mere
        space.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """A short hash that changes when any answer of the tokenizer may."""

    @abstractmethod
    def save(self, folder: Path, name: str) -> None:
        """Write `name`.* into `folder`, from where `text.build.load_tokenizer` reads it."""
