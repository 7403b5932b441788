import pytest

from regard.text.sentence_splitter import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        [],
        ["Il dort."],
        ["Il dort.", "Elle part!", "Où?", "Ici"],
        ["M. Dupont et Mme. Roy dorment.", "J. Doe part."],
        ["« Quoi ? » dit-il.", "« Rien. »", "Il part."],
        ['He said "yes."', "Then he left (at last).", "1984 was long."],
        ["Voir p. 12 et art. 345.", "Fin"],
        ["Le 3. mars vient.", "En 1999.", "Oui"],
        ["Attends... puis dors.", "Non"],
        ["Version 2.5 de a.b est là."],
    ],
)
def test_sentences(sentences):
    text = " ".join(sentences)
    assert [text[slice(*span)] for span in split_sentences(text)] == sentences


def test_scripts_without_spaces_need_none():
    text = "你好。我们走！真的？"
    assert [text[slice(*span)] for span in split_sentences(text)] == [
        "你好。",
        "我们走！",
        "真的？",
    ]


def test_space_around_is_in_no_sentence():
    assert split_sentences("  Un. Deux. ") == [(2, 5), (6, 11)]
    assert split_sentences("   ") == []


@pytest.mark.parametrize("marks", [".", "。", "!?", '."', ". »"])
def test_a_long_run_of_marks_is_one_end_and_is_found_at_once(marks):
    run = marks * 20_000
    assert split_sentences(run) == [(0, len(run))]
    assert len(split_sentences(f"Oui{run} Non.")) == 2
