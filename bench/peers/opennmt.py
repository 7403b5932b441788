"""CTranslate2 (OpenNMT) as its own users run it: int8, workers of one thread each.

One worker with all threads is a third slower on two cores, which would flatter us.
"""

from collections.abc import Sequence
from pathlib import Path

import ctranslate2

from bench.peers.contract import Engine, Setup
from bench.peers.pieces import Pieces

BATCH = 1024
"""Tokens of a batch; CTranslate2 sorts what it is given by length."""
FOLDER = "ctranslate2"


class Running:
    """CTranslate2's translator."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        self.pieces = Pieces(folder)
        self.translator = ctranslate2.Translator(
            str(folder / FOLDER),
            device=setup.device,
            compute_type=setup.precision,
            inter_threads=setup.workers,
            intra_threads=setup.threads,
        )

    def translate(self, texts: Sequence[str], beam: int) -> list[str]:
        found = self.translator.translate_batch(
            [[*pieces, "</s>"] for pieces in self.pieces.split(texts)],
            beam_size=beam,
            length_penalty=self.pieces.facts["length_penalty"],
            max_batch_size=BATCH,
            batch_type="tokens",
            disable_unk=True,
        )
        return self.pieces.join([one.hypotheses[0] for one in found])


def open_engine(folder: Path, setup: Setup) -> Engine:
    """The model in a folder."""
    return Running(folder, setup)
