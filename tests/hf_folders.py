"""Folders as `transformers` saves them: tiny models with random weights, and their tokenizers."""

import json

import torch

STD = 0.3  # of all weights: large enough that a mistake shows
LINES = [
    "The cat sat on the mat. Paris is the capital of France.",
    "hello world, élève 漢字 😀: 1,234 times.",
]
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
GPT2_SIZES = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}

BERT = {
    "padding as its tokenizer says": {"pad_token_id": None},
    "as published": {},
    "for pretraining": {"architecture": "BertForPreTraining"},
    "encoder alone": {"architecture": "BertModel"},
    "untied": {"tie_word_embeddings": False},
    "relu, four heads": {"hidden_act": "relu", "num_attention_heads": 4},
    "another epsilon, three segments": {"layer_norm_eps": 1e-3, "type_vocab_size": 3},
    "gelu_new, odd vocabulary": {"hidden_act": "gelu_new", "extra_rows": 7},
}
ROBERTA = {
    "as published": {},
    "encoder alone": {"architecture": "RobertaModel", "extra_rows": 3},
    "untied": {"tie_word_embeddings": False},
    "two segments": {"type_vocab_size": 2},
    "relu, one head": {"hidden_act": "relu", "num_attention_heads": 1},
    "another epsilon, one layer": {"layer_norm_eps": 1e-3, "num_hidden_layers": 1},
    "swish, odd vocabulary": {"hidden_act": "swish", "extra_rows": 5},
}
GPT2 = {
    "as published": {},
    "untied": {"tie_word_embeddings": False},
    "gelu": {"activation_function": "gelu"},
    "relu, one head": {"activation_function": "relu", "n_head": 1},
    "another epsilon, inner width": {"layer_norm_epsilon": 1e-3, "n_inner": 20},
    "answers in another form": {"return_dict": False, "output_hidden_states": True},
    "odd vocabulary, three layers": {"extra_rows": 7, "n_layer": 3},
    "scores of other sizes": {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True},
    "squared relu, beside an encoder": {
        "activation_function": "relu2",
        "add_cross_attention": True,
    },
}
LLAMA = {
    "as published": {},
    "tied": {"tie_word_embeddings": True},
    "grouped keys": {"num_key_value_heads": 1},
    "wide heads": {"head_dim": 12},
    "few positions": {"max_position_embeddings": 16},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "another base and epsilon": {"rope_theta": 5e5, "rms_norm_eps": 1e-2},
    "biases of attention, odd vocabulary": {"attention_bias": True, "extra_rows": 3},
    "dynamic angles": {
        "max_position_embeddings": 160,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 50.0, "factor": 2.0},
    },
}
for _kind, _more in {
    "linear": {},
    "llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": {"truncate": False, "mscale": 2.0, "mscale_all_dim": 1.0},
}.items():
    _stretch = {"rope_type": _kind, "factor": 4.0, "rope_theta": 50.0, **_more}
    _trained = {} if _kind == "linear" else {"original_max_position_embeddings": 16}
    LLAMA[f"{_kind}, mish"] = {"rope_parameters": {**_stretch, **_trained}, "hidden_act": "mish"}
LABELS = {"id2label": {0: "bad", 1: "good", 2: "odd"}, "label2id": {"bad": 0, "good": 1, "odd": 2}}
CLASSIFIERS = {
    "as published": LABELS,
    "labels without names": {"num_labels": 5},
    "relu, four heads": {"hidden_act": "relu", "num_attention_heads": 4},
    "another epsilon, three segments": {"layer_norm_eps": 1e-3, "type_vocab_size": 3, **LABELS},
    "gelu_new, odd vocabulary": {"hidden_act": "gelu_new", "extra_rows": 7},
    "one layer": {"num_hidden_layers": 1, "problem_type": "single_label_classification"},
}
CONFIGURATIONS = {
    "bert": BERT,
    "roberta": ROBERTA,
    "gpt2": GPT2,
    "llama": LLAMA,
    "bert-classifier": CLASSIFIERS,
    "roberta-classifier": CLASSIFIERS,
}


def save_folder(path, family, **config):
    """A model and its tokenizer in a new folder; `extra_rows` of its vocabulary have no token."""
    import transformers

    torch.manual_seed(0)
    family, _, kind = family.partition("-")
    if kind == "classifier":
        name = {"bert": "Bert", "roberta": "Roberta"}[family]
        config = {**config, "architecture": f"{name}ForSequenceClassification"}
    tokenizer = TOKENIZERS[family](transformers)
    tokenizer.save_pretrained(path)
    rows = len(tokenizer) + config.pop("extra_rows", 0)
    model = _new_model(transformers, family, rows, config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=STD)
    model.save_pretrained(path)
    return path


def _new_model(transformers, family, rows, config):
    names = {
        "bert": ("BertConfig", "BertForMaskedLM", {}),
        "roberta": ("RobertaConfig", "RobertaForMaskedLM", {"type_vocab_size": 1}),
        "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"bos_token_id": 0, "eos_token_id": 0}),
        "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    }
    settings, architecture, own = names[family]
    architecture = config.pop("architecture", architecture)
    sizes = GPT2_SIZES if family == "gpt2" else SIZES
    made = getattr(transformers, settings)(vocab_size=rows, **{**sizes, **own, **config})
    return getattr(transformers, architecture)(made)


def wordpiece(transformers):
    """BERT's kind."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from tokenizers.trainers import WordPieceTrainer

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(
        LINES, WordPieceTrainer(vocab_size=80, special_tokens=special, show_progress=False)
    )
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    roles = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    roles["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **roles)


def _byte_bpe(special):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from tokenizers.trainers import BpeTrainer

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        LINES,
        BpeTrainer(
            vocab_size=290,
            special_tokens=special,
            initial_alphabet=sorted(alphabet),
            show_progress=False,
        ),
    )
    return made


def gpt2_bytes(transformers):
    """GPT-2's kind."""
    end = "<|endoftext|>"
    made = _byte_bpe([end])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=end, bos_token=end)


def roberta_bytes(transformers):
    """RoBERTa's kind: its masked token takes the space before it."""
    from tokenizers import AddedToken, processors

    made = _byte_bpe(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)])
    made.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    names = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "pad": "<pad>"}
    roles = {f"{role}_token": name for role, name in {**names, "unk": "<unk>"}.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, mask_token="<mask>", **roles)


def sentencepiece_bpe(transformers):
    """LLaMA's kind: spaces are letters, and characters that it lacks are spelled as bytes."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors
    from tokenizers.trainers import BpeTrainer

    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    special = ["<unk>", "<s>", "</s>"]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = BpeTrainer(vocab_size=310, special_tokens=pieces, show_progress=False)
    made.train_from_iterator(LINES, trainer)
    raw = json.loads(made.to_str())
    raw["added_tokens"] = raw["added_tokens"][: len(special)]  # bytes are ordinary pieces
    made = Tokenizer.from_str(json.dumps(raw))
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


TOKENIZERS = {
    "bert": wordpiece,
    "roberta": roberta_bytes,
    "gpt2": gpt2_bytes,
    "llama": sentencepiece_bpe,
}
