"""Text classifiers by BERT and RoBERTa: a tanh layer over the first token, and an output layer.

In BERT the tanh layer is the encoder's pooler.
"""

import re
from functools import partial
from typing import Any, NamedTuple

from regard.errors import RunError
from regard.exchange.huggingface.bert import (
    BERT_NAMES,
    ROBERTA_NAMES,
    BertNames,
    check_encoder,
    constants,
    encoder_config,
    encoder_entries,
    modern_name,
    read_encoder,
    special_ids,
)
from regard.exchange.huggingface.config import build_settings
from regard.exchange.huggingface.family import (
    HfFamily,
    HfModel,
    imported_vocabulary,
    running_text_groups,
)
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.labels import label_config, read_labels, require_classes
from regard.exchange.huggingface.tokenizer_files import with_tokenizer_files
from regard.exchange.tensor_table import TensorTable, linear_entries
from regard.models.classification.text_classifier import TextClassifierSettings
from regard.text.build import Tokenizers

TASK = "text-classification"
ENCODER = "encoder."  # prefix of our encoder's tensors
HEADS = r"encoder\.(transform|transform_norm|output_bias|untied_output|pooler|next_sentence)(\..*)?"


class _Names(NamedTuple):
    """The names of a family's classifier."""

    encoder: BertNames
    architecture: str
    hidden: str
    output: str


BERT_CLASSIFIER_NAMES = _Names(
    BERT_NAMES, "BertForSequenceClassification", "bert.pooler.dense", "classifier"
)
ROBERTA_CLASSIFIER_NAMES = _Names(
    ROBERTA_NAMES, "RobertaForSequenceClassification", "classifier.dense", "classifier.out_proj"
)


def _read(names: _Names, folder: HfFolder) -> HfModel:
    config = folder.config_reader()
    config.require("architectures", ([names.architecture],))
    config.ignore("tie_word_embeddings")
    require_classes(config, labels := read_labels(folder))
    outputs = {"fills": False, "next_sentence": False}
    encoder, tokenizers = read_encoder(names.encoder, folder, config, outputs)
    config.finish()
    values = {
        "encoder": encoder.model_dump(),
        "pooling": "first",
        "hidden": encoder.width,
        "hidden_activation": "tanh",
        "dropout": encoder.dropout,
        "max_tokens": encoder.context,
    }
    settings = build_settings(TextClassifierSettings, values, config.where)
    groups = running_text_groups(TASK, tokenizers.source)
    return _model(names, settings, tokenizers, labels, groups)


def _write(
    names: _Names, settings: TextClassifierSettings, tokenizers: Tokenizers, labels: tuple[str, ...]
) -> HfModel:
    encoder: Any = settings.known_encoder
    family = names.encoder.model_type
    if encoder.family != family:
        raise RunError(f"model.encoder.family: {encoder.family}: there it is {family}")
    check_encoder(names.encoder, encoder)
    found = settings.pooling, settings.hidden, settings.hidden_activation
    if found != ("first", encoder.width, "tanh"):
        raise RunError(
            f"{names.architecture} reads the first token by a layer with tanh as wide as the "
            f"encoder: model.pooling first, hidden {encoder.width}, hidden_activation tanh; here "
            f"they are {settings.pooling}, {settings.hidden} and {settings.hidden_activation}"
        )
    if settings.ngrams:
        raise RunError(f"model.ngrams: {settings.ngrams}: transformers does not count n-grams")
    if settings.max_tokens < encoder.context:
        raise RunError(
            f"model.max_tokens: {settings.max_tokens}: theirs may read a text of the encoder's "
            f"{encoder.context}"
        )
    return with_tokenizer_files(_model(names, settings, tokenizers, labels, {}))


def _model(
    names: _Names,
    settings: TextClassifierSettings,
    tokenizers: Tokenizers,
    labels: tuple[str, ...],
    groups: dict[str, Any],
) -> HfModel:
    encoder: Any = settings.known_encoder  # of the family of `names`
    vocabulary = imported_vocabulary(tokenizers)
    config = encoder_config(names.encoder, encoder, vocabulary)
    config |= {"architectures": [names.architecture], **label_config(labels)}
    entries = [
        *encoder_entries(names.encoder, encoder, vocabulary, ENCODER),
        *linear_entries("hidden", names.hidden),
        *linear_entries("output", names.output),
    ]
    pooler = re.escape(names.encoder.part("pooler.dense.")) + "(weight|bias)"
    unused = [constants(names.encoder), *([pooler] if "pooler" not in names.hidden else [])]
    return HfModel(
        names.architecture,
        config,
        settings,
        TensorTable(entries, unused=unused, left_out=(HEADS,)),
        tokenizers,
        special_tokens=special_ids(encoder, vocabulary),
        recipe=groups,
        labels=labels,
        present_name=modern_name,
    )


BERT_CLASSIFIER, ROBERTA_CLASSIFIER = (
    HfFamily(
        names.encoder.model_type,
        TASK,
        ("text-classifier",),
        partial(_read, names),
        partial(_write, names),
        has_labels=True,
        architectures=(names.architecture,),
    )
    for names in (BERT_CLASSIFIER_NAMES, ROBERTA_CLASSIFIER_NAMES)
)
