"""All families of models that are exchanged with `transformers`."""

from regard.errors import RunError
from regard.exchange.huggingface.bert import BERT, ROBERTA
from regard.exchange.huggingface.bert_classifier import BERT_CLASSIFIER, ROBERTA_CLASSIFIER
from regard.exchange.huggingface.family import HfFamily
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.gpt2 import GPT2
from regard.exchange.huggingface.llama import LLAMA
from regard.exchange.huggingface.translators.bart import BART, MBART
from regard.exchange.huggingface.translators.m2m100 import M2M100
from regard.exchange.huggingface.translators.marian import MARIAN, PEGASUS
from regard.exchange.huggingface.vision.swin import SWIN
from regard.exchange.huggingface.vision.vit import VIT

_TRANSLATORS = (MARIAN, PEGASUS, M2M100, BART, MBART)
_OTHERS = (BERT, ROBERTA, GPT2, LLAMA, VIT, SWIN)
FAMILIES: dict[str, HfFamily] = {
    **{family.model_type: family for family in (*_TRANSLATORS, *_OTHERS)},
    "bert-classifier": BERT_CLASSIFIER,
    "roberta-classifier": ROBERTA_CLASSIFIER,
}
"""By `model_type`; classifiers share that of their encoder, so they have names of their own."""


def find_family(folder: HfFolder) -> HfFamily:
    """The family of a folder's model."""
    found = [family for family in FAMILIES.values() if family.model_type == folder.model_type]
    if not found:
        known = ", ".join(sorted({family.model_type for family in FAMILIES.values()}))
        raise RunError(
            f"{folder.path}: model_type {folder.model_type} cannot be imported; "
            f"supported are {known}"
        )
    named = (family for family in found if folder.architecture in family.architectures)
    return next(named, found[0])
