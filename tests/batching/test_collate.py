import pytest
import torch

from regard.batching.collate import collate, collate_stream, held_out_batches, pad, pad_source
from regard.batching.sampler import StreamPosition, sample_batches
from regard.corpora.token_store import TokenChunk, TokenStore, write_store
from regard.text.special_tokens import BOS, EOS, PAD


def test_source_rows_end_in_eos():
    ids, mask = pad_source([[5, 6, 7], [8]]).tensors()
    assert ids.tolist() == [[5, 6, 7, EOS], [8, EOS, PAD, PAD]]
    assert mask.tolist() == [[True] * 4, [True, True, False, False]]


def test_an_empty_source_is_not_empty():
    assert pad_source([[]]).ids.tolist() == [[EOS]]


def test_no_rows():
    ids, mask = pad([]).tensors()
    assert ids.shape == mask.shape == (0, 1)


def test_labels_are_the_target_one_place_on():
    batch = collate([[5], [6, 7]], [[9, 10, 11], [12]])
    assert batch.given.ids.tolist() == [[BOS, 9, 10, 11], [BOS, 12, PAD, PAD]]
    assert batch.labels.tolist() == [9, 10, 11, EOS, 12, EOS]
    assert batch.num_labels == 6


def test_places_point_at_the_real_positions():
    batch = collate([[5], [6, 7]], [[9, 10, 11], [12]])
    given = batch.given.ids.flatten()[batch.positions]
    assert given.tolist() == [BOS, 9, 10, 11, BOS, 12]
    torch.testing.assert_close(batch.given.mask.flatten().nonzero().squeeze(1), batch.positions)


@pytest.fixture
def store(tmp_path):
    sides = [[[4 + n] * (n % most + 1) for n in range(60)] for most in (7, 5)]
    write_store(tmp_path / "s.pairs", [TokenChunk(*sides)], "mark")
    return TokenStore.open(tmp_path / "s.pairs")


def test_pairs_become_batches_at_their_places(store):
    drawn = sample_batches(store, StreamPosition(0, 0), budget=10_000, seed=3, max_tokens=100)
    placed = next(collate_stream(drawn))
    assert placed.next_position == StreamPosition(1, 0)
    assert placed.batch.inputs.ids.shape == (60, 8)
    assert (placed.batch.labels == EOS).sum() == 60


def test_held_out_pairs_come_once(store):
    batches = list(held_out_batches(store, budget=32))
    assert sum(batch.inputs.ids.shape[0] for batch in batches) == 60
