import hashlib
import re
from collections import Counter
from random import Random

import pytest

from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.generated.travel.grammar import TravelGrammar, travel


@pytest.fixture(scope="module")
def examples():
    speaker = TravelGrammar(Random(5))
    return [speaker.sentence() for _ in range(12_000)]


@pytest.fixture(scope="module")
def translations(examples):
    return {example.pair.source: example.pair.target for example in examples}


def test_a_sentence_has_one_translation_and_one_alignment(examples):
    seen = {}
    for pair, gold in examples:
        assert seen.setdefault(pair.source, (pair.target, gold)) == (pair.target, gold)
    assert len(seen) > 11_000


def test_links_are_within_the_sentences(examples):
    for pair, gold in examples:
        sizes = len(pair.source.split()), len(pair.target.split())
        assert gold.sure <= gold.possible
        assert all(0 <= s < sizes[0] and 0 <= t < sizes[1] for s, t in gold.possible)


def test_every_word_is_linked(examples):
    for pair, gold in examples:
        sources, targets = ({link[side] for link in gold.possible} for side in (0, 1))
        assert sources == set(range(len(pair.source.split()))), pair
        assert targets == set(range(len(pair.target.split()))), pair


def test_alignment_is_far_from_a_diagonal(examples):
    crossing = [
        any(a < c and b > d for a, b in gold.sure for c, d in gold.sure) for _, gold in examples
    ]
    assert sum(crossing) > 0.4 * len(crossing)


def test_lengths_are_spread(examples):
    lengths = Counter(len(pair.source.split()) for pair, _ in examples)
    assert min(lengths) == 3
    assert 24 <= max(lengths) <= 30
    assert 0.3 < sum(lengths[n] for n in range(3, 8)) / len(examples) < 0.6
    assert sum(lengths[n] for n in range(16, 31)) > 0.06 * len(examples)


def test_sentences_begin_large_and_end_in_a_stop(examples):
    assert all(re.fullmatch(r"[A-ZÀÉÊ].*[^ ,][.?]", side) for pair, _ in examples for side in pair)


@pytest.mark.parametrize(
    "mistake",
    [
        r"(?<!-)\b(le|la|je|me|te|se|ne|de|que) [aeiouyéèêàâîôûœhAEIOUÉÊÎ]",  # no elision
        r"\b(ma|ta|sa|ce|beau|vieux|nouveau) (ami|amie|homme|hôtel|aéroport|île|enfant)\b",
        r"\b(à|de) les? ",  # no contraction
        r"\b(le|un|ce|mon|son) (ville|plage|île|sœur|femme|valise|carte|photo|fille)\b",
        r"\b(la|une|cette|ma|sa) (musée|hôtel|lac|frère|homme|livre|billet|château|fils)\b",
        r"\b(la|une|cette) (petit|grand|vieux|beau|nouveau) ",
        r"\bdes (petite?s|grande?s|beaux|belles|vieux|vieilles|nouveaux|nouvelles|jolie?s)\b",
        r"(?<!-)\b(je|tu|il|nous|vous) (aller|visiter|est-ce|ne pas)\b",
        r"\bà (France|Japon|Italie|États-Unis)\b|\ben (Paris|Rome|Japon|Canada)\b",
        r"  | ,| \.| \?|'' ",
    ],
)
def test_french_has_none_of_these_mistakes(translations, mistake):
    assert not [text for text in translations if re.search(mistake, text)]


@pytest.mark.parametrize(
    "mistake",
    [
        r"\ba [aeiou]|\ban [^aeiou]",
        r"^(He|She|Jane|Paul) (\w+ly |never |often )?(go|visit|love|wait|look|are|were|do) ",
        r"^(I|You|We|They) (\w+ly |never |often )?(goes|visits|loves|waits|looks|is|does)\b",
        r"^(I|He|She|They) (does|did|do|can|must) (not )?(visits|loved|went|bought|leaves)\b",
        r"\b(in|to|from) (United States|Netherlands)\b",
        r"\bcan not\b",
    ],
)
def test_english_has_none_of_these_mistakes(translations, mistake):
    assert not [text for text in translations.values() if re.search(mistake, text)]


@pytest.mark.parametrize(
    ("french", "english"),
    [
        (r"(Jane|Marie|Anna|Sophie|Claire|Emma|Elle) \w+ (son|sa|ses) .*", r".* her .*"),
        (r"(Paul|Pierre|Thomas|Marc|Louis|Antoine|Il) \w+ (son|sa|ses) .*", r".* his .*"),
        (r"(Jane|Emma|Marie) et s(on|a|es) .*", r"\w+ and her .*"),
        (r".* l'\w+ attendue\.", r".* waited for her\."),
        (r".* l'\w+ attendu\.", r".* waited for him\."),
        (r".* il y a (deux|six) \w+\.", r".* (two|six) \w+ ago\."),
        (r"Il y a (un|une|des) .*", r"There (is|are) .*"),
        (r".* (samedi|lundi|jeudi|mardi) dernier\.", r".* last (Satur|Mon|Thurs|Tues)day\."),
        (r".*, s'il vous plaît\.", r"Please [^,]*\."),
        (r"Qu'est-ce que .*\?", r"What .*\?"),
        (r"[^,]* plus grand(e|s|es)? que .*", r".* bigger than .*"),
        (r"Il (a plu|pleut) .*", r"It (\w+ )?rain(ed|s) .*"),
        (r"Il fait froid .*", r"It is cold .*"),
        (r"S'ils? .*", r"If (he|they) .*"),
    ],
)
def test_what_french_says_so_english_says_so(translations, french, english):
    found = [text for text in translations if re.fullmatch(french, text)]
    assert found
    assert not [text for text in found if not re.fullmatch(english, translations[text])]


def test_corpus_has_its_languages_and_its_gold():
    settings = GeneratedSettings(train=50, valid=3, test=4)
    corpus = travel(settings)
    assert corpus.languages == ("fr", "en")
    counts = {split: len(list(read())) for split, read in corpus.splits.items()}
    assert counts == {"train": 50, "valid": 3, "test": 4}
    assert {split: len(list(read())) for split, read in corpus.gold.items()} == counts
    assert list(corpus.splits["train"]()) == list(travel(settings).splits["train"]())


@pytest.fixture(scope="module")
def default():
    return travel(GeneratedSettings())


def test_held_out_pairs_stay_what_they_are(default):
    # scores that were published with them would no longer compare
    text = "".join(f"{pair.source}\t{pair.target}\n" for pair in default.splits["test"]())
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "87bdd3db89a7e026"


def test_no_word_form_is_rare(default):
    pairs = list(default.splits["train"]())
    assert len(pairs) == 20_000
    french, english = (
        Counter(word for pair in pairs for word in re.findall(r"\w+", pair[side].lower()))
        for side in (0, 1)
    )
    assert 400 < len(french) < 700
    assert 250 < len(english) < 500
    assert min(french.values()) >= 30, french.most_common()[-5:]
    assert min(english.values()) >= 30, english.most_common()[-5:]
