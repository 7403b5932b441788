import json
from dataclasses import replace

import pytest
import torch

from regard.alignment.extraction import AlignmentSettings
from regard.decoding.tracing.search_tree import Node, SearchTree
from regard.engines.native.attention_capture import AttentionCapture
from regard.inspection.interventions import ForcedWords, Silenced
from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.families.viewer_document import viewer_document

# "la mer" as three pieces, "the sea" as two: L=1, H=2, T=3, S=4
SOURCE = Axis(("▁la", "▁me", "r", "</s>"), ("la", "mer"), (0, 1, 1, None))
TARGET = Axis(("▁the", "▁sea", "</s>"), ("the", "sea"), (0, 1, None))
GIVEN = Axis(("<s>", "▁the", "▁sea"), ("the", "sea"), (None, 0, 1))
STRAIGHT = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1], [0.0, 0.0, 0.0, 1.0]])
CROSSED = torch.tensor([[0.1, 0.4, 0.4, 0.1], [0.7, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 1.0]])


def answer(capture, *texts, changes=(), before=None):
    candidates = tuple(Candidate(text, -float(n), -float(n)) for n, text in enumerate(texts))
    return Answer("la mer", candidates, attention=capture, changes=changes, before=before)


@pytest.fixture
def capture():
    lower = torch.ones(3, 3).tril() / torch.arange(1, 4)[:, None]
    return AttentionCapture(
        {
            "cross": AttentionMaps("cross", torch.stack([STRAIGHT, CROSSED])[None], TARGET, SOURCE),
            "decoder": AttentionMaps("decoder", lower[None, None], TARGET, GIVEN),
        }
    )


def test_the_document_names_both_sides_and_all_maps(capture):
    document = viewer_document(answer(capture, "the sea", "a sea"), model="tiny")
    assert document["source"] == {
        "text": "la mer",
        "pieces": ["▁la", "▁me", "r", "</s>"],
        "words": ["la", "mer"],
        "word_of": [0, 1, 1, None],
        "segments": [],
        "picture": None,
    }
    assert document["target"]["text"] == "the sea"
    assert document["target"]["pieces"] == ["▁the", "▁sea", "</s>"]
    assert document["given"] == list(GIVEN.pieces)
    assert [one["shape"] for one in document["parts"]["cross"]["layers"]] == [[2, 3, 4]]
    assert [one["shape"] for one in document["parts"]["decoder"]["layers"]] == [[1, 3, 3]]
    assert document["candidates"] == [
        {"text": "the sea", "score": 0.0},
        {"text": "a sea", "score": -1.0},
    ]
    assert (document["version"], document["model"]) == (2, "tiny")


def test_links_are_read_as_asked(capture):
    first = replace(capture, alignment_settings=AlignmentSettings(head=0))
    straight = viewer_document(answer(first, "the sea"))
    assert straight["alignment"] == {
        "links": [(0, 0), (1, 1)],
        "by": "the average of all layers, head 0",
        "layer": None,
        "head": 0,
    }
    average = viewer_document(answer(capture, "the sea"))["alignment"]
    assert average["by"] == "the average of all layers and heads"
    measured = replace(capture, alignment_settings=AlignmentSettings(head=1))
    crossed = viewer_document(answer(measured, "the sea"))["alignment"]
    assert crossed["by"] == "the average of all layers, head 1"


def test_notes_go_with_it(capture):
    noted = replace(answer(capture, "the sea"), notes=("it is odd",))
    assert viewer_document(noted)["notes"] == ["it is odd"]
    assert viewer_document(answer(capture, "the sea"))["notes"] == []


def test_interventions_and_the_unchanged_translation(capture):
    wishes = Silenced("cross", 0, 1), ForcedWords(1, 0)
    changed = answer(capture, "the sea", changes=wishes, before=answer(None, "a sea"))
    document = viewer_document(changed)
    assert document["changes"] == [
        {"kind": "silence", "part": "cross", "layer": 0, "head": 1},
        {"kind": "force", "target": 1, "source": 0, "layer": None, "head": None},
    ]
    assert document["before"] == {"text": "a sea", "words": ["a", "sea"]}
    plain = viewer_document(answer(capture, "the sea"))
    assert (plain["changes"], plain["before"], plain["without"]) == ([], None, [])


def test_what_was_translated_beforehand_is_kept(capture):
    without = [{"part": "cross", "layer": 0, "head": 0, "text": "sea"}]
    assert viewer_document(answer(capture, "the sea"), without=without)["without"] == without


def test_sinks_are_named_by_their_column():
    letters = tuple("abcdefgh")
    axis = Axis(letters, letters, tuple(range(8)))
    parked = torch.eye(8) * 0.4
    parked[:, 3] += 0.6
    layers = torch.stack([torch.eye(8), parked])[None]  # (L=1, H=2, T=8, S=8)
    document = viewer_document(
        answer(AttentionCapture({"cross": AttentionMaps("cross", layers, axis, axis)}), "x")
    )
    assert document["sinks"] == [
        {"part": "cross", "layer": 0, "head": 1, "column": 3, "share": 0.65},
    ]


def test_the_tree_names_its_pieces(capture):
    nodes = (
        Node(None, 2, 0.0, "kept"),
        Node(0, 7, -0.123456, "kept"),
        Node(0, 8, -2.5, "dropped"),
        Node(1, 3, -0.3, "ended"),
    )
    grown = AttentionCapture(capture.parts, SearchTree(nodes, (3,)), ("<s>", "▁the", "▁a", "</s>"))
    tree = viewer_document(answer(grown, "the"))["tree"]
    assert tree == {
        "nodes": [
            (None, "<s>", 0.0, "kept"),
            (0, "▁the", -0.1235, "kept"),
            (0, "▁a", -2.5, "dropped"),
            (1, "</s>", -0.3, "ended"),
        ],
        "answers": [3],
    }
    assert viewer_document(answer(capture, "the"))["tree"] is None


@pytest.mark.parametrize("looked", [None, AttentionCapture({})])
def test_a_model_that_does_not_attend_has_words_only(looked):
    document = viewer_document(answer(looked, "the sea"))
    assert document["parts"] == {}
    assert document["alignment"] is None
    assert document["given"] == []
    assert document["target"] == {
        "text": "the sea",
        "pieces": [],
        "words": ["the", "sea"],
        "word_of": [],
        "segments": [],
        "picture": None,
    }


def test_a_model_that_attends_only_to_itself(capture):
    own = AttentionCapture({"decoder": capture.parts["decoder"]})
    document = viewer_document(answer(own, "the sea"))
    assert document["target"]["pieces"] == list(TARGET.pieces)
    assert document["source"]["pieces"] == []
    assert document["alignment"] is None


def test_a_real_answer_becomes_json(translator):
    document = viewer_document(translator.look("Jane visite Paris.", tree=True), model="tiny")
    again = json.loads(json.dumps(document))
    assert set(again["parts"]) == {"encoder", "decoder", "cross"}
    layers = again["parts"]["cross"]["layers"]
    rows, columns = len(again["target"]["pieces"]), len(again["source"]["pieces"])
    assert [one["shape"] for one in layers] == [[4, rows, columns]] * 2
    assert again["parts"]["decoder"]["layers"][0]["shape"][2] == len(again["given"])
    assert all(one["weights"] and one["queries"] and one["keys"] for one in layers)
    nodes, [best] = again["tree"]["nodes"], again["tree"]["answers"][:1]
    assert nodes[0][0] is None
    assert nodes[best][3] in ("ended", "kept")
