import time
from contextlib import closing
from functools import partial

import pytest
import torch

from regard.batching.sampler import Shard, StreamPosition, sample_batches, sample_segmentations
from regard.errors import TrainingError
from regard.tasks.translation import batches
from regard.tasks.translation.batches import stream_batches
from regard.tasks.translation.training_inputs import prepare
from regard.text.sentencepiece_tokenizer import SentencePieceTokenizer
from regard.text.settings import TextSettings
from tiny import tiny_recipe


def test_several_processes_prepare_the_batches_that_one_would(tmp_path, monkeypatch):
    recipe, start = tiny_recipe("text.source.sampling=0.3"), StreamPosition(0, 1)
    prepared = prepare(recipe, tmp_path, print)
    here, real = [], SentencePieceTokenizer.sample_segmentation
    noted = lambda *args: here.append(args) or real(*args)  # noqa: E731
    monkeypatch.setattr(SentencePieceTokenizer, "sample_segmentation", noted)
    sample_segmentation = partial(sample_segmentations, prepared.tokenizers)
    draw = partial(
        sample_batches,
        prepared.train,
        budget=256,
        seed=1,
        max_tokens=99,
        sample_segmentation=sample_segmentation,
    )
    part = Shard(1, 3)  # that of one rank
    alone, made_elsewhere = part.take(stream_batches(draw, 0, start)), 0
    with closing(stream_batches(draw, 2, start, part)) as shared:
        while made_elsewhere < 5:
            before = len(here)
            batch = next(shared)
            made_elsewhere += len(here) == before
            assert str(next(alone)) == str(batch)
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("text", "num_workers"),
    [
        ({"source": {"sampling": 0.1}}, 4),
        ({"source": {"kind": "unigram", "sampling": 0.1}}, 8),
        ({"source": {"sampling": 0.1}, "target": {"kind": "unigram"}, "joint": False}, 4),
        ({"source": {}, "target": {"kind": "unigram", "sampling": 0.1}, "joint": False}, 8),
    ],
)
def test_a_gpu_has_several_processes_prepare_its_batches(monkeypatch, text, num_workers):
    wanted = TextSettings.model_validate(text)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    assert batches._num_batch_workers(torch.device("cuda"), wanted) == num_workers
    assert batches._num_batch_workers(torch.device("cpu"), wanted) == 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert batches._num_batch_workers(torch.device("cuda"), wanted) == 1


def test_the_error_of_a_killed_worker_says_how_to_go_on():
    with pytest.raises(TrainingError, match=r"ended with status 9; .*--resume"):
        raise batches._worker_died(9)
