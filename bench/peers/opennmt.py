"""CTranslate2 (OpenNMT) as its own users run it: int8, and for a stream workers of one thread each.

One worker with all threads is far slower on two cores; comparing with that would flatter us.
"""

from collections.abc import Sequence
from pathlib import Path

import ctranslate2

from bench.peers.contract import Engine, PeerConfig
from bench.peers.sentencepiece_text import PeerTokenizer, longest_answer

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
LONGEST = 1024
BATCH = 1024
"""Tokens of a batch; CTranslate2 sorts what it is given by length."""


def export(run: Path, folder: Path) -> None:
    """Write a model of CTranslate2's in float32; it is made int8 when it is loaded."""
    from bench.peers.run_export import load_exportable_run, save_text
    from regard.exchange.ctranslate2_spec import write_model

    taken = load_exportable_run(run)
    settings = taken.run.recipe.model
    write_model(taken.run.model, settings, folder, precision="float32", positions=LONGEST)
    save_text(taken, folder)


class CTranslate2Engine:
    """CTranslate2's translator."""

    def __init__(self, folder: Path, setup: PeerConfig) -> None:
        self.pieces = PeerTokenizer(folder)
        size = self.pieces.facts["vocabulary"]
        self.names = [*SPECIAL, *map(str, range(len(SPECIAL), size))]  # as they are exported
        self.ids = {name: number for number, name in enumerate(self.names)}
        self.translator = ctranslate2.Translator(
            str(folder),
            device=setup.device,
            compute_type=setup.precision,
            inter_threads=setup.workers,
            intra_threads=setup.threads,
        )

    def translate(self, texts: Sequence[str], beam: int) -> list[str]:
        sources = self.pieces.encode(texts)
        found = self.translator.translate_batch(
            [[self.names[i] for i in ids] for ids in sources],
            beam_size=beam,
            length_penalty=self.pieces.facts["length_penalty"],
            max_batch_size=BATCH,
            batch_type="tokens",
            max_decoding_length=longest_answer(sources),
            disable_unk=True,
        )
        return self.pieces.decode([[self.ids[n] for n in one.hypotheses[0]] for one in found])


def open_engine(folder: Path, setup: PeerConfig) -> Engine:
    """The model in a folder."""
    return CTranslate2Engine(folder, setup)
