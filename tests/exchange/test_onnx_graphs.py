"""Every registered kind of model computes in onnxruntime what it computes here, step by step."""

import pytest
import torch

from captioners import SIZE
from captioners import VARIANTS as CAPTIONERS
from captioners import tiny as tiny_captioner
from models.test_predictors import PICTURES, RNNS
from models.test_predictors import tiny as tiny_predictor
from models.test_text_classifiers import TINY as ENCODERS
from models.test_text_classifiers import WORDS
from models.test_text_classifiers import tiny as tiny_classifier
from regard.engines.onnx.onnx_model import OnnxDecoder, onnx_answers
from regard.exchange.onnx_graphs import write_graphs
from regard.models.language.awd_lstm import AwdLstm
from regard.models.language.bert import Bert
from regard.models.language.elmo import Elmo
from regard.models.language.gpt import Gpt, GptSettings
from regard.types import Padded, Pixels, Series
from variants import V_SOURCE, V_TARGET
from variants import tiny as tiny_translator

KINDS = (
    "transformer", "transformer relative", "transformer window rotary", "feedback",
    "transformer experts", "rnn lstm", "rnn gru", "rnnsearch", "luong concat local-m fed",
    "bytenet", "convs2s", "deep-att", "gnmt", "moe projected",
)  # fmt: skip
LANGUAGE_MODELS = {
    "gpt": lambda: Gpt(ENCODERS["gpt"], len(WORDS)),
    "gpt grouped": lambda: Gpt(
        GptSettings(
            layers=2, width=16, heads=4, kv_heads=2, positions="rotary", norm="rms",
            activation="swiglu",
        ),
        len(WORDS),
    ),
    "awd-lstm": lambda: AwdLstm(ENCODERS["awd-lstm"], len(WORDS)),
    "bert": lambda: Bert(ENCODERS["bert"], len(WORDS)),
    "elmo": lambda: Elmo(ENCODERS["elmo"], WORDS),
}  # fmt: skip
SAMPLES = ((4, 9), (1, 1))  # rows and length; graphs are traced with others


def texts(size):
    def make(rows, length):
        mask = torch.arange(length) < (length - torch.arange(rows)).clamp_min(1)[:, None]
        return Padded(torch.randint(4, size, mask.shape).masked_fill(~mask, 0), mask)

    return make


def pictures(side):
    def make(rows, length):
        return Pixels(torch.randint(0, 256, (rows, 3, side, side), dtype=torch.uint8))

    return make


def perturbed(model):
    """A model whose answers differ from input to input, in evaluation mode."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.float().eval()


@torch.no_grad()
def check(model, make_inputs, folder):
    torch.manual_seed(1)
    write_graphs(model, make_inputs, folder)
    for rows, length in SAMPLES:
        inputs = make_inputs(rows, length)
        generator = model.as_generator()
        if generator is not None:
            check_steps(generator, OnnxDecoder(folder, threads=1), inputs, rows)
            continue
        wanted, found = model.answers(inputs), onnx_answers(folder, inputs)
        real = getattr(inputs, "mask", ...) if wanted.ndim == 3 else ...
        torch.testing.assert_close(found[real], wanted[real], atol=1e-4, rtol=1e-4)


def check_steps(model, decoder, inputs, rows):
    ours, theirs, before = model.start(model.encode(inputs)), decoder.start(inputs), 1
    for width in (1, 3, 2, 2):
        parents, tokens = torch.randint(before, (rows, width)), torch.randint(4, 10, (rows, width))
        wanted, ours = model.step(tokens, ours.reorder(parents))
        found, theirs = decoder.step(tokens, theirs.reorder(parents))
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
        before = width


@pytest.mark.parametrize("name", KINDS)
def test_a_translator_takes_the_same_steps(name, tmp_path):
    model, *_ = tiny_translator(name, dtype=torch.float32)
    check(model, texts(min(V_SOURCE, V_TARGET)), tmp_path)


@pytest.mark.parametrize("name", sorted(LANGUAGE_MODELS))
def test_a_language_model_says_the_same(name, tmp_path):
    check(perturbed(LANGUAGE_MODELS[name]()), texts(len(WORDS)), tmp_path)


@pytest.mark.parametrize("name", ["gpt", "awd-lstm", "roberta"])
def test_a_classifier_of_texts_says_the_same(name, tmp_path):
    check(perturbed(tiny_classifier(name)[0]), texts(len(WORDS)), tmp_path)


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_classifier_of_pictures_says_the_same(name, tmp_path):
    model = perturbed(tiny_predictor(name)[0])
    check(model, pictures(PICTURES[name][1].picture_size), tmp_path)


@pytest.mark.parametrize("name", sorted(CAPTIONERS))
def test_a_captioner_takes_the_same_steps(name, tmp_path):
    check(perturbed(tiny_captioner(name)[0]), pictures(SIZE), tmp_path)


@pytest.mark.parametrize("name", RNNS)
def test_a_forecaster_says_the_same(name, tmp_path):
    model, example = tiny_predictor(name, dtype=torch.float32)

    def make(rows, length):
        order = torch.randperm(len(example.mask))[:rows]
        return Series(torch.randn(rows, *example.values.shape[1:]), example.mask[order])

    check(model, make, tmp_path)
