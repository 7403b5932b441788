import pytest

from regard.evaluation import bleu_tokenizer
from regard.evaluation.bleu_tokenizer import choose_tokenizer
from regard.evaluation.scores import ScoreSettings, score

JAPANESE = ["GNOME2 デスクトップ向け二次元化学構造エディタ", "任意のコマンドが実行されます。"]


@pytest.fixture(params=[True, False], ids=["installed", "missing"])
def mecab(request, monkeypatch):
    monkeypatch.setattr(bleu_tokenizer, "is_installed", lambda name: request.param)
    return request.param


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("en", "13a"),
        ("sr-Latn", "13a"),
        ("vi", "13a"),
        ("zh", "zh"),
        ("zh_TW", "zh"),
        ("yue", "zh"),
        ("th", "char"),
        ("lo", "char"),
        ("km", "char"),
        ("my", "char"),
        ("bo", "char"),
        ("ja-Latn", "13a"),
    ],
)
def test_the_language_decides_whatever_the_references_hold(language, name):
    assert choose_tokenizer(language, JAPANESE).name == name


def test_japanese_and_korean_go_by_mecab_where_it_is_installed(mecab):
    for language, tokenizer in (("ja", "ja-mecab"), ("jpn", "ja-mecab"), ("ko", "ko-mecab")):
        chosen = choose_tokenizer(language, [])
        assert chosen.name == (tokenizer if mecab else "char")
        assert mecab or f"pip install 'regard[{tokenizer[:2]}]' brings {tokenizer}" in chosen.why


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["The word 東京 is Japanese.", "So is 'konnichiwa'."], "13a"),
        (JAPANESE, "ja-mecab"),
        (["我们都是 Debian 用户。"], "zh"),
        (["나는 학교에 간다."], "ko-mecab"),
        (["ผมไปโรงเรียน"], "char"),
        (["Он спит.", "Ξέρω."], "13a"),
        (["2026", ""], "13a"),
        ([], "13a"),
    ],
)
def test_an_unknown_language_is_told_by_its_letters(lines, name, monkeypatch):
    monkeypatch.setattr(bleu_tokenizer, "is_installed", lambda name: True)
    assert choose_tokenizer("und", lines).name == name


def test_half_of_a_sentence_without_spaces_has_a_score():
    hypotheses, references = ["任意のコマンドを実行します。"], JAPANESE[1:]
    settings = ScoreSettings(metrics=("bleu", "ter"), tokenize="13a", resamples=0)
    assert [one.value for one in score(hypotheses, references, settings)] == [0, 100]
    settings = ScoreSettings(metrics=("bleu", "ter"), tokenize="char", resamples=0)
    bleu, ter = score(hypotheses, references, settings)
    assert 40 < bleu.value < 80
    assert ter.value == pytest.approx(20)
    assert "tok:char-tercom" in ter.signature


def test_the_tokenizer_of_mecab_cuts_japanese_words():
    pytest.importorskip("MeCab", reason="MeCab is not installed: pip install 'regard[ja]'")
    [bleu] = score(JAPANESE, JAPANESE, ScoreSettings(metrics=("bleu",), resamples=0))
    assert bleu.value == pytest.approx(100)
    assert "tok:ja-mecab" in bleu.signature
