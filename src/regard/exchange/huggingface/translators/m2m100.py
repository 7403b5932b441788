"""M2M100 (Fan et al. 2021) and NLLB (Costa-jussà et al. 2022): languages are tokens.

A source begins with the token of its language, and a target with that of its own, which the search
is forced to write first. Positions begin after the id of padding.
"""

from typing import Any

from regard.exchange.huggingface.family import HfModel
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.translators.language_tokens import (
    read_language_tokenizers,
    write_with_languages,
)
from regard.exchange.huggingface.translators.seq2seq import (
    Seq2SeqClass,
    read_seq2seq,
    seq2seq_family,
)
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.build import Tokenizers


def _fixed(pad: int) -> dict[str, Any]:
    return {
        "norm": "pre",
        "final_norm": True,
        "positions": "sinusoid",
        "sinusoids": "tensor2tensor",
        "first_position": pad + 1,
        "embedding_norm": False,
    }


M2M100_CLASS = Seq2SeqClass(
    "m2m_100",
    "M2M100ForConditionalGeneration",
    _fixed,
    has_output_bias=False,
    constants=(r"model\.(encoder|decoder)\.embed_positions\.weights?",),
    old_switches={"normalize_before": True, "add_final_layer_norm": True},
)


def _read(folder: HfFolder) -> HfModel:
    config, start = folder.config_reader(), "decoder_start_token_id"
    if folder.config.get(start) == folder.config.get("pad_token_id"):
        raise config.refusal(start, "answers cannot begin with padding, which has no position")
    return read_seq2seq(M2M100_CLASS, folder, read_language_tokenizers(folder))


def _write(settings: TransformerSettings, tokenizers: Tokenizers) -> HfModel:
    return write_with_languages(M2M100_CLASS, settings, tokenizers)


M2M100 = seq2seq_family(M2M100_CLASS, _read, _write)
