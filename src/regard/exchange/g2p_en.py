"""Weights of `g2p_en` (PyPI, Park and Kim 2019; letters to phonemes) -> our recurrent model.

    r, z = σ(W x + b + U h + c)    n = tanh(W x + b + r ∘ (U h + c))    h' = (1 - z) ∘ n + z ∘ h

It is a GRU encoder-decoder without attention: torch's GRU, with both biases. An `.npz` file is a
zip archive of arrays, which are read without pickle and with limits.
"""

import tokenize
import zipfile
import zlib
from io import BytesIO
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.atomic_io import read_limited
from regard.errors import RunError
from regard.models.translation.rnn import RnnSettings
from regard.settings import abbreviate
from regard.size_limits import max_bytes, too_large
from regard.text.build import Tokenizers
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import BOS
from regard.text.tokenizer import CharacterTokenizer, WhitespaceTokenizer

UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of reading an archive that is damaged, is encrypted, or has an invalid header."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # after <pad>, <unk> and </s>
VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH UW V W Y Z ZH"
PHONEMES = sorted(
    [
        *(f"{vowel}{stress}" for vowel in VOWELS.split() for stress in range(3)),
        *CONSONANTS.split(),
    ]
)
"""ARPAbet, vowels with stress, after <pad>, <unk>, <s> and </s>; the file also has a bare UW."""
MAX_PHONEMES = 20  # of a word, as the package limits them

Arrays = dict[str, NDArray[np.float32]]

NAMES = {
    "enc_emb": "source.weight",
    "enc_w_ih": "encoder.layers.0.forward_layer.weight_ih",
    "enc_w_hh": "encoder.layers.0.forward_layer.weight_hh",
    "enc_b_ih": "encoder.layers.0.forward_layer.bias",
    "enc_b_hh": "encoder.layers.0.forward_layer.state_bias",
    "dec_emb": "target.weight",
    "dec_w_ih": "decoder.layers.0.weight_ih",
    "dec_w_hh": "decoder.layers.0.weight_hh",
    "dec_b_ih": "decoder.layers.0.bias",
    "dec_b_hh": "decoder.layers.0.state_bias",
    "fc_w": "output.weight",
    "fc_b": "output.bias",
}
"""Names of its arrays -> ours; the file has exactly these."""


class G2pModel(NamedTuple):
    """The contents of a file of `g2p_en`."""

    settings: RnnSettings
    tokenizers: Tokenizers
    weights: dict[str, Tensor]
    arrays: Arrays  # as they are in the file


def read_g2p(path: Path) -> G2pModel:
    """The model of an `.npz` file of `g2p_en`; a `RunError` says why a file is not one."""
    try:
        arrays = _read_arrays(path)
    except UNREADABLE as error:
        raise RunError(f"{path}: no arrays can be read: {abbreviate(str(error))}") from None
    if arrays.keys() != NAMES.keys():
        wrong = min(arrays.keys() ^ NAMES.keys())
        raise RunError(f"{path}: not the weights of g2p_en: {wrong} is missing or unknown")
    width, vectors = (max((1, *arrays[name].shape[-1:])) for name in ("enc_w_hh", "enc_emb"))
    expected = _shapes(width, vectors)
    for name, array in arrays.items():
        if array.shape != expected[name]:
            raise RunError(f"{path}: {name} has shape {array.shape}, g2p_en's {expected[name]}")
    weights = {ours: torch.from_numpy(arrays[name]) for name, ours in NAMES.items()}
    letters = weights["source.weight"]
    weights["source.weight"] = torch.cat(  # ours has a row for BOS, which sources do not use
        [letters[:BOS], letters.new_zeros(1, vectors), letters[BOS:]]
    )
    settings = RnnSettings(
        cell="gru", layers=1, width=width, embedding=vectors, reading="forward", state_bias=True
    )
    return G2pModel(settings, g2p_tokenizers(), weights, arrays)


def g2p_tokenizers() -> Tokenizers:
    """Letters of words, and phonemes between spaces."""
    letters = TokenizerSettings(kind="characters", size=0, lowercase=True)
    phonemes = TokenizerSettings(kind="whitespace", size=0)
    return Tokenizers(
        CharacterTokenizer(list(LETTERS), letters),
        WhitespaceTokenizer([f" {name}" for name in PHONEMES], phonemes),
    )


def g2p_logits(arrays: Arrays, letters: list[int], phonemes: list[int]) -> NDArray[np.float64]:
    """Logits (T, V) after each of `phonemes`, by the equations above in float64.

    Ids are those of the file: `letters` end in </s>, `phonemes` begin with <s>.
    """
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}

    def step(side: str, x: NDArray[np.float64], h: NDArray[np.float64]) -> NDArray[np.float64]:
        inputs = np.split(wide[f"{side}_w_ih"] @ x + wide[f"{side}_b_ih"], 3)
        states = np.split(wide[f"{side}_w_hh"] @ h + wide[f"{side}_b_hh"], 3)
        r, z = (1 / (1 + np.exp(-i - s)) for i, s in zip(inputs[:2], states[:2], strict=True))
        new: NDArray[np.float64] = (1 - z) * np.tanh(inputs[2] + r * states[2]) + z * h
        return new

    h, logits = np.zeros(wide["enc_w_hh"].shape[1]), []
    for letter in letters:
        h = step("enc", wide["enc_emb"][letter], h)
    for phoneme in phonemes:
        h = step("dec", wide["dec_emb"][phoneme], h)
        logits.append(wide["fc_w"] @ h + wide["fc_b"])
    return np.stack(logits)


def _shapes(width: int, vectors: int) -> dict[str, tuple[int, ...]]:
    outputs = len(PHONEMES) + 4
    sizes = {"emb": vectors, "w_ih": vectors, "w_hh": width}
    shapes: dict[str, tuple[int, ...]] = {"fc_w": (outputs, width), "fc_b": (outputs,)}
    for side, rows in {"enc": len(LETTERS) + 3, "dec": outputs}.items():
        shapes |= {f"{side}_{name}": (3 * width, size) for name, size in sizes.items()}
        shapes[f"{side}_emb"] = (rows, vectors)
        shapes |= {f"{side}_{name}": (3 * width,) for name in ("b_ih", "b_hh")}
    return shapes


def _read_arrays(path: Path) -> Arrays:
    content = read_limited(path, "array")
    arrays: Arrays = {}
    with zipfile.ZipFile(BytesIO(content)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > max_bytes("array"):
            raise ValueError(f"its arrays together are {too_large('array')}")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it holds {name!r} twice")
            arrays[name] = _read_array(name, archive.read(member))
    return arrays


def _read_array(name: str, content: bytes) -> NDArray[np.float32]:
    file = BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"{name!r} is an array of format {version}; only (1, 0) is supported")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    body = content[file.tell() :]
    if dtype != np.float32 or by_columns or prod(shape) * dtype.itemsize != len(body):
        raise ValueError(f"{name!r} is not an array of float32 of shape {shape}")
    return np.frombuffer(body, np.float32).reshape(shape).copy()
