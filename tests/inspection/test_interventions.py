import json
import re
from dataclasses import asdict, replace

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from regard.batching.collate import pad, pad_source
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import SettingsError
from regard.inspection.interventions import (
    Flattened,
    ForcedPositions,
    ForcedWords,
    InterventionRequestJson,
    Silenced,
    find_word,
    list_head_ablations,
    resolve_requests,
)
from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.inspection.recording.recorder import compose_hooks, record_attention
from regard.models.build import FAMILIES
from regard.text.special_tokens import BOS, EOS
from regard.types import Site

B, H, T, S, V = 2, 3, 4, 5, 11
SOURCE = [4, 5, 6, 7]
SMALL = {"width": 8, "embedding": 6}
DEEP = SMALL | {"encoder_layers": 2, "decoder_layers": 2, "alignment": 7}
STACK = {"encoder_layers": 2, "decoder_layers": 2, "width": 16, "heads": 4, "feed_forward": 12}
MODELS = {
    "transformer": STACK,
    "feedback": STACK,
    "rnnsearch": SMALL | {"alignment": 7, "readout": 5},
    "luong": SMALL | {"layers": 1},
    "deep-att": DEEP | {"memory": 5},
    "gnmt": DEEP,
    "convs2s": SMALL | {"encoder_layers": 2, "decoder_layers": 2},
    "moe": {"width": 8, "alignment": 7, "expert_width": 5, "experts": {"count": 3}},
    "rnn": SMALL,
    "bytenet": {"encoder_blocks": 2, "decoder_blocks": 2, "width": 12, "max_dilation": 2},
}
ATTEND = sorted(set(MODELS) - {"rnn", "bytenet"})


def tiny(family):
    torch.manual_seed(0)
    settings, construct = FAMILIES[family]
    return construct(settings.model_validate(MODELS[family]), V, V).double().eval()


def weights():
    return torch.rand(B, H, T, S, generator=torch.manual_seed(0)).softmax(-1)


def words(*lengths, special=("</s>",)):
    """An axis of words of so many pieces each."""
    word_of = tuple(number for number, length in enumerate(lengths) for _ in range(length))
    names = tuple(f"w{number}" for number in range(len(lengths)))
    pieces = tuple(f"p{place}" for place in range(len(word_of)))
    return Axis((*pieces, *special), names, (*word_of, *(None for _ in special)))


def cross(rows, columns):
    size = len(rows.pieces), len(columns.pieces)
    return AttentionMaps("cross", torch.rand(1, 1, *size), rows, columns)


CROSS = cross(words(1, 2, 1), words(2, 1))


@pytest.mark.parametrize("kind", [Silenced, Flattened])
def test_an_intervention_changes_one_head_alone(kind):
    change, given = kind("cross", 1, 0), weights()
    answer = change(Site("cross", 1, step=5), given)
    assert not torch.equal(answer[:, 0], given[:, 0])
    torch.testing.assert_close(answer[:, 1:], given[:, 1:])
    torch.testing.assert_close(given, weights())  # what was given stays as it was
    assert change(Site("cross", 0), given) is given
    assert change(Site("decoder", 1), given) is given


def test_silenced_weights_are_zero():
    assert not Silenced("encoder", 0, 2)(Site("encoder", 0), weights())[:, 2].any()
    assert not Silenced("encoder", 0)(Site("encoder", 0), weights()).any()


def test_flattened_weights_are_uniform_over_visible_positions():
    given = weights().tril()  # (4, 5): row t sees the columns up to t
    flat = Flattened("decoder", 1)(Site("decoder", 1), given)
    want = (torch.ones(T, S).tril() / torch.arange(1, T + 1)[:, None]).expand_as(given)
    torch.testing.assert_close(flat, want)


def test_flattening_includes_positions_with_zero_weight_in_one_head():
    given = weights()
    given[:, 0, :, 2] = 0  # rounded away
    flat = Flattened("cross", 0, 0)(Site("cross", 0), given)
    torch.testing.assert_close(flat[:, 0], torch.full((B, T, S), 1 / S))


def test_flattening_keeps_fully_masked_rows_zero():
    assert not Flattened("cross", 0)(Site("cross", 0), torch.zeros(B, H, T, S)).any()


def test_forced_steps_attend_only_to_the_columns():
    given = weights()
    answer = ForcedPositions((1, 2), (0, 3))(Site("cross", 7), given)
    want = torch.tensor([0.5, 0, 0, 0.5, 0]).expand(B, H, 2, S)
    torch.testing.assert_close(answer[:, :, 1:3], want)
    torch.testing.assert_close(answer[:, :, [0, 3]], given[:, :, [0, 3]])


def test_in_a_search_all_hypotheses_of_a_step_are_forced():
    given, change = weights(), ForcedPositions((1, 2), (4,))
    want = torch.tensor([0.0, 0, 0, 0, 1]).expand(B, H, T, S)
    torch.testing.assert_close(change(Site("cross", 0, step=2), given), want)
    torch.testing.assert_close(change(Site("cross", 0, step=3), given), given)


def test_a_link_may_be_forced_in_one_layer_and_head():
    given, change = weights(), ForcedPositions((0,), (1,), layer=1, head=2)
    assert change(Site("cross", 0), given) is given
    assert change(Site("decoder", 1), given) is given
    answer = change(Site("cross", 1), given)
    torch.testing.assert_close(answer[:, :2], given[:, :2])
    torch.testing.assert_close(answer[:, 2, 0], torch.eye(S)[1].expand(B, S))


@pytest.mark.parametrize("change", [Silenced("cross", 1, 3), ForcedPositions((0,), (0,), head=3)])
def test_a_head_that_is_not_there_cannot_be_changed(change):
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        change(Site("cross", 1), weights())


@pytest.mark.parametrize(
    ("steps", "columns"), [((), (1,)), ((1,), ()), ((-1,), (0,)), ((0,), (-1,))]
)
def test_a_link_needs_positions(steps, columns):
    with pytest.raises(ValueError, match="steps and columns must name positions"):
        ForcedPositions(steps, columns)


def test_all_families_are_tried():
    assert set(MODELS) == set(FAMILIES)


@pytest.mark.parametrize(
    "change",
    [
        Silenced("cross", 0),
        Flattened("cross", 0),
        ForcedPositions((0, 2), (1,)),
        ForcedPositions((1,), (0, 3), 0, 0),
    ],
)
@pytest.mark.parametrize("family", ATTEND)
def test_a_search_and_a_recording_are_changed_alike(family, change):
    """A search with an intervention scores its answer as teacher forcing with it does."""
    model = tiny(family)
    settings = DecodingSettings(
        beam=BeamSettings(size=3),
        rules=RuleSettings(min_length=5, max_length=6, excluded="lost"),
    )
    members = [SearchMember(model, [SOURCE, [8]])]
    plain, changed = (
        search_many(members, settings, budget=500, hook=hook)[0][0] for hook in (None, change)
    )
    assert changed.log_probability != pytest.approx(plain.log_probability, abs=1e-9)
    source, target = pad_source([SOURCE]), pad([changed.tokens], first=BOS)
    with torch.inference_mode():
        told = model(source, target, hook=change).log_softmax(-1)[0]  # (T, V)
    answered = [*changed.tokens, EOS][: len(changed.tokens) + changed.finished]
    steps = torch.arange(len(answered))
    assert float(told[steps, answered].sum()) == pytest.approx(changed.log_probability)
    recorded = record_attention(model, source, target, hook=change).weights["cross", 0][
        0
    ]  # (H, T, S)
    again = change(Site("cross", 0), recorded[None])[0]
    torch.testing.assert_close(again, recorded)  # it has been changed already


def test_interventions_add_up():
    both = compose_hooks(Silenced("cross", 0, 0), Flattened("cross", 0, 1))
    answer = both(Site("cross", 0), weights())
    assert not answer[:, 0].any()
    torch.testing.assert_close(answer[:, 1], torch.full((B, T, S), 1 / S))


def test_each_head_and_each_layer_once():
    assert list_head_ablations({"encoder": {0: 2, 3: 1}, "cross": {1: 1}}) == [
        Silenced("encoder", 0, 0),
        Silenced("encoder", 0, 1),
        Silenced("encoder", 0),
        Silenced("encoder", 3, 0),
        Silenced("cross", 1, 0),
    ]
    assert list_head_ablations({}) == []


def forced(request, maps):
    """The intervention of one request."""
    _, [intervention] = resolve_requests([request], maps)
    return intervention


def test_a_forced_word_is_forced_at_all_its_pieces():
    assert forced(ForcedWords(1, 0), CROSS) == ForcedPositions((1, 2), (0, 1))
    assert forced(ForcedWords("w2", "w1", layer=1, head=2), CROSS) == ForcedPositions(
        (3,), (2,), 1, 2
    )


def test_a_full_stop_behind_a_word_is_not_forced_with_it():
    columns = Axis(("▁l", "'", "mer", ".", "▁!"), ("l'mer.", "!"), (0, 0, 0, 0, 1))
    stops = cross(words(1), columns)
    assert forced(ForcedWords(0, 0), stops).columns == (0, 2)
    assert forced(ForcedWords(0, "!"), stops).columns == (4,)  # a word that is nothing else


@pytest.mark.parametrize(
    ("asked", "number"), [(0, 0), (2, 2), ("Jane", 0), ("africa", 2), ("«Africa»", 2), ("is", 1)]
)
def test_a_word_is_a_number_or_itself(asked, number):
    assert find_word(["Jane", "is", "Africa."], asked, of="translation") == number


def test_a_word_as_it_is_written_goes_before_one_that_is_nearly_it():
    assert find_word(["Le", "le", "le."], "le", of="sentence") == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (3, "word 3 of the sentence: it has 3, counted from 0: 0 la, 1 la, 2 mer"),
        (-1, "word -1 of the sentence: it has 3"),
        ("la", "word 'la': the sentence has it 2 times; give its number, one of 0, 1"),
        ("ciel", "word 'ciel': the sentence has no such word; it has 0 la, 1 la, 2 mer"),
        ("...", r"word '\.\.\.': the sentence has no such word"),
    ],
)
def test_words_that_cannot_be_found(asked, message):
    with pytest.raises(SettingsError, match=message):
        find_word(["la", "la", "mer"], asked, of="sentence")


def test_punctuation_alone_names_no_other_punctuation():
    with pytest.raises(SettingsError, match="no such word"):
        find_word(["!", "mer"], "?", of="sentence")


def test_an_empty_translation_has_no_words():
    with pytest.raises(SettingsError, match=r"word 0 of the translation: it has 0, .*: no words"):
        forced(ForcedWords(0, 0), cross(words(), words(1)))


def test_a_word_without_a_position_of_its_own():
    """Such as the second of two words that stand for one unknown one."""
    rows = Axis(("p0", "</s>"), ("New", "York"), (0, None))
    with pytest.raises(SettingsError, match="'York' of the translation: the model has no position"):
        forced(ForcedWords(1, 0), cross(rows, words(1)))


def test_requests_name_words_by_index_and_become_interventions():
    requests = [Silenced("cross", 0), ForcedWords("w1", "w0", head=0)]
    resolved, interventions = resolve_requests(requests, CROSS)
    assert resolved == [requests[0], ForcedWords(1, 0, head=0)]
    assert interventions == [requests[0], ForcedPositions((1, 2), (0, 1), head=0)]
    assert resolve_requests(requests[:1], None) == (requests[:1], requests[:1])


def test_nothing_can_be_forced_without_cross_attention():
    with pytest.raises(SettingsError, match="force 1=w0: the model does not attend to the source"):
        resolve_requests([ForcedWords(1, "w0")], None)


FORMS = TypeAdapter(tuple[InterventionRequestJson, ...])


def test_json_there_and_back():
    raw = [
        {"kind": "silence", "part": "cross", "layer": 0, "head": 1},
        {"kind": "flatten", "part": "encoder", "layer": 2, "head": None},
        {"kind": "force", "target": 2, "source": 4, "layer": None, "head": 3},
        {"kind": "force", "target": "Africa", "source": 0, "layer": None, "head": None},
    ]
    requests = FORMS.validate_python(raw)
    assert requests == (
        Silenced("cross", 0, 1),
        Flattened("encoder", 2),
        ForcedWords(2, 4, head=3),
        ForcedWords("Africa", 0),
    )
    assert json.loads(json.dumps(list(map(asdict, requests)))) == raw
    short = [{"kind": "force", "target": 2, "source": 4}]
    assert FORMS.validate_python(short) == (ForcedWords(2, 4),)


SILENCE = {"kind": "silence", "part": "cross", "layer": 0}


@pytest.mark.parametrize(
    ("raw", "place", "message"),
    [
        (3, (), "Input should be a valid dictionary"),
        ({"part": "cross"}, (), "Unable to extract tag using discriminator 'kind'"),
        ({"kind": "shout"}, (), "'shout' .* expected tags: 'silence', 'flatten', 'force'"),
        (SILENCE | {"part": "middle"}, ("silence", "part"), "should be 'encoder'"),
        (SILENCE | {"layer": -1}, ("silence", "layer"), "greater than or equal to 0"),
        (SILENCE | {"layer": "1"}, ("silence", "layer"), "valid integer"),
        (SILENCE | {"head": True}, ("silence", "head"), "valid integer"),
        (SILENCE | {"heads": 1}, ("silence", "heads"), "Unexpected keyword argument"),
        ({"kind": "force", "target": 1}, ("force", "source"), "Field required"),
        ({"kind": "force", "target": "", "source": 1}, ("force", "target"), ""),
    ],
)
def test_json_that_is_no_request_is_refused(raw, place, message):
    with pytest.raises(ValidationError) as refused:
        FORMS.validate_python([raw])
    mistake = refused.value.errors()[0]
    assert mistake["loc"][: 1 + len(place)] == (0, *place)
    assert re.search(message, mistake["msg"])


def test_the_schema_says_what_the_fields_are():
    schema = TypeAdapter(InterventionRequestJson).json_schema()
    silence = schema["$defs"]["Silenced"]
    assert set(silence["required"]) == {"part", "layer"}
    assert silence["properties"]["layer"]["description"] == "The layer, from 0."
    assert schema["discriminator"]["propertyName"] == "kind"


def test_a_change_reads_as_it_is_written():
    assert repr(Silenced("cross", 1, 2)) == "Silenced(part='cross', layer=1, head=2)"
    assert replace(Silenced("cross", 1, 2), head=None) == Silenced("cross", 1)
