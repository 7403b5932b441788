"""A model of another toolkit, in the form that all import formats return."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.pipelines.exchange.gate import GateReport
from regard.settings import Settings
from regard.text.build import Tokenizers


@dataclass(frozen=True)
class ForeignModel:
    """A model to import, and how to compare its outputs with the other toolkit's."""

    format: str  # the toolkit, and the family of the model
    about: str  # a description for users
    settings: Settings  # of our model
    weights: Mapping[str, Tensor]  # under our names
    digests: Mapping[str, str]  # the SHA-256 of the files of weights that were read
    check: Callable[[Path], GateReport]
    """The folder of the run that was made -> the gate's report."""
    tokenizers: Tokenizers | None = None  # None: it reads no text
    recipe: Mapping[str, Any] = field(default_factory=dict)  # the recipe's groups except `model`
    run_files: Mapping[str, bytes] = field(default_factory=dict)  # further files of the run
    notes: tuple[str, ...] = ()  # facts that the folder does not state
