import pytest
import torch
from torch import nn

from regard.batching.collate import pad, pad_source
from regard.errors import SettingsError
from regard.inspection.interventions import Silenced
from regard.inspection.recording.attention_map import Axis
from regard.inspection.recording.recorder import (
    AttentionRecorder,
    compose_hooks,
    count_heads,
    record_attention,
)
from regard.models.build import FAMILIES
from regard.models.contracts import Generator
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import BOS
from regard.text.tokenizer import Tokenizer
from regard.types import Memory, Site

L, H, V, D = 3, 2, 11, 6
SOURCES = [[4, 5, 6, 7], [8]]  # two words of two pieces; one of one
TARGETS = [[9, 10], [4, 6, 5, 7, 8]]


class Halves(Tokenizer):
    """Even ids begin a word and odd ones go on with it."""

    def __init__(self):
        super().__init__(TokenizerSettings(), [b""] * (V - 4), b"")

    def pieces(self, ids):
        return [f"▁{number}" if number % 2 == 0 else str(number) for number in ids]

    def decode(self, ids, unknown=()):
        return "".join(self.pieces(ids)).replace("▁", " ").strip()

    def word_ids(self, ids, unknown=()):
        begun = 0
        numbers = []
        for place, number in enumerate(ids):
            begun += number % 2 == 0 and place > 0
            numbers.append(begun)
        return numbers

    def encode(self, texts):
        raise NotImplementedError

    sample_segmentation = _card = _split_surfaces = encode


class Fake(Generator):
    """Its attention is drawn at random, but always the same for the same place."""

    def __init__(self, stepwise=False):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(D))
        self.stepwise = stepwise
        self.modes = []

    def look(self, part, layer, rows, columns, hook, step=None):
        seed = 100 * layer + 10 * (step or 0) + len(part)
        drawn = torch.rand(rows[0], H, rows[1], columns, generator=torch.manual_seed(seed))
        return hook(Site(part, layer, step), drawn) if hook else drawn

    def encode(self, source, *, hook=None):
        self.modes.append(self.training)
        for layer in range(L):
            self.look("encoder", layer, source.ids.shape, source.ids.shape[1], hook)
        return Memory(torch.zeros(*source.ids.shape, D), source.mask)

    def decode(self, target, memory, *, hook=None):
        rows, columns = target.ids.shape, memory.mask.shape[1]
        for layer in range(L):
            self.look("decoder", layer, rows, rows[1], hook)
            if self.stepwise:
                for step in range(rows[1]):
                    self.look("cross", layer, (rows[0], 1), columns, hook, step)
            else:
                self.look("cross", layer, rows, columns, hook)
        return torch.zeros(*rows, D)

    logits = start = step = None


def batch():
    return pad_source(SOURCES), pad(TARGETS, first=BOS)


def test_each_part_is_kept_whole():
    seen = record_attention(Fake(), *batch()).weights
    assert sorted(seen) == [(p, n) for p in ("cross", "decoder", "encoder") for n in range(L)]
    assert seen["encoder", 0].shape == (2, H, 5, 5)
    assert seen["decoder", 2].shape == (2, H, 6, 6)
    assert seen["cross", 1].shape == (2, H, 6, 5)
    assert not any(weights.requires_grad for weights in seen.values())


def test_parts_can_be_left_out():
    assert set(record_attention(Fake(), *batch(), parts=("cross",)).weights) == {
        ("cross", n) for n in range(L)
    }


@pytest.mark.parametrize("stepwise", [False, True])
def test_heads_are_counted_part_by_part(stepwise):
    found = count_heads(Fake(stepwise=stepwise))
    assert found == {part: dict.fromkeys(range(L), H) for part in ("encoder", "decoder", "cross")}
    assert list(found["cross"]) == list(range(L))


def test_steps_are_rows():
    got = record_attention(Fake(stepwise=True), *batch()).weights["cross", 1]
    fake = Fake()
    want = [fake.look("cross", 1, (2, 1), 5, None, step) for step in range(6)]
    torch.testing.assert_close(got, torch.cat(want, 2))


def test_recorder_changes_nothing_and_keeps_a_copy():
    recorder, weights = AttentionRecorder(), torch.ones(1, H, 2, 3)
    assert recorder(Site("cross", 0), weights) is weights
    weights.zero_()
    assert recorder.weights()["cross", 0].sum() == H * 2 * 3


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_asked_in_evaluation_mode_and_put_back(training):
    model = Fake().train(training)
    record_attention(model, *batch())
    assert model.modes == [False]
    assert model.training is training


def test_attention_of_a_sentence_has_no_padding_and_names_its_pieces():
    recording = record_attention(Fake(), *batch())
    cross = recording.attention(0, Halves(), Halves())
    assert cross.weights.shape == (L, H, 3, 5)
    assert cross.columns.pieces == ("▁4", "5", "▁6", "7", "</s>")
    assert cross.columns.words == ("45", "67")
    assert cross.columns.word_of == (0, 0, 1, 1, None)
    assert cross.rows.pieces == ("9", "▁10", "</s>")  # what is answered
    torch.testing.assert_close(cross.weights[1], recording.weights["cross", 1][0, :, :3, :5])


def test_columns_of_decoder_attention_are_the_inputs():
    recording = record_attention(Fake(), *batch())
    own = recording.attention(1, Halves(), Halves(), "decoder")
    assert own.rows.pieces == ("▁4", "▁6", "5", "7", "▁8", "</s>")
    assert own.columns.pieces == ("<s>", "▁4", "▁6", "5", "7", "▁8")
    assert own.columns.word_of == (None, 0, 1, 1, 1, 2)
    encoder = recording.attention(1, Halves(), Halves(), "encoder")
    assert encoder.rows == encoder.columns == Axis(("▁8", "</s>"), ("8",), (0, None))
    assert encoder.weights.shape == (L, H, 2, 2)


def test_a_part_that_is_not_there_is_named():
    recording = record_attention(Fake(), *batch(), parts=("cross",))
    with pytest.raises(SettingsError, match="no decoder attention was recorded, found cross"):
        recording.attention(0, Halves(), Halves(), "decoder")
    with pytest.raises(SettingsError, match="no cross attention was recorded, found none"):
        record_attention(Fake(), *batch(), parts=()).attention(0, Halves(), Halves())


def test_composed_hooks_apply_one_after_the_other():
    weights = torch.rand(2, H, 3, 4)
    twice = compose_hooks(lambda site, w: w + site.layer, lambda site, w: w * 10)
    torch.testing.assert_close(twice(Site("cross", 1), weights), (weights + 1) * 10)
    assert compose_hooks()(Site("cross", 1), weights) is weights


def test_weights_are_recorded_after_interventions():
    seen = record_attention(Fake(), *batch(), hook=Silenced("cross", 1, 0)).weights
    assert not seen["cross", 1][:, 0].any()
    assert seen["cross", 1][:, 1].any()
    assert seen["cross", 0][:, 0].any()


TINY = {
    "rnnsearch": {"width": 8, "embedding": 6, "alignment": 5, "readout": 4},
    "luong": {"width": 8, "embedding": 6, "layers": 1},
    "transformer": {
        "encoder_layers": 1,
        "decoder_layers": 2,
        "width": 8,
        "heads": 2,
        "feed_forward": 12,
    },
}


def tiny(family):
    torch.manual_seed(0)
    settings, construct = FAMILIES[family]
    return construct(settings.model_validate(TINY[family]), V, V)


@pytest.mark.parametrize("family", sorted(TINY))
def test_real_models_attend_by_distributions(family):
    cross = record_attention(tiny(family), *batch()).attention(1, Halves(), Halves())
    assert cross.weights.shape[2:] == (6, 2)
    torch.testing.assert_close(cross.weights.sum(-1), torch.ones(cross.weights.shape[:3]))


@pytest.mark.parametrize("family", sorted(TINY))
def test_recording_is_what_a_search_sees(family):
    model = tiny(family).eval()
    source, target = batch()
    stepped = AttentionRecorder(("cross",))
    with torch.inference_mode():
        state = model.start(model.encode(source))
        for tokens in target.ids.split(1, dim=1):  # a grid (B, 1)
            _, state = model.step(tokens, state, hook=stepped)
    at_once = record_attention(model, source, target, parts=("cross",)).weights
    assert at_once
    for place, weights in at_once.items():
        torch.testing.assert_close(weights, stepped.weights()[place], atol=1e-5, rtol=1e-5)


def test_a_silenced_head_changes_the_answer():
    model, (source, target) = tiny("transformer").eval(), batch()
    with torch.inference_mode():
        plain = model(source, target)
        quiet = model(source, target, hook=Silenced("cross", 1, 0))
        other = model(source, target, hook=Silenced("cross", 5, 0))
    assert not torch.allclose(plain, quiet)
    torch.testing.assert_close(plain, other)
