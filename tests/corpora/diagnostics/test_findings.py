import random
from dataclasses import replace
from functools import partial

import pytest

from regard.corpora.cleaning.pair_filters import CleaningSettings
from regard.corpora.corpus import Corpus, Pair
from regard.corpora.diagnostics.corpus_report import analyze_corpus
from regard.corpora.diagnostics.findings import interpret_report
from regard.corpora.diagnostics.pair_noise import NoiseRate, NoiseReport
from regard.corpora.splits import SplitSettings
from regard.errors import CorpusError

WORDS = ("Anna", "Bern", "Cairo", "drum", "eagle", "fox", "gold", "hill", "iris", "jade", "kiwi")


def sentences(count, seed=1):
    """Pairs of a made-up language and its translation, of many lengths, all different."""
    chance = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = chance.choices(WORDS, k=chance.randint(7, 24))
        pairs.append((f"We {' '.join(words)}.", f"Nous {' '.join(w[::-1] for w in words)}."))
    return pairs


def found(languages=("en", "fr"), cleaning=None, split=None, **splits):
    reading = {name: partial(iter, [Pair(*pair) for pair in some]) for name, some in splits.items()}
    corpus = Corpus("mine", languages, reading)
    return interpret_report(
        analyze_corpus(corpus, cleaning or CleaningSettings(), split or SplitSettings())
    )


def level_of(findings, part):
    """The level of the one finding that says `part`."""
    [one] = [finding for finding in findings if part in finding.text]
    return one.level


TRAIN, VALID, TEST = sentences(2000), sentences(300, seed=2), sentences(300, seed=3)


def test_a_good_corpus_is_all_right():
    findings = found(train=sentences(10_000), valid=VALID, test=TEST)
    assert {finding.level for finding in findings} == {"ok"}
    assert level_of(findings, "keeps all of its 10,000 pairs") == "ok"
    assert level_of(findings, "The two sides belong together, line by line") == "ok"
    assert level_of(findings, "No sentence of a held-out split is in train") == "ok"
    assert level_of(findings, "none of them is new") == "ok"


def test_no_pairs_at_all():
    assert level_of(found(train=[], valid=VALID, test=TEST), "no training pairs") == "problem"


@pytest.mark.parametrize(("count", "level"), [(500, "warning"), (1500, "note")])
def test_few_pairs(count, level):
    findings = found(train=TRAIN[:count], valid=VALID, test=TEST)
    assert level_of(findings, f"train: {count:,} pairs are few") == level


def test_splits_to_be_cut():
    findings = found(train=TRAIN, valid=VALID)
    assert level_of(findings, "Training holds out 200 pairs for test") == "note"
    assert level_of(findings, "mine: test holds 200 of 2,000 pairs") == "note"


def test_too_few_to_cut():
    assert level_of(found(train=TRAIN[:5]), "No pairs can be held out: mine: 5 pairs") == "problem"


def test_a_small_test_split():
    findings = found(train=TRAIN, valid=VALID, test=TEST[:40])
    assert level_of(findings, "test: scores on 40 pairs vary") == "note"


def test_a_few_dropped_pairs():
    findings = found(train=[*TRAIN, TRAIN[0]], valid=VALID, test=TEST)
    assert level_of(findings, "cleaning drops 1 of 2,001 pairs (under 0.1%)") == "note"


def test_many_dropped_pairs():
    findings = found(("ru", "fr"), train=TRAIN, valid=VALID, test=TEST)
    assert level_of(findings, "train: cleaning drops 2,000 of 2,000 pairs (100.0%)") == "problem"
    assert level_of(findings, "test: cleaning would drop 300 of 300 pairs (100.0%)") == "warning"
    assert any("Are the languages right" in finding.text for finding in findings)


def test_quite_some_dropped_pairs():
    findings = found(train=TRAIN + TRAIN[:900], valid=VALID, test=TEST)
    assert level_of(findings, "train: cleaning drops 900 of 2,900 pairs (31.0%)") == "warning"


def test_a_split_that_ends_too_early():
    def read_error():
        yield from (Pair(*pair) for pair in TRAIN)
        raise CorpusError("a.en has 2000 lines and a.fr has 2001")

    corpus = Corpus("mine", ("en", "fr"), {"train": read_error})
    findings = interpret_report(analyze_corpus(corpus, CleaningSettings(), SplitSettings()))
    assert level_of(findings, "train cannot be read to its end: a.en has 2000") == "problem"


def test_shifted_lines():
    targets = [target for _, target in TRAIN]
    moved = [*targets[:700], "Nous.", *targets[700:-1]]
    train = [(source, target) for (source, _), target in zip(TRAIN, moved, strict=True)]
    findings = found(train=train, valid=VALID, test=TEST)
    text = "to 2,000 look shifted by +1: a source line belongs to the target 1 line further down"
    assert level_of(findings, text) == "problem"
    assert level_of(findings, "the target has 1 line too many or the source too few") == "problem"


def test_lines_lost_in_the_source_shift_the_target_up():
    pairs = [
        (source, target) for (source, _), (_, target) in zip(TRAIN[:-2], TRAIN[2:], strict=True)
    ]
    findings = found(train=pairs, valid=VALID, test=TEST)
    text = "shifted by -2: a source line belongs to the target 2 lines further up"
    assert level_of(findings, text) == "problem"


def test_many_shifted_stretches_are_not_all_told():
    many = sentences(6000)
    targets = [target for _, target in many]
    for start in range(200, 6000, 400):
        targets[start : start + 200] = [*targets[start + 1 : start + 200], "Nous."]
    train = [(source, target) for (source, _), target in zip(many, targets, strict=True)]
    findings = found(train=train, valid=VALID, test=TEST)
    assert level_of(findings, "and 10 more such stretches") == "problem"


def shuffled(pairs):
    targets = [target for _, target in pairs]
    random.Random(5).shuffle(targets)
    return [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]


def test_unrelated_lines():
    findings = found(train=TRAIN[:1000] + shuffled(TRAIN[1000:]), valid=VALID, test=TEST)
    assert level_of(findings, "to 2,000 look unrelated") == "problem"


@pytest.mark.parametrize(
    ("languages", "level"),
    [(("en", "fr"), "problem"), (("und", "und"), "problem"), (("en", "en"), "warning")],
)
def test_a_shuffled_corpus(languages, level):
    findings = found(languages, train=shuffled(TRAIN), valid=VALID, test=TEST)
    assert level_of(findings, "train: all lines look unrelated") == level


def test_lengths_that_say_nothing():
    train = [(source, f"{n:08d}") for n, (source, _) in enumerate(TRAIN)]
    findings = found(train=train, valid=VALID, test=TEST)
    assert level_of(findings, "train: lengths vary too little") == "note"


@pytest.mark.parametrize(("most", "level"), [(200, "note"), (400, "warning")])
def test_loose_translations(most, level):
    chance = random.Random(1)
    train = [(source, f"{target} {'x' * chance.randint(0, most)}") for source, target in TRAIN]
    findings = found(train=train, valid=VALID, test=TEST)
    assert level_of(findings, "which is low for translations") == level


def test_unlike_numbers():
    numbered = [(f"{s} {n}", f"{t} {n + (n % 2)}") for n, (s, t) in enumerate(TRAIN)]
    findings = found(train=numbered[:1000] + TRAIN[1000:], valid=VALID, test=TEST)
    assert level_of(findings, "50.0% of 1,000 pairs hold different ones") == "warning"


def test_a_corpus_of_numbers_may_change_them():
    numbered = [(f"{s} {n}", f"{t} {n + (n % 2)}") for n, (s, t) in enumerate(TRAIN)]
    assert not any("different ones" in one.text for one in found(train=numbered, valid=[], test=[]))


def test_a_few_leaks():
    findings = found(train=[*TRAIN, VALID[0]], valid=VALID, test=TEST)
    text = "valid shares 1 source, 1 target and 1 whole pair of its 300 pairs with train"
    assert level_of(findings, text) == "note"
    assert level_of(findings, "Training leaves out 1 pair (under 0.1%)") == "note"


def test_many_leaks():
    findings = found(train=TRAIN + TEST, valid=VALID, test=TEST)
    assert level_of(findings, "300 whole pairs of its 300 pairs with train. That is") == "warning"
    assert level_of(findings, "corpus.cleaning.leaks=source") == "warning"


def test_a_test_split_that_is_the_validation_split():
    findings = found(train=TRAIN, valid=VALID, test=VALID)
    assert level_of(findings, "Weights would be chosen by their own test data") == "warning"


def test_another_domain():
    test = [(source.replace("o", "u"), target) for source, target in TEST]
    findings = found(train=TRAIN, valid=VALID, test=test)
    assert level_of(findings, "never occur in train: test source 2") == "warning"
    assert level_of(findings, "Is it from another domain") == "warning"


def test_some_new_words():
    test = [(source.replace("fox", "foxes"), target) for source, target in TEST]
    findings = found(train=TRAIN, valid=VALID, test=test)
    assert level_of(findings, "(foxes). Subwords can spell them") == "note"


@pytest.mark.parametrize(("lines", "level"), [(1, "note"), (100, "warning")])
def test_new_characters(lines, level):
    test = [(f"{s} ø" if n < lines else s, t) for n, (s, t) in enumerate(TEST)]
    findings = found(train=TRAIN, valid=VALID, test=test)
    assert level_of(findings, f"never occur in train: ø in test source ({lines} in all)") == level


@pytest.mark.parametrize(
    ("mark", "share", "level"),
    [
        ("&apos;", 0.001, "note"),
        ("&apos;", 0.1, "warning"),
        ("<br/>", 0.1, "warning"),
        ("a@@ b", 0.005, "note"),
        ("a@@ b", 0.2, "problem"),
        ("cafÃ©", 0.0005, "note"),
        ("cafÃ©", 0.002, "warning"),
        ("cafÃ©", 0.02, "problem"),
    ],
)
def test_damage(mark, share, level):
    count = round(share * len(TRAIN))
    train = [(f"{s} {mark}" if n < count else s, t) for n, (s, t) in enumerate(TRAIN)]
    findings = found(train=train, valid=VALID, test=TEST)
    assert level_of(findings, f"train source {count:,} (") == level


def spaced(pairs):
    return [(source[:-1] + " .", target[:-1] + " .") for source, target in pairs]


def lowered(pairs):
    return [(source.lower(), target.lower()) for source, target in pairs]


@pytest.mark.parametrize(
    ("change", "what"), [(spaced, "tokenised already"), (lowered, "in lower case")]
)
def test_splits_that_are_written_otherwise(change, what):
    findings = found(train=TRAIN, valid=VALID, test=change(TEST))
    assert level_of(findings, f"Splits are written differently: {what}") == "problem"
    assert level_of(findings, "100.0% of test source (of train source 0.0%)") == "problem"
    alike = found(train=change(TRAIN), valid=change(VALID), test=change(TEST))
    assert level_of(alike, f"Train is {what}") == "note"


def test_sides_that_are_written_otherwise():
    train = [(source, target.lower()) for source, target in TRAIN]
    findings = found(train=train, valid=VALID, test=TEST)
    text = "sides of train are written differently: in lower case are 0.0% of the source and 100.0%"
    assert level_of(findings, text) == "warning"


def test_curly_apostrophes():
    train = [(f"{source} It's.", target) for source, target in TRAIN]
    test = [(f"{source} It’s.", target) for source, target in TEST]
    findings = found(train=train, valid=VALID, test=test)
    assert level_of(findings, "with curly apostrophes (’) are 100.0% of test source") == "warning"


@pytest.fixture(scope="module")
def report():
    pairs = [Pair(f"a {n}", f"b {n}") for n in range(20)]
    corpus = Corpus("mine", ("en", "de"), {"train": lambda: iter(pairs)})
    return analyze_corpus(corpus, CleaningSettings(), SplitSettings())


def noise_findings(report, **noise):
    plain = {finding.text for finding in interpret_report(replace(report, noise=NoiseReport()))}
    findings = interpret_report(replace(report, noise=NoiseReport(1000, True, **noise)))
    return [finding for finding in findings if finding.text not in plain]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("swapped", "have source and target exchanged"),
        ("source_language", "have a source in a different language"),
        ("target_language", "have a target in a different language"),
        ("random", "do not belong together"),
        ("truncated", "have a target that is cut short"),
    ],
)
def test_much_is_a_warning_and_says_where(report, name, words):
    [finding] = [
        one
        for one in noise_findings(report, paired=1000, **{name: NoiseRate(0.1, 100, (3, 1000))})
        if one.level != "ok"
    ]
    assert finding.level == "warning"
    assert f"10.0% {words}" in finding.text
    assert "line 3, line 1,000" in finding.text


def test_what_clean_corpora_have_too_is_not_noise_findings(report):
    little = NoiseRate(0.0005, 1, (3,))
    free = NoiseRate(0.011, 11, (3,))
    [finding] = noise_findings(
        report, swapped=little, target_language=little, paired=1000, random=free, truncated=free
    )
    assert finding.level == "ok"


def test_pairs_by_chance_look_cut_short_too(report):
    random, cut = NoiseRate(0.1, 100, (3,)), NoiseRate(0.03, 30, (4,))
    assert len(noise_findings(report, paired=1000, random=random, truncated=cut)) == 2


def test_lines_of_several_files(report):
    several = replace(report, file_starts=(("a.tsv", 0), ("b.tsv", 10)))
    assert [several.locate("train", line) for line in (10, 11)] == [
        "line 10 of a.tsv",
        "line 1 of b.tsv",
    ]
    assert several.locate("test", 11) == "line 11"
