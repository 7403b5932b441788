import pytest

from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.generated.letter_sequences import LETTERS, MAX_LETTERS, sequence_corpus

SETTINGS = GeneratedSettings(train=300, valid=20, test=30)
EXPECTED = {"copy": list, "reverse": lambda x: x[::-1], "sort": sorted}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_target_is_the_source_in_another_order(name):
    corpus = sequence_corpus(name, SETTINGS)
    pairs = list(corpus.splits["train"]())
    assert len(pairs) == 300
    assert all(pair.target.split() == EXPECTED[name](pair.source.split()) for pair in pairs)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_gold_links_each_letter_once(name):
    corpus = sequence_corpus(name, SETTINGS)
    for pair, gold in zip(corpus.splits["test"](), corpus.gold["test"](), strict=True):
        source, target = pair.source.split(), pair.target.split()
        assert gold.sure == gold.possible
        assert sorted(s for s, _ in gold.sure) == list(range(len(source)))
        assert sorted(t for _, t in gold.sure) == list(range(len(target)))
        assert all(source[s] == target[t] for s, t in gold.sure)


def test_reverse_is_aligned_on_the_other_diagonal():
    gold = {len(gold.sure): gold for gold in sequence_corpus("reverse", SETTINGS).gold["train"]()}
    assert gold[3].sure == {(0, 2), (1, 1), (2, 0)}


def test_every_length_and_every_letter_occurs():
    sources = [pair.source.split() for pair in sequence_corpus("copy", SETTINGS).splits["train"]()]
    assert {len(source) for source in sources} == set(range(1, MAX_LETTERS + 1))
    assert {letter for source in sources for letter in source} == set(LETTERS)
