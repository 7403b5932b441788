"""Random models of every family that `regard import` reads, as `transformers` saves them.

Every setting is drawn from a table of values that `transformers` accepts; the weights are random.
"""

import io
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import sentencepiece
import torch
import transformers
from PIL import Image
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer, WordPieceTrainer
from transformers.activations import ACT2CLS
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

Draws = Mapping[str, tuple[Any, ...]]
"""A setting -> the values that it is drawn from."""
Drawn = dict[str, Any]

LINES = [
    "The cat sat on the mat, and the dog ran away from the house. Paris is the capital of France.",
    "eine Katze saß auf der Matte und der Hund lief aus dem Haus",
    "Jane visite l'Afrique en septembre et elle parle à ses amis: élève, naïve",
    "HELLO World, 漢字 😀: 1,234 times. don't we're 0 1 2 3 4 5 6 7 8 9 ! ? ' \" - ( ) ;",
]
MAX_TRIES = 20  # draws that `transformers` may not accept
STD = 0.3  # of all weights: large enough that a difference shows
NORMS = ("norm", "ln_")  # whose weights have the mean 1
YES_NO = (True, False)
HEADS = (1, 2, 4)
OF_ALL: Draws = {
    "dtype": ("float32", "float32", "bfloat16", "float16"),
    "max_shard_size": ("50GB", "50GB", "20KB"),
    "use_cache": YES_NO,
    "output_hidden_states": YES_NO,
    "chunk_size_feed_forward": (0, 1),
    "problem_type": (None, "single_label_classification"),
    "num_labels": (2, 3, 5),
}
SEQ2SEQ: Draws = {
    **OF_ALL,
    "d_model": (16, 24, 32),
    "encoder_layers": (1, 2, 3),
    "decoder_layers": (1, 2, 3),
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": (16, 24, 40),
    "decoder_ffn_dim": (16, 24, 40),
    "activation_function": tuple(ACT2CLS),
    "scale_embedding": YES_NO,
    "tie_word_embeddings": YES_NO,
    "max_position_embeddings": (128, 160, 256),
    "dropout": (0.0, 0.1),
    "attention_dropout": (0.0, 0.1),
    "activation_dropout": (0.0, 0.1),
    "encoder_layerdrop": (0.0, 0.1),
    "decoder_layerdrop": (0.0, 0.1),
    "init_std": (0.02, 0.1),
    "classifier_dropout": (0.0, 0.1),
    "is_decoder": (*[False] * 7, True),
    "forced_eos": (None, None, "eos"),
    "decoder_start": ("pad", "eos", "bos", "other"),
    "extra_rows": (0, 3),
}
PEGASUS: Draws = {
    **SEQ2SEQ,
    "dtype": ("float32",),  # its file has the table of positions, which others would round
}
TRANSFORMER: Draws = {
    **OF_ALL,
    "hidden_size": (16, 24, 32),
    "num_hidden_layers": (1, 2, 3),
    "num_attention_heads": HEADS,
    "intermediate_size": (16, 24, 40),
    "hidden_act": tuple(ACT2CLS),
    "initializer_range": (0.02, 0.1),
}
ENCODER: Draws = {
    **TRANSFORMER,
    "layer_norm_eps": (1e-12, 1e-5, 1e-3),
    "max_position_embeddings": (128, 160, 256),
    "type_vocab_size": (1, 2, 3),
    "tie_word_embeddings": YES_NO,
    "hidden_dropout_prob": (0.0, 0.1),
    "attention_probs_dropout_prob": (0.0, 0.1),
    "classifier_dropout": (None, 0.1),
    "is_decoder": (*[False] * 9, True),
    "add_cross_attention": (*[False] * 9, True),
    "pad_role": (*["own"] * 7, "other", None),
    "extra_rows": (0, 3),
}
GPT2: Draws = {
    **OF_ALL,
    "n_embd": (16, 24, 32),
    "n_layer": (1, 2, 3),
    "n_head": HEADS,
    "n_inner": (None, 16, 40),
    "n_positions": (160, 256),
    "activation_function": tuple(ACT2CLS),
    "layer_norm_epsilon": (1e-12, 1e-5, 1e-3),
    "scale_attn_weights": YES_NO,
    "scale_attn_by_inverse_layer_idx": YES_NO,
    "reorder_and_upcast_attn": YES_NO,
    "add_cross_attention": (False, False, False, True),
    "tie_word_embeddings": YES_NO,
    "resid_pdrop": (0.0, 0.1),
    "embd_pdrop": (0.0, 0.1),
    "attn_pdrop": (0.0, 0.1),
    "initializer_range": (0.02, 0.1),
    "summary_type": ("cls_index", "last"),
    "summary_use_proj": YES_NO,
    "summary_activation": (None, "tanh"),
    "summary_proj_to_labels": YES_NO,
    "summary_first_dropout": (0.0, 0.1),
    "extra_rows": (0, 3),
}
ROPE: tuple[Drawn, ...] = (
    {"rope_type": "default", "rope_theta": 10_000.0},
    {"rope_type": "default", "rope_theta": 500.0},
    {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0},
    {
        "rope_type": "llama3",
        "rope_theta": 10_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    {
        "rope_type": "yarn",
        "rope_theta": 10_000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    {
        "rope_type": "yarn",
        "rope_theta": 5_000.0,
        "factor": 2.0,
        "original_max_position_embeddings": 32,
        "attention_factor": 1.2,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "truncate": False,
    },
    {
        "rope_type": "yarn",
        "rope_theta": 10_000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "mscale": 1.0,
        "mscale_all_dim": 0.8,
    },
    {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0},
    {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0},
    {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "factor": 2.0,
        "original_max_position_embeddings": 64,
        "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
    },
)
LLAMA: Draws = {
    **TRANSFORMER,
    "num_key_value_heads": (None, 1),
    "head_dim": (None, 8, 12),
    "rms_norm_eps": (1e-6, 1e-5, 1e-2),
    "rope_parameters": ROPE,
    "older_rope": YES_NO,
    "max_position_embeddings": (160, 256),
    "attention_bias": YES_NO,
    "mlp_bias": YES_NO,
    "attention_dropout": (0.0, 0.1),
    "pretraining_tp": (1, 2),
    "tie_word_embeddings": YES_NO,
    "extra_rows": (0, 3),
}
PICTURE: Draws = {
    **OF_ALL,
    "hidden_act": tuple(ACT2CLS),
    "layer_norm_eps": (1e-12, 1e-5, 1e-3),
    "qkv_bias": YES_NO,
    "num_channels": (3,),  # of others `transformers` reads no colour pictures
    "hidden_dropout_prob": (0.0, 0.1),
    "attention_probs_dropout_prob": (0.0, 0.1),
    "initializer_range": (0.02, 0.1),
    "encoder_stride": (4, 16),
}
VIT: Draws = {
    **TRANSFORMER,
    **PICTURE,
    "image_size": (16, 24, 32, [16, 16], [24, 24], [16, 24]),
    "patch_size": (4, 8, [4, 4]),
    "pooler_act": ("tanh", "relu"),
    "pooler_output_size": (None, 8),
}
SWIN: Draws = {
    **PICTURE,
    "image_size": (16, 32),
    "patch_size": (2, 4),
    "embed_dim": (8, 16),
    "depths": ([1, 1], [2, 1], [2, 2]),
    "num_heads": ([1, 2], [2, 4], [2, 2]),
    "window_size": (2, 2, 2, 4, 4, 4, 8, 3),
    "mlp_ratio": (1.0, 2.0, 4.0),
    "drop_path_rate": (0.0, 0.1),
    "use_absolute_embeddings": YES_NO,
}
SEARCH: Draws = {
    "search_in": ("generation_config.json", "generation_config.json", "config.json"),
    "num_beams": (1, 2, 4, 5),
    "early_stopping": (False, True, "never"),
    "length_penalty": (0.0, 0.6, 1.0, 2.0),
    "max_length": (None, 18, 24),
    "max_new_tokens": (None, 12),
    "min_length": (None, 5),
    "min_new_tokens": (None, 4),
    "no_repeat_ngram_size": (0, 0, 2, 3),
    "bad_words_ids": (None, "pad", "special"),
    "suppress_tokens": ("special", "special", "special", "pad", None),
    "forced_eos_token_id": (None, "eos"),
    "renormalize_logits": YES_NO,
    "remove_invalid_values": YES_NO,
    "num_return_sequences": (1, 1, 2),
    "temperature": (1.0, 0.7),
    "top_k": (50, 0),
    "top_p": (1.0, 0.9),
    "typical_p": (1.0, 0.9),
    "min_p": (None, 0.1),
    "epsilon_cutoff": (0.0, 0.1),
    "eta_cutoff": (0.0, 0.1),
    "use_cache": YES_NO,
}
"""Of `generation_config.json`; strings stand for ids of the model's own vocabulary."""
CONTINUATION: Draws = {
    **SEARCH,
    "no_repeat_ngram_size": (0,),  # these two are rare: there they count the prompt too
    "min_length": (None,),
}
RARE_SEARCH: Draws = {
    "length_penalty": (-0.5,),
    "encoder_no_repeat_ngram_size": (3,),
    "repetition_penalty": (1.3, 0.8),
    "encoder_repetition_penalty": (1.5,),
    "bad_words_ids": ("words",),
    "suppress_tokens": ("some",),
    "begin_suppress_tokens": ("some",),
    "sequence_bias": ("some",),
    "exponential_decay_length_penalty": ([5, 1.1],),
    "forced_bos_token_id": ("bos",),
    "guidance_scale": (1.5,),
    "no_repeat_ngram_size": (1, 2, 3),
    "min_length": (5,),
    "do_sample": (True,),
    "more_ends": (True,),
}
"""Settings, and values of those above, that no search here has: a model has at most one of them."""
RARE_SHARE = 0.15  # of models that have one


def draw_search(table: Draws, rng: Random) -> Drawn:
    """The settings of a search, with one of `RARE_SEARCH` now and then."""
    drawn = draw(table, rng)
    if drawn and rng.random() < RARE_SHARE:
        name = rng.choice([*RARE_SEARCH])
        drawn[name] = rng.choice(RARE_SEARCH[name])
    return drawn


ADDED: tuple[Drawn | None, ...] = (
    None,
    {"content": "<x>", "special": True},
    {"content": "<x>", "lstrip": True},
    {"content": "<x>", "rstrip": True, "normalized": False},
    {"content": "cat", "single_word": True},
    {"content": "Hello", "normalized": True, "lstrip": True, "rstrip": True},
)
TOKENIZER: Draws = {
    "added": ADDED,
    "model_max_length": (1_000_000, 16),
    "truncation_side": ("right", "left"),
    "padding_side": ("right", "left"),
    "clean_up_tokenization_spaces": YES_NO,
}
MASK: Draws = {"mask_lstrip": YES_NO, "mask_rstrip": (False, False, True)}
WORDPIECE: Draws = {
    **TOKENIZER,
    **MASK,
    "do_lower_case": YES_NO,
    "strip_accents": (None, True, False),
    "tokenize_chinese_chars": YES_NO,
    "order": (0, 1, 2),
    "files": ("tokenizer.json", "tokenizer.json", "vocab.txt"),
}
BYTE_LEVEL: Draws = {
    **TOKENIZER,
    "add_prefix_space": YES_NO,
    "order": (0, 1, 2),
    "files": ("tokenizer.json", "tokenizer.json", "vocab.json"),
}
ROBERTA_BYTES: Draws = {**BYTE_LEVEL, **MASK, "trim_offsets": YES_NO}
GPT2_BYTES: Draws = {**BYTE_LEVEL, "pad": YES_NO, "add_bos_token": YES_NO}
LLAMA_PIECES: Draws = {
    **TOKENIZER,
    "add_prefix_space": (None, True, False),
    "add_bos_token": YES_NO,
    "add_eos_token": (*[False] * 9, True),
    "legacy": YES_NO,
    "pad": YES_NO,
    "order": (0, 1, 2),
}
MARIAN_PIECES: Draws = {
    **TOKENIZER,
    "separate_vocabs": YES_NO,
    "source_lang": (None, "en"),
    "languages": YES_NO,
    "order": (0, 1, 2),
}
PEGASUS_PIECES: Draws = {**MARIAN_PIECES, "separate_vocabs": (False,)}
LANGUAGE_PIECES: Draws = {**TOKENIZER, "kind": ("m2m100", "nllb")}
MBART_PIECES: Draws = {**TOKENIZER, "order": (0, 1)}
PROCESSOR: Draws = {
    "do_normalize": YES_NO,
    "image_mean": ([0.5, 0.5, 0.5], [0.485, 0.456, 0.406]),
    "image_std": ([0.5, 0.5, 0.5], [0.229, 0.224, 0.225]),
    "resample": (0, 1, 2, 3),
    "do_rescale": YES_NO,
    "rescale_factor": (1 / 255, 1 / 127.5),
    "do_resize": YES_NO,
    "do_convert_rgb": (None, True),
    "do_center_crop": (None, False, True),
}


@dataclass(frozen=True)
class FuzzedFamily:
    """How models of a family are drawn."""

    config: type[Any]
    model: type[Any]
    kind: str  # how its answers are compared
    draws: Draws
    tokenizer_draws: Draws
    make_tokenizer: Callable[[Path, Drawn], Any]
    search: Draws = field(default_factory=dict)
    more: tuple[type[Any], ...] = ()  # other classes that are imported, one of which may be drawn


@dataclass(frozen=True)
class FuzzedModel:
    """A folder, and what was drawn for it."""

    folder: Path
    family: FuzzedFamily
    drawn: dict[str, Drawn]  # of each file
    languages: dict[str, str]  # of a multilingual model


def save_model(name: str, seed: int, number: int, folder: Path) -> FuzzedModel:
    """Draw a model of a family and save it; the same numbers draw the same model.

    Settings with which `transformers` itself cannot compute anything are drawn again.
    """
    family, rng = FAMILIES[name], Random(f"{name} {seed} {number}")
    for _ in range(MAX_TRIES):
        rmtree(folder, ignore_errors=True)
        try:
            return _save_model(family, folder, rng)
        except (ArithmeticError, AssertionError, RuntimeError, TypeError, ValueError):
            continue
    raise RuntimeError(f"transformers computes none of {MAX_TRIES} models of {name}")


def _save_model(family: FuzzedFamily, folder: Path, rng: Random) -> FuzzedModel:
    drawn = {
        "config": draw(family.draws, rng),
        "tokenizer": draw(family.tokenizer_draws, rng),
        "generation": draw_search(family.search, rng),
    }
    folder.mkdir(parents=True)
    tokenizer = family.make_tokenizer(folder, drawn["tokenizer"])
    model_class = rng.choice((family.model, *family.more))
    config = _config(family, drawn["config"], drawn["tokenizer"], tokenizer, rng)
    torch.manual_seed(rng.randrange(1 << 30))
    model = model_class(config)
    _randomise(model)
    model.generation_config = transformers.GenerationConfig()
    stored = getattr(torch, drawn["config"]["dtype"])
    model.to(stored).save_pretrained(folder, max_shard_size=drawn["config"]["max_shard_size"])
    model.float()
    if family.kind == "picture":  # whose size is that of `config.json`
        sides = [config.image_size] * 2 if isinstance(config.image_size, int) else config.image_size
        tokenizer.size = dict(zip(("height", "width"), sides, strict=True))
        tokenizer.crop_size = tokenizer.size if drawn["tokenizer"]["do_center_crop"] else None
        tokenizer.save_pretrained(folder)
    if family.search:  # not by `save_pretrained`, which refuses what older files have
        chosen = _generation(drawn["generation"], config, tokenizer, rng)
        _add_to(folder / drawn["generation"]["search_in"], chosen)
    if drawn["config"].get("older_rope"):
        _write_older_rope(folder / "config.json")
    _compute(family, folder, model.eval(), tokenizer)
    drawn["config"]["architectures"] = [model_class.__name__]
    codes = {"source": "src_lang", "target": "tgt_lang"}
    languages = {side: getattr(tokenizer, key, None) for side, key in codes.items()}
    known = {side: code for side, code in languages.items() if isinstance(code, str)}
    return FuzzedModel(folder, family, drawn, known)


def _add_to(path: Path, settings: Drawn) -> None:
    """Add settings to a file; only one of the two has those of a search."""
    if path.name == "config.json":
        (path.parent / "generation_config.json").unlink(missing_ok=True)
        settings = {**json.loads(path.read_text()), **settings}
    path.write_text(json.dumps(settings))


def _write_older_rope(path: Path) -> None:
    """Name the angles as in older files: `rope_theta` and `rope_scaling`."""
    config = json.loads(path.read_text())
    group = config.pop("rope_parameters")
    config["rope_theta"] = group.pop("rope_theta")
    kind = group.pop("rope_type")
    if (part := group.pop("partial_rotary_factor", None)) is not None:
        config["partial_rotary_factor"] = part
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **group}
    path.write_text(json.dumps(config))


@torch.inference_mode()
def _compute(family: FuzzedFamily, folder: Path, model: Any, tokenizer: Any) -> None:
    """Raise an error if `transformers` cannot compute a model's answer."""
    if family.kind == "picture":
        side = model.config.image_size
        wide, high = (side, side) if isinstance(side, int) else side[::-1]
        given = tokenizer(Image.new("RGB", (wide, high)), return_tensors="pt")
    else:
        given = tokenizer("a", return_tensors="pt")
    if family.kind == "translation":
        given["decoder_input_ids"] = torch.tensor([[model.config.decoder_start_token_id]])
    model(**given)
    if family.search:
        given.pop("decoder_input_ids", None)
        given.pop("token_type_ids", None)
        type(model).from_pretrained(folder).generate(**given, max_new_tokens=4, min_new_tokens=0)


def draw(table: Draws, rng: Random) -> Drawn:
    """A value of each setting."""
    return {name: rng.choice(values) for name, values in table.items()}


def _config(
    family: FuzzedFamily, drawn: Drawn, of_tokenizer: Drawn, tokenizer: Any, rng: Random
) -> Any:
    settings = {name: value for name, value in drawn.items() if name not in OWN_KEYS}
    if family.kind == "picture":
        return family.config(**settings)
    rows = max(tokenizer.get_vocab().values()) + 1 + drawn["extra_rows"]
    settings["vocab_size"] = rows
    for role in ("pad", "bos", "eos"):
        settings[f"{role}_token_id"] = getattr(tokenizer, f"{role}_token_id", None)
    if family.kind == "masked" or family.kind == "classes":
        pads = {"own": tokenizer.pad_token_id, None: None, "other": rng.randrange(9)}
        settings["pad_token_id"] = pads[drawn["pad_role"]]
    if family.kind == "translation":
        starts = {role: settings[f"{role}_token_id"] for role in ("pad", "bos", "eos")}
        start = starts.get(drawn["decoder_start"])
        settings["decoder_start_token_id"] = rows // 2 if start is None else start
        settings["forced_eos_token_id"] = drawn["forced_eos"] and settings["eos_token_id"]
        if family.config is transformers.MarianConfig:
            separate = of_tokenizer["separate_vocabs"]
            settings["share_encoder_decoder_embeddings"] = not separate
            target = len(tokenizer.target_encoder) if separate else rows
            settings["decoder_vocab_size"] = target + (drawn["extra_rows"] if separate else 0)
    return family.config(**settings)


UNDRAWN: Drawn = {
    "the tokenizer, which is drawn, says it": (
        *("vocab_size", "decoder_vocab_size", "share_encoder_decoder_embeddings"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id"),
    ),
    "drawn as `decoder_start`": ("decoder_start_token_id",),
    "drawn as `forced_eos`": ("forced_eos_token_id",),
    "fixed by the class": ("is_encoder_decoder", "num_hidden_layers", "model_type"),
    "labels, in the number `num_labels`": ("id2label", "label2id"),
    "the class itself": ("architectures", "transformers_version", "extra_files"),
    "how answers are returned": ("return_dict",),
}
"""Settings of configurations that are not drawn, by why."""
OWN_KEYS = (
    "extra_rows",
    "decoder_start",
    "forced_eos",
    "pad_role",
    "older_rope",
    "max_shard_size",
    "dtype",
)
"""Settings that are not those of `config.json` but lead to some there."""


def _randomise(model: Any) -> None:
    with torch.no_grad():
        for name, one in [*model.named_parameters(), *model.named_buffers()]:
            if not one.is_floating_point() or not _is_free(name, one):
                continue
            is_norm = name.endswith("weight") and any(part in name.lower() for part in NORMS)
            one.copy_(torch.randn(one.shape) * STD + float(is_norm))


def _is_free(name: str, one: torch.Tensor) -> bool:
    """Whether a tensor is not a constant, such as a table of sinusoids."""
    constant = ("inv_freq", "embed_positions") if not one.requires_grad else ("\0",)
    return not any(part in name for part in constant)


def _generation(drawn: Drawn, config: Any, tokenizer: Any, rng: Random) -> Drawn:
    """The settings of `generation_config.json`."""
    ids = {role: getattr(config, f"{role}_token_id", None) for role in ("pad", "bos", "eos")}
    target = getattr(config, "decoder_vocab_size", None) or config.vocab_size
    both = dict.fromkeys((ids["pad"], ids["bos"]))
    unwritten = [one for one in both if one not in (None, ids["eos"])]
    special = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values(), *ids.values()}
    ordinary = [i for i in range(target) if i not in special]
    some = rng.sample(ordinary, 6)
    named: dict[str, dict[str, Any]] = {
        "bad_words_ids": {
            "pad": [[ids["pad"]]],
            "special": [[one] for one in unwritten] or None,
            "words": [some[:2], some[2:3]],
        },
        "suppress_tokens": {"some": some[:2], "special": unwritten or None, "pad": [ids["pad"]]},
        "begin_suppress_tokens": {"some": some[2:4]},
        "sequence_bias": {"some": [[some[4:6], -3.0], [some[:1], 2.0]]},
        "forced_eos_token_id": {"eos": ids["eos"]},
        "forced_bos_token_id": {"bos": some[0] if ids["bos"] is None else ids["bos"]},
    }
    settings = {
        name: named.get(name, {}).get(value, value) if isinstance(value, str) else value
        for name, value in drawn.items()
        if name not in ("more_ends", "search_in") and value is not None
    }
    settings = {name: value for name, value in settings.items() if value not in (None, [None])}
    settings.pop("bad_words_ids", None) if settings.get("bad_words_ids") == [[None]] else None
    settings["eos_token_id"] = [ids["eos"], some[5]] if drawn.get("more_ends") else ids["eos"]
    settings |= {"pad_token_id": ids["pad"], "bos_token_id": ids["bos"]}
    if settings["num_return_sequences"] > settings["num_beams"]:
        settings["num_return_sequences"] = 1
    if drawn["search_in"] == "config.json":  # whose ids stay
        for role in ("pad", "bos", "eos"):
            settings.pop(f"{role}_token_id")
    elif config.is_encoder_decoder:
        settings["decoder_start_token_id"] = config.decoder_start_token_id
    return settings


# -- tokenizers ---------------------------------------------------------------------------------


def make_wordpiece(folder: Path, drawn: Drawn) -> Any:
    """BERT's tokenizer."""
    special = _ordered(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], drawn["order"])
    vocabulary = {piece: i for i, piece in enumerate([*special, *_wordpieces()])}
    names = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
    made = transformers.BertTokenizer(
        vocab=vocabulary,
        mask_token=_mask("[MASK]", drawn),
        **{name: drawn[name] for name in names},
        **_shared(drawn),
    )
    _save_tokenizer(folder, made, drawn)
    if drawn["files"] == "vocab.txt" and drawn["added"] is None:
        (folder / "tokenizer.json").unlink()
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    return made


def make_roberta_bytes(folder: Path, drawn: Drawn) -> Any:
    """RoBERTa's and BART's tokenizer."""
    special = _ordered(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], drawn["order"])
    vocabulary, merges = _byte_level(special)
    made = transformers.RobertaTokenizer(
        vocab=vocabulary,
        merges=merges,
        mask_token=_mask("<mask>", drawn),
        add_prefix_space=drawn["add_prefix_space"],
        trim_offsets=drawn["trim_offsets"],
        **_shared(drawn),
    )
    _save_tokenizer(folder, made, drawn)
    _keep_byte_files(folder, vocabulary, merges, drawn)
    return made


def make_gpt2_bytes(folder: Path, drawn: Drawn) -> Any:
    """GPT-2's tokenizer."""
    special = _ordered(["<|endoftext|>", "<pad>"], drawn["order"] % 2)
    vocabulary, merges = _byte_level(special if drawn["pad"] else special[:1])
    if "<|endoftext|>" not in vocabulary:
        vocabulary["<|endoftext|>"] = len(vocabulary)
    made = transformers.GPT2Tokenizer(
        vocab=vocabulary,
        merges=merges,
        pad_token="<pad>" if drawn["pad"] else None,
        add_prefix_space=drawn["add_prefix_space"],
        add_bos_token=drawn["add_bos_token"],
        **_shared(drawn),
    )
    _save_tokenizer(folder, made, drawn)
    _keep_byte_files(folder, vocabulary, merges, drawn)
    return made


def make_llama_pieces(folder: Path, drawn: Drawn) -> Any:
    """LLaMA's tokenizer."""
    padding = ["<pad>"] if drawn["pad"] else []
    special = _ordered(["<unk>", "<s>", "</s>", *padding], drawn["order"])
    letters = [f"<0x{byte:02X}>" for byte in range(256)]
    trained = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    trained.normalizer = normalizers.Replace(" ", "▁")
    trainer = BpeTrainer(
        vocab_size=len(special) + 256 + 90, special_tokens=[*special, *letters], show_progress=False
    )
    trained.train_from_iterator(LINES * 3, trainer)
    parts = json.loads(trained.to_str())["model"]
    made = transformers.LlamaTokenizer(
        vocab=parts["vocab"],
        merges=[tuple(pair) for pair in parts["merges"]],
        pad_token="<pad>" if drawn["pad"] else None,
        add_prefix_space=drawn["add_prefix_space"],
        add_bos_token=drawn["add_bos_token"],
        add_eos_token=drawn["add_eos_token"],
        legacy=drawn["legacy"],
        **_shared(drawn),
    )
    return _save_tokenizer(folder, made, drawn)


def make_marian_pieces(folder: Path, drawn: Drawn) -> Any:
    """Marian's tokenizer, with one vocabulary or two."""
    separate = drawn["separate_vocabs"]
    processors = {"source": _sentencepiece(90), "target": _sentencepiece(80)}
    for side, model in processors.items():
        (folder / f"{side}.spm").write_bytes(model)
    source, target = (_pieces_of(model) for model in processors.values())
    tags = [">>de<<", ">>fr<<"] if drawn["languages"] else []
    special = _ordered(["</s>", "<unk>", "<pad>"], drawn["order"])
    shared = list(dict.fromkeys([*reversed(source), *target]))
    sides = [[*source[::-1], *tags], target] if separate else [[*shared, *tags]]
    for name, pieces in zip(("vocab.json", "target_vocab.json"), sides, strict=False):
        ids = {piece: i for i, piece in enumerate([*special, *pieces])}
        (folder / name).write_text(json.dumps(ids), encoding="utf-8")
    config = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "source_lang": drawn["source_lang"],
        **_shared(drawn),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it recommends a package
        made = transformers.MarianTokenizer.from_pretrained(folder)
    return made if separate else _save_tokenizer(folder, made, drawn)


def make_language_pieces(folder: Path, drawn: Drawn) -> Any:
    """M2M100's tokenizer, or NLLB's."""
    if drawn["kind"] == "nllb":
        parts = _spaced_bpe(["<s>", "<pad>", "</s>", "<unk>"])
        merges = [tuple(pair) for pair in parts["merges"]]
        languages = {"src_lang": "eng_Latn", "tgt_lang": "deu_Latn"}
        made = transformers.NllbTokenizer(parts["vocab"], merges, **languages, **_shared(drawn))
        return _save_tokenizer(folder, made, drawn)
    model = _sentencepiece(90)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    listed = ["<s>", "<pad>", "</s>", "<unk>", *reversed(_pieces_of(model))]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(listed)}))
    tokens = [f"__{code}__" for code in FAIRSEQ_LANGUAGE_CODES["m2m100"]]
    config = {
        "tokenizer_class": "M2M100Tokenizer",
        "additional_special_tokens": tokens,
        "src_lang": "en",
        "tgt_lang": "de",
        **_shared(drawn),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return _save_tokenizer(folder, transformers.M2M100Tokenizer.from_pretrained(folder), drawn)


def make_mbart_pieces(folder: Path, drawn: Drawn) -> Any:
    """mBART-50's tokenizer."""
    special = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [(piece, -float(n)) for n, piece in enumerate(_pieces_of(_sentencepiece(90)))]
    pieces = pieces if drawn["order"] == 0 else pieces[::-1]
    languages = {"src_lang": "en_XX", "tgt_lang": "de_DE"}
    made = transformers.MBart50Tokenizer([*special, *pieces], **languages, **_shared(drawn))
    return _save_tokenizer(folder, made, drawn)


def make_processor(folder: Path, drawn: Drawn) -> Any:
    """The image processor of ViT and Swin; its size is that of `config.json`."""
    given = {name: value for name, value in drawn.items() if value is not None}
    made = transformers.ViTImageProcessor(**given)
    made.save_pretrained(folder)
    return made


def _shared(drawn: Drawn) -> Drawn:
    names = ("model_max_length", "truncation_side", "padding_side", "clean_up_tokenization_spaces")
    return {name: drawn[name] for name in names}


def _save_tokenizer(folder: Path, made: Any, drawn: Drawn) -> Any:
    """Save it with the token that was drawn to be added, if any."""
    if drawn["added"] is not None:
        token = AddedToken(**drawn["added"])
        made.add_tokens([token], special_tokens=drawn["added"].get("special", False))
    made.save_pretrained(folder)
    return made


def _keep_byte_files(
    folder: Path, vocabulary: dict[str, int], merges: Iterable[Any], drawn: Drawn
) -> None:
    """Leave GPT-2's two files in place of `tokenizer.json`, if that was drawn."""
    if drawn["files"] == "vocab.json" and drawn["added"] is None:
        (folder / "tokenizer.json").unlink()
        (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
        (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _mask(name: str, drawn: Drawn) -> Any:
    return AddedToken(name, lstrip=drawn["mask_lstrip"], rstrip=drawn["mask_rstrip"], special=True)


def _ordered(special: list[str], order: int) -> list[str]:
    """The special tokens in one of several orders, so that roles get other ids."""
    return [*special[order:], *special[:order]]


@cache
def _wordpieces() -> tuple[str, ...]:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    text = [*LINES, *(line.lower() for line in LINES)]
    made.train_from_iterator(text, WordPieceTrainer(vocab_size=170, show_progress=False))
    return tuple(sorted(made.get_vocab(), key=made.get_vocab().__getitem__))


def _byte_level(special: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(LINES * 3, trainer)
    parts = json.loads(made.to_str())["model"]
    return parts["vocab"], [tuple(pair) for pair in parts["merges"]]


def _spaced_bpe(special: list[str]) -> Any:
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = BpeTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    made.train_from_iterator(LINES * 3, trainer)
    return json.loads(made.to_str())["model"]


@cache
def _sentencepiece(size: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 3),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def _pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


@dataclass(frozen=True)
class _Tokens:
    """A kind of tokenizers, or of image processors."""

    draws: Draws
    make: Callable[[Path, Drawn], Any]


def _family(
    stem: str, model: str, kind: str, draws: Draws, tokens: _Tokens, *more: str
) -> FuzzedFamily:
    """A family of the classes with these names; `more` are other classes that are imported."""
    config, first, *others = (
        getattr(transformers, f"{stem}{name}") for name in ("Config", model, *more)
    )
    search = {"translation": SEARCH, "continuation": CONTINUATION}.get(kind, {})
    return FuzzedFamily(
        config, first, kind, draws, tokens.draws, tokens.make, search, tuple(others)
    )


_GENERATION, _CLASSES = "ForConditionalGeneration", "ForSequenceClassification"
_WORDPIECE = _Tokens(WORDPIECE, make_wordpiece)
_ROBERTA = _Tokens(ROBERTA_BYTES, make_roberta_bytes)
_MARIAN = _Tokens(MARIAN_PIECES, make_marian_pieces)
_PEGASUS = _Tokens(PEGASUS_PIECES, make_marian_pieces)
_LANGUAGES = _Tokens(LANGUAGE_PIECES, make_language_pieces)
_MBART = _Tokens(MBART_PIECES, make_mbart_pieces)
_GPT2 = _Tokens(GPT2_BYTES, make_gpt2_bytes)
_LLAMA = _Tokens(LLAMA_PIECES, make_llama_pieces)
_PICTURES = _Tokens(PROCESSOR, make_processor)
FAMILIES: dict[str, FuzzedFamily] = {
    "marian": _family("Marian", "MTModel", "translation", SEQ2SEQ, _MARIAN),
    "pegasus": _family("Pegasus", _GENERATION, "translation", PEGASUS, _PEGASUS),
    "m2m_100": _family("M2M100", _GENERATION, "translation", SEQ2SEQ, _LANGUAGES),
    "bart": _family("Bart", _GENERATION, "translation", SEQ2SEQ, _ROBERTA),
    "mbart": _family("MBart", _GENERATION, "translation", SEQ2SEQ, _MBART),
    "gpt2": _family("GPT2", "LMHeadModel", "continuation", GPT2, _GPT2),
    "llama": _family("Llama", "ForCausalLM", "continuation", LLAMA, _LLAMA),
    "bert": _family("Bert", "ForMaskedLM", "masked", ENCODER, _WORDPIECE, "ForPreTraining"),
    "roberta": _family("Roberta", "ForMaskedLM", "masked", ENCODER, _ROBERTA),
    "bert-classifier": _family("Bert", _CLASSES, "classes", ENCODER, _WORDPIECE),
    "roberta-classifier": _family("Roberta", _CLASSES, "classes", ENCODER, _ROBERTA),
    "vit": _family("ViT", "ForImageClassification", "picture", VIT, _PICTURES),
    "swin": _family("Swin", "ForImageClassification", "picture", SWIN, _PICTURES),
}
