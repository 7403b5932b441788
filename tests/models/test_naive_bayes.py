"""Naive Bayes beside an encoder, against counting by hand."""

import math

import pytest
import torch

from regard.batching.collate import pad
from regard.errors import SettingsError
from regard.models.classification.naive_bayes import (
    ABSENT,
    NaiveBayes,
    NgramCounts,
    count_ngrams,
    distinct_ngrams,
    find_places,
)
from regard.models.classification.text_classifier import TextClassifier, TextClassifierSettings
from regard.models.language.gpt import GptSettings
from regard.types import Batch

VOCABULARY, LONGEST, CLASSES = 6, 2, 3
TEXTS = [[3, 4, 4, 4, 2], [4, 5, 2], [3, 4, 2], [5, 5, 5, 2], [0, 3, 4, 2]]
LABELS = [0, 1, 0, 2, 1]


def ngrams_of(text, longest=LONGEST):
    return {tuple(text[i : i + n]) for n in range(1, longest + 1) for i in range(len(text) - n + 1)}


def counted(texts=TEXTS, labels=LABELS):
    batches = [
        (pad(texts[:2]), torch.tensor(labels[:2])),
        (pad(texts[2:]), torch.tensor(labels[2:])),
    ]
    return count_ngrams(batches, LONGEST, VOCABULARY, CLASSES)


def logits_by_hand(text, others, size):
    """Of a text, by other texts with their labels, and the number of all n-grams."""
    found = []
    for label in range(CLASSES):
        counts = [ngrams_of(one) for one, its in others if its == label]
        total = size + sum(map(len, counts))
        seen = [g for g in ngrams_of(text) if any(g in ngrams_of(one) for one, _ in others)]
        found.append(sum(math.log((1 + sum(g in one for one in counts)) / total) for g in seen))
    return torch.tensor(found) - sum(found) / CLASSES


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_each_ngram_of_a_text_counts_once(longest):
    found = distinct_ngrams(pad(TEXTS), longest, VOCABULARY)
    for text, row in zip(TEXTS, found, strict=True):
        numbers = {
            sum((token + 1) * (VOCABULARY + 1) ** i for i, token in enumerate(reversed(ngram)))
            for ngram in ngrams_of(text, longest)
        }
        assert sorted(row[row != ABSENT].tolist()) == sorted(numbers)


def test_numbers_are_found_where_they_are():
    ascending, wanted = (
        torch.tensor([1, 3, 4, 9, 12]),
        torch.tensor([[0, 1, 2, 3, 4], [8, 9, 11, 12, 99]]),
    )
    assert find_places(ascending, wanted).tolist() == [[0, 0, 0, 1, 2], [2, 3, 3, 4, 4]]
    assert find_places(ascending[:1], wanted).eq(0).all()


def test_logits_are_those_of_the_formula():
    known = counted()
    known = known._replace(scale=torch.tensor(0.5))
    bayes = NaiveBayes(known, LONGEST, VOCABULARY)
    new = [[3, 4, 5, 2], [1, 2], [4, 4, 1, 2]]  # 1 is in no text
    wanted = [
        logits_by_hand(text, list(zip(TEXTS, LABELS, strict=True)), len(known.ngrams))
        for text in new
    ]
    torch.testing.assert_close(bayes(pad(new)), torch.stack(wanted) / 2)
    assert not bayes.state_dict()


def test_a_counted_text_is_read_by_the_counts_of_all_others():
    known = counted()
    bayes = NaiveBayes(known, LONGEST, VOCABULARY)
    found = bayes(pad(TEXTS), torch.tensor(LABELS))
    rows = list(zip(TEXTS, LABELS, strict=True))
    wanted = [
        logits_by_hand(text, rows[:i] + rows[i + 1 :], len(known.ngrams))
        for i, text in enumerate(TEXTS)
    ]
    torch.testing.assert_close(found, torch.stack(wanted))


def classifier():
    settings = TextClassifierSettings(
        encoder=GptSettings(layers=1, width=8, heads=2, context=16), ngrams=LONGEST
    )
    words = list(map(str, range(VOCABULARY)))
    return TextClassifier(settings, words, CLASSES, counted())


def test_a_classifier_reads_counted_texts_by_the_others_while_it_trains_alone():
    model, texts, labels = classifier(), pad(TEXTS), torch.tensor(LABELS)
    batch = Batch(texts, None, None, labels)
    for training, known in ((True, labels), (False, None)):
        features = model.train(training).training_features(batch).features
        torch.testing.assert_close(features[:, -CLASSES:], model.bayes(texts, known))
    torch.testing.assert_close(model(texts), model.logits(features))


def test_votes_of_ngrams_are_their_share_of_a_classifiers_logits():
    model = classifier().eval()
    torch.nn.init.normal_(model.output.weight)
    votes = model.ngram_votes(pad([text := [3, 4, 4, 2]]))
    assert votes.keys() == ngrams_of(text)
    before = model(pad([text]))
    torch.nn.init.zeros_(model.bayes.scale)
    torch.testing.assert_close(sum(votes.values()), (before - model(pad([text])))[0])


def test_too_many_counts_are_refused_before_there_is_a_table_of_them():
    texts = [(pad(TEXTS), torch.tensor(LABELS))]
    with pytest.raises(SettingsError, match=r"model.ngrams 2: \d+ n-grams of 1,000,000,000,000 la"):
        count_ngrams(texts, LONGEST, VOCABULARY, classes=10**12)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"more": torch.ones(1)}, "expected ngrams, counts, scale, got .*more"),
        ({"counts": torch.ones(2, CLASSES)}, "no counts of n-grams for 3 labels"),
        ({"ngrams": torch.ones(0), "counts": torch.ones(0, CLASSES)}, "no counts of n-grams for"),
        ({"ngrams": torch.arange(12).flip(0)}, "not in order"),
        ({"counts": torch.full((12, CLASSES), -5.0)}, "negative or no numbers"),
        ({"scale": torch.tensor(torch.nan)}, "negative or no numbers"),
    ],
)
def test_counts_that_are_none_are_refused(changed, wrong):
    known = counted()._asdict()
    assert len(known["ngrams"]) == 12
    NgramCounts.read(known, CLASSES)
    with pytest.raises(ValueError, match=wrong):
        NgramCounts.read(known | changed, CLASSES)
