from dataclasses import replace

import torch

from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.tasks.families.answer import Answer, Candidate, build_answer
from regard.text.build import train_tokenizer
from regard.text.preprocess import TokenizedLine
from regard.text.segmentation import Segment, Segments
from regard.text.settings import TokenizerSettings
from regard.types import Hypothesis

SENTENCE = "Jane visite l'Afrique en septembre."
TARGET = train_tokenizer(["Jane visits Africa ⁇ a\tb"], TokenizerSettings(kind="words"))


def filled(text, score=-1.0, *, finished=True, unknown=()):
    tokens = tuple(TARGET.encode([text])[0])
    return Hypothesis(tokens, score, 2 * score, finished, tuple(unknown))


def line(parts, *notes):
    texts = ["x"] if parts else []
    segments = Segments([Segment(text, translatable=True) for text in texts])
    return TokenizedLine([[5]] * parts, list(notes), texts, [parts] if parts else [], segments)


def test_a_blank_line_has_a_blank_answer():
    answer = build_answer("  ", line(0, "odd"), [], TARGET)
    assert answer.candidates == (Candidate("", 0.0, 0.0),)
    assert answer.notes == ("odd",)


def test_the_n_th_best_of_a_line_is_made_of_those_of_its_parts():
    parts = [
        [filled("Jane", -1.0), filled("visits", -2.0), filled("Africa", -3.0)],
        [filled("Africa", -0.5), filled("Jane", -4.0)],
    ]
    answer = build_answer("x", line(2), parts, TARGET)
    assert answer.candidates == (
        Candidate("Jane Africa", -1.5, -3.0),
        Candidate("visits Jane", -6.0, -12.0),
        Candidate("Africa Jane", -7.0, -14.0),  # the second part has no third
    )
    assert answer.notes == ()
    assert (answer.text, answer.score, str(answer)) == ("Jane Africa", -1.5, "Jane Africa")


class Capture:
    """Stands for the attention of a part between words of so many letters on each side."""

    def __init__(self, source, target):
        self.axes = Axis((), ("x",) * len(source), (), source), Axis((), ("x",), (), target)

    def attention(self, *, words):
        return AttentionMaps("cross", torch.zeros(()), self.axes[1], self.axes[0])

    def alignment(self, settings):
        return frozenset([(0, 0)])


def test_each_candidate_has_the_links_of_its_own_parts_counted_over_the_line():
    parts = [[filled("Jane"), filled("visits")], [filled("Africa")]]
    looks = [[Capture((2, 1), (3,)), Capture((2, 1), (1,))], [Capture((1,), (1,))]]
    answer = build_answer("x", line(2), parts, TARGET, looks)
    assert answer.attention is looks[0][0]
    assert answer.alignment() == {(0, 0), (3, 3)}
    assert answer.alignment(rank=1) == {(0, 0), (3, 1)}


def test_unknown_words_and_white_space():
    best = filled("Jane Kampala", unknown=["Kam\tpa\nla"])
    assert build_answer("x", line(1), [[best]], TARGET).text == "Jane Kam pa la"


def test_a_translation_that_was_cut_short_is_noted():
    answer = build_answer("x", line(1, "odd"), [[filled("Jane", finished=False)]], TARGET)
    assert answer.notes == (
        "odd",
        "its translation reached the length limit and may be cut short",
    )


def test_a_notebook_shows_the_text_and_the_map(translator):
    answer = translator(SENTENCE, look=True)
    shown = answer._repr_html_()
    assert shown.startswith(f"<p>{answer.text}</p>")
    assert "image/svg+xml" in shown


def test_a_notebook_shows_text_as_text():
    plain = Answer("a", (Candidate("1 < 2 & <b>", 0.0, 0.0),))
    assert plain._repr_html_() == "<p>1 &lt; 2 &amp; &lt;b&gt;</p>"


def test_a_notebook_shows_what_a_change_did():
    before = Answer("a", (Candidate("Jane visits <b> in May.", 0.0, 0.0),))
    after = replace(before, candidates=(Candidate("Jane loves May.", 0.0, 0.0),), before=before)
    wanted = "<p>Jane <del>visits &lt;b&gt; in</del> <ins>loves</ins> May.</p>"
    assert after._repr_html_() == wanted
