import pytest
import torch

from inspection.recording.test_recorder import Halves
from regard.batching.collate import pad, pad_source
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.decoding.tracing.search_tree import ROOT
from regard.errors import SearchError, SettingsError
from regard.inspection.interventions import Silenced
from regard.inspection.recording.recorder import compose_hooks, record_attention
from regard.inspection.recording.search_recorder import SearchRecorder
from regard.text.special_tokens import BOS, EOS
from variants import ATTENTIVE, VARIANTS, tiny

SOURCES = [[5, 6, 7, 8], [9], [10, 5, 9, 4, 6, 6, 8], [], [7, 8, 4]]
RULES = RuleSettings(max_length=8, max_length_ratio=1.0, max_length_offset=2)
BEAM = DecodingSettings(n_best=2, beam=BeamSettings(size=4), rules=RULES)
METHODS = {
    "greedy": DecodingSettings(beam=BeamSettings(size=1), rules=RULES),
    "beam": BEAM,
    "covering beam": DecodingSettings(
        beam=BeamSettings(size=3, coverage_penalty=0.3, stop="limit"), rules=RULES
    ),
    "sampling": DecodingSettings(n_best=5, sampling=SamplingSettings(seed=2), rules=RULES),
}
WIDE, EXACT = 10_000, {"atol": 1e-10, "rtol": 0.0}


class Counting(SearchRecorder):
    """Records the number of sentences of each step."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def on_step(self, step, /):
        self.rows.append(len(step.numbers))
        return super().on_step(step)


def record_search(
    model, settings=BEAM, *, recorder=None, budget=WIDE, sources=SOURCES, change=None, **asked
):
    """The answers, and the recordings, of a search through `sources`."""
    recorder = recorder or SearchRecorder()
    found = search_many(
        [SearchMember(model, sources)],
        settings,
        budget=budget,
        hook=recorder if change is None else compose_hooks(change, recorder),
        observe=recorder,
        **asked,
    )
    return found, recorder.recordings


def assert_teacher_forcing_agrees(model, source, recording, *, change=None):
    """The recorded attention of every node equals that under teacher forcing."""
    nodes = range(1, len(recording.tree.nodes))
    given = [recording.tree.tokens(recording.tree.nodes[node].parent) for node in nodes]
    sources = pad_source([source] * len(nodes))
    told = record_attention(model, sources, pad(given, first=BOS), hook=change).weights
    assert {part for part, _ in told} == set(recording.parts)
    for part in recording.parts:
        layers = [told[part, n] for recorded_part, n in sorted(told) if recorded_part == part]
        want = torch.stack(layers, 1)  # (B, L, H, T, S)
        for row, node in enumerate(nodes):
            got = recording.hypothesis_weights(node, part)
            size = got.shape[2:]
            whole = (len(source) + 1,) * 2 if part == "encoder" else (len(given[row]) + 1,)
            assert size[: len(whole)] == whole
            torch.testing.assert_close(got, want[row, ..., : size[0], : size[1]], **EXACT)
            if part == "cross":
                assert size[1] == len(source) + 1
            if part != "encoder":
                assert torch.equal(recording.step_weights(node, part), got[..., -1, :])


@pytest.mark.parametrize("name", ATTENTIVE)
def test_weights_of_a_beam_search_equal_those_of_teacher_forcing(name):
    model, recorder = tiny(name).model, Counting()
    beam = BEAM.beam.model_copy(update={"stop": "limit"})  # each sentence has its own
    settings = BEAM.model_copy(update={"beam": beam})
    found, recordings = record_search(model, settings, recorder=recorder)
    assert sorted(set(recorder.rows)) == [1, 2, 3, 4, 5]  # they are done one by one
    for number, source in enumerate(SOURCES):
        tree = recordings[number].tree
        said = [tree.tokens(node) for node in tree.answers]
        assert said == [(*h.tokens, EOS) if h.finished else h.tokens for h in found[number]]
        assert_teacher_forcing_agrees(model, source, recordings[number])


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_recording_changes_no_result(name, method):
    model, settings = tiny(name).model, METHODS[method]
    plain = search_many([SearchMember(model, SOURCES)], settings, budget=WIDE)
    recorded, recordings = record_search(model, settings)
    assert recorded == plain
    assert bool(recordings[0].parts) == (name in ATTENTIVE)
    assert len(recordings) == len(SOURCES)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "name", ["transformer window relative", "feedback", "luong dot local-p fed"]
)
def test_every_search_can_be_recorded(name, method):
    model = tiny(name).model
    _, recordings = record_search(model, METHODS[method])
    for number, source in enumerate(SOURCES):
        assert_teacher_forcing_agrees(model, source, recordings[number])


def test_batching_changes_no_recording_and_keeps_sentence_numbers():
    model = tiny("transformer").model
    _, whole = record_search(model)
    numbers = [40, 7, 12, 3, 1 << 20]
    _, cut = record_search(model, budget=30, numbers=numbers)
    assert set(cut) == set(numbers)
    for place, number in enumerate(numbers):
        one, other = whole[place], cut[number]
        assert [node[:2] for node in one.tree.nodes] == [node[:2] for node in other.tree.nodes]
        assert one.tree.answers == other.tree.answers
        for part in ("encoder", "decoder", "cross"):
            node = one.tree.answers[0]
            torch.testing.assert_close(
                one.hypothesis_weights(node, part), other.hypothesis_weights(node, part), **EXACT
            )


@pytest.mark.parametrize("parts", [(), ("cross",), ("encoder", "decoder")])
def test_only_what_is_asked_for_is_kept(parts):
    _, recordings = record_search(tiny("transformer").model, recorder=SearchRecorder(parts))
    assert {recording.parts for recording in recordings.values()} == {parts}


def test_step_weights_are_kept_once_and_without_padding():
    _, recordings = record_search(tiny("transformer").model)
    for number, source in enumerate(SOURCES):
        recording = recordings[number]
        nodes = recording.tree.nodes
        for part in ("cross", "decoder"):
            looks = recording.weights_by_node[part]
            assert {node.parent for node in nodes[1:]} <= set(looks)
            assert {nodes[node].state for node in looks} == {"kept"}
            storages = [look.untyped_storage() for look in looks.values()]
            held = {storage.data_ptr(): storage.nbytes() for storage in storages}
            assert sum(held.values()) == sum(look.nbytes for look in looks.values())
        layers, heads, size = 2, 4, len(source) + 1
        assert recording.encoder.untyped_storage().nbytes() == layers * heads * size * size * 8


def test_of_an_ensemble_the_first_model_is_recorded():
    """The second has more layers and reads other tokens."""
    one, other = tiny("transformer").model, tiny("transformer window").model
    members = [
        SearchMember(one, SOURCES),
        SearchMember(other, [[4, *source] for source in SOURCES]),
    ]
    recorder = SearchRecorder()
    found = search_many(members, BEAM, budget=WIDE, hook=recorder, observe=recorder)
    assert found == search_many(members, BEAM, budget=WIDE)
    assert found != search_many(members[:1], BEAM, budget=WIDE)
    for number, source in enumerate(SOURCES):
        assert_teacher_forcing_agrees(one, source, recorder.recordings[number])


def test_weights_are_recorded_after_interventions():
    quiet = Silenced("cross", 1, 2)
    model = tiny("transformer").model
    _, recordings = record_search(model, change=quiet)
    for number, source in enumerate(SOURCES):
        recording = recordings[number]
        cross = recording.hypothesis_weights(recording.tree.answers[0])
        assert not cross[1, 2].any()
        assert cross[1, 1].any()
        assert_teacher_forcing_agrees(model, source, recording, change=quiet)


def test_rows_are_output_pieces_and_columns_source_pieces():
    _, recordings = record_search(tiny("transformer").model)
    recording, source = recordings[0], [*SOURCES[0], EOS]
    tree = recording.tree
    ended = next(n for n, node in enumerate(tree.nodes) if node.token == EOS and node.parent)
    kept = tree.nodes[ended].parent
    cross = recording.attention(ended, source, Halves(), Halves())
    assert cross.columns.pieces == ("5", "▁6", "7", "▁8", "</s>")
    said = Halves().pieces(tree.tokens(kept))
    assert list(cross.rows.pieces) == [*said, "</s>"]
    torch.testing.assert_close(cross.weights, recording.hypothesis_weights(ended).float())
    own = recording.attention(kept, source, Halves(), Halves(), "decoder")
    assert list(own.rows.pieces) == said
    assert list(own.columns.pieces) == ["<s>", *said[:-1]]
    encoder = recording.attention(kept, source, Halves(), Halves(), "encoder")
    assert encoder.rows == encoder.columns == cross.columns
    torch.testing.assert_close(encoder.weights, recording.encoder.float())


def test_what_is_not_there_is_named():
    _, recordings = record_search(tiny("luong dot global fed").model)
    recording = recordings[2]
    with pytest.raises(SettingsError, match="no decoder attention was recorded, found cross"):
        recording.hypothesis_weights(1, "decoder")
    with pytest.raises(SettingsError, match="no encoder attention was recorded, found cross"):
        recording.hypothesis_weights(1, "encoder")
    with pytest.raises(ValueError, match="the root predicts no token: choose a node below it"):
        recording.hypothesis_weights(ROOT)
    with pytest.raises(ValueError, match="the root and the encoder predict no token, got node=0"):
        recording.step_weights(ROOT)
    _, recordings = record_search(tiny("rnn lstm").model)
    with pytest.raises(SettingsError, match="no cross attention was recorded, found none"):
        recordings[0].step_weights(1)


def test_a_search_that_fails_leaves_nothing_behind():
    model, recorder = tiny("transformer").model, SearchRecorder()

    def fail(site, weights, /):
        if site.part == "cross" and site.step == 2:
            raise SearchError("enough")
        return weights

    with pytest.raises(SearchError, match="enough"):
        record_search(model, recorder=recorder, change=fail)
    assert recorder.recordings == {}
    _, recordings = record_search(model, recorder=recorder, sources=SOURCES[1:3])
    assert set(recordings) == {0, 1}
    for number, source in enumerate(SOURCES[1:3]):
        assert_teacher_forcing_agrees(model, source, recordings[number])
