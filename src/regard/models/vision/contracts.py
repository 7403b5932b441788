"""What a captioner has beside the methods of a model that writes."""

from abc import abstractmethod
from typing import Generic

from regard.models.contracts import Generator, StateT
from regard.types import Memory, Pixels, Regions


class PictureGenerator(Generator[Pixels | Regions, Memory, StateT], Generic[StateT]):
    """A model that writes about pictures; its memory has a state for each region."""

    @property
    @abstractmethod
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the regions that a word looks at, row by row."""
