from regard.corpora.generated.drawing import GeneratedSettings
from regard.corpora.generated.travel import travel
from regard.corpora.pairs import Pair
from regard.corpora.suspects import NOTHING, NumberedPair, Suspects, find_suspects


def test_lines_are_those_of_the_split():
    pairs = list(travel(GeneratedSettings(train=1500, valid=1, test=1)).splits["train"]())
    lines = range(1, 3001, 2)
    sample = [
        NumberedPair(line, Pair(pair.target, pair.source) if line % 101 == 0 else pair)
        for line, pair in zip(lines, pairs, strict=True)
    ]
    found = find_suspects(sample)
    assert found.sampled == 1500
    assert found.languages_known
    assert found.swapped.lines == (101, 303, 505)
    assert found.swapped.pairs == 15
    assert found.paired > 1400


def test_a_small_sample():
    assert find_suspects([NumberedPair(1, Pair("a", "b"))]) == Suspects(sampled=1)
    assert find_suspects([]) == NOTHING
