from regard.corpora.corpus import Corpus, Pair
from regard.corpora.diagnostics.near_leaks import NearLeak, find_near_leaks


def corpus(**splits):
    reads = {
        name: lambda some=some: (Pair(text, "x") for text in some) for name, some in splits.items()
    }
    return Corpus("mine", ("en", "de"), reads)


def test_case_and_stop_may_differ():
    train = ["It is late.", "The same.", "Other"]
    found = find_near_leaks(corpus(train=train, test=["it is late", "the  SAME.", "New", "!"]))
    assert found == (NearLeak("test", 3, 1, "it is late"),)


def test_nothing_held_out():
    assert find_near_leaks(corpus(train=["a"])) == ()
