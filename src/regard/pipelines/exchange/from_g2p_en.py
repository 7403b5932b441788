"""A folder with the weights of `g2p_en` -> a model to import."""

from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.batching.collate import pad, pad_source
from regard.decoding.batch_search import SearchMember, one_thread, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import RunError
from regard.exchange.g2p_en import (
    LETTERS,
    MAX_PHONEMES,
    PHONEMES,
    Arrays,
    G2pModel,
    g2p_logits,
    read_g2p,
)
from regard.manifest import sha256_of_file
from regard.models.contracts import AnyGenerator
from regard.pipelines.exchange.foreign_model import ForeignModel, ImportFormat
from regard.pipelines.exchange.gate import GateReport, largest_difference, refusal
from regard.recipes.open_run import Run, open_run
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES

THEIR_LETTERS, THEIR_EOS = 3, 2  # the package's ids of the first letter and of EOS, in sources
STORED_ANSWERS = {
    "b8af35e4596d8dd5836dfd3fe9b2ba4f97b9c311efe8879544cbcfcbd566d8c6": {
        "attention": "AH0 T EH1 N SH AH0 N"
    }
}
"""The package's own answers by the digest of its weights: those of version 2.1.0."""
WORDS = ("attention", "regard", "a", "xylophone", "zzz")
NUM_RANDOM = 8


class _Row(NamedTuple):
    letters: list[int]  # our ids, without EOS
    phonemes: list[int]


def _read(folder: Path) -> ForeignModel:
    files = sorted(folder.glob("*.npz"))
    if len(files) != 1:
        raise RunError(f"{folder}: has {len(files)} .npz files; expected one, the model")
    model, digest = read_g2p(files[0]), sha256_of_file(files[0])

    def check(place: Path) -> GateReport:
        return _check(open_run(place, device=torch.device("cpu")), model, digest)

    source, target = (one.settings.model_dump(mode="json") for one in model.tokenizers)
    return ForeignModel(
        format="g2p_en, a GRU encoder-decoder",
        about="letters to phonemes, from the package g2p_en",
        settings=model.settings,
        weights=model.weights,
        digests={files[0].name: digest},
        check=check,
        tokenizers=model.tokenizers,
        recipe={
            "corpus": {"imported": True},
            "text": {"joint": False, "source": source, "target": target},
            "decoding": greedy_settings().model_dump(mode="json"),
        },
    )


def greedy_settings() -> DecodingSettings:
    """The package's search: the likeliest phoneme at each step, 20 at the most."""
    rules = RuleSettings(max_length=MAX_PHONEMES, allow_unknown=True)
    return DecodingSettings(beam=BeamSettings(size=1), rules=rules)


def _check(run: Run, model: G2pModel, digest: str) -> GateReport:
    """Compare logits with the package's equations, then greedy answers, and stored ones."""
    rows = _sample(model)
    theirs = torch.from_numpy(np.concatenate([_reference(model.arrays, row) for row in rows]))
    differences = {}
    with one_thread(), torch.inference_mode():
        differences["float32"] = largest_difference(_logits(run.model, rows), theirs)
        differences["float64"] = largest_difference(_logits(run.model.double(), rows), theirs)
        run.model.float()
    answers = _compare_answers(run, model, rows, STORED_ANSWERS.get(digest, {}))
    return GateReport(
        reference="the equations of g2p_en in NumPy"
        + (", and its stored answers" if digest in STORED_ANSWERS else ""),
        rows=len(rows),
        positions=len(theirs),
        answers=len(answers),
        same_answers=sum(answers),
        refused=refusal(differences, float(theirs.abs().max()), sum(answers), len(answers)),
        **differences,
    )


def _sample(model: G2pModel) -> list[_Row]:
    """Some words and random letters; all phonemes, in random order, are spread over them."""
    rng, first = Random(0), len(SPECIAL_PIECES)
    words = model.tokenizers.source.encode(WORDS)
    words += [rng.choices(range(first, first + len(LETTERS)), k=n + 1) for n in range(NUM_RANDOM)]
    phonemes = rng.sample(range(first, first + len(PHONEMES)), len(PHONEMES))
    size = -(-len(phonemes) // len(words))
    cut = [phonemes[i * size : (i + 1) * size] for i in range(len(words))]
    return [_Row(*pair) for pair in zip(words, cut, strict=True)]


def _their_letters(ids: list[int]) -> list[int]:
    shift = THEIR_LETTERS - len(SPECIAL_PIECES)
    return [*(i + shift for i in ids), THEIR_EOS]


def _reference(arrays: Arrays, row: _Row) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return g2p_logits(arrays, _their_letters(row.letters), [BOS, *row.phonemes])


def _logits(model: AnyGenerator, rows: list[_Row]) -> Tensor:
    given = pad([row.phonemes for row in rows], first=BOS)
    memory = model.encode(pad_source([row.letters for row in rows]))
    return model.logits(model.decode(given, memory).features)[given.mask]


def _compare_answers(
    run: Run, model: G2pModel, rows: list[_Row], stored: dict[str, str]
) -> list[bool]:
    source, target = run.tokenizers
    letters = [row.letters for row in rows] + source.encode([*stored])
    found = search_many([SearchMember(run.model, letters)], greedy_settings(), budget=2048)
    ours = [list(best.tokens) for best, *_ in found]
    theirs = [_greedy(model.arrays, row.letters) for row in rows]
    same = [one == other for one, other in zip(ours, theirs, strict=False)]
    decoded = [target.decode(tokens) for tokens in ours[len(rows) :]]
    return same + [one == other for one, other in zip(decoded, stored.values(), strict=True)]


def _greedy(arrays: Arrays, letters: list[int]) -> list[int]:
    """The package's greedy answer, without <pad> and <s>, which our search never generates."""
    phonemes: list[int] = []
    while len(phonemes) < MAX_PHONEMES:
        logits = _reference(arrays, _Row(letters, phonemes))[-1]
        logits[[0, BOS]] = -np.inf
        best = int(logits.argmax())
        if best == EOS:
            break
        phonemes.append(best)
    return phonemes


def _is_g2p(folder: Path) -> bool:
    return any(folder.glob("*.npz"))


G2P_EN = ImportFormat(_is_g2p, _read)
