"""A peer that takes our weights over computes what we do."""

from dataclasses import replace

import pytest
import torch

from bench.peers import PEERS, is_installed, open_peer, packed_flash
from bench.peers.contract import ModelShape, PeerConfig
from bench.peers.logit_check import check_same_logits
from bench.peers.run_export import load_exportable_run
from bench.synthetic_batches import synthetic_batches
from regard.batching.collate import collate
from regard.errors import RunError
from tiny import train_tiny

SHAPE = ModelShape(1, 1, 16, 2, 32, vocabulary=60)
LINES = ["Jane visite l'Afrique en septembre.", "Le chat noir dort."]


def skip_unless_here(key):
    if key in PEERS and not is_installed(key):
        pytest.skip(f"{PEERS[key].package} is not installed: pip install -e '.[bench]'")


@pytest.fixture(scope="module")
def post_run(tmp_path_factory):
    """A run whose norms stand behind the layers."""
    return train_tiny(tmp_path_factory.mktemp("runs") / "post", "model.norm=post")


@pytest.mark.parametrize("run", ["tiny_run", "post_run"])
@pytest.mark.parametrize("key", ["hugging_face", "joey"])
def test_a_peer_takes_our_weights_over(key, run, request, tmp_path):
    """`export` itself proves that the logits are equal; greedy answers are then too."""
    skip_unless_here(key)
    run = request.getfixturevalue(run)
    folders = {name: tmp_path / name for name in ("regard", key)}
    said = {}
    for name, folder in folders.items():
        folder.mkdir()
        open_peer(name).export(run, folder)
        said[name] = open_peer(name).open_engine(folder, PeerConfig()).translate(LINES, 1)
    assert said[key] == said["regard"]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_packed_sentences_have_the_logits_that_each_has_alone(norm):
    shape = replace(SHAPE, norm=norm, dropout=0.0)
    model = packed_flash.PackedTransformer(shape).eval()
    torch.manual_seed(0)
    rows = [[5, 6, 7], [8, 9]], [[10, 11], [12, 13, 14, 15]]
    together = model(collate(*rows))
    alone = [model(collate([source], [target])) for source, target in zip(*rows, strict=True)]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize(
    "key", ["regard", "torch_transformer", "hugging_face", "joey", "packed_flash"]
)
def test_all_peers_train_on_the_same_batches(key):
    skip_unless_here(key)
    torch.manual_seed(0)
    batches = synthetic_batches(3, 128, SHAPE.vocabulary)
    trainer = open_peer(key).open_trainer(SHAPE, PeerConfig())
    first = trainer.train(batches)
    for _ in range(8):
        last = trainer.train(batches)
    assert first.tokens == sum(batch.num_labels for batch in batches[1:])
    assert first.seconds > 0
    assert last.loss < first.loss


def test_other_logits_are_refused(tiny_run):
    taken = load_exportable_run(tiny_run)

    def wrong(batch):
        return torch.zeros(batch.num_labels, taken.shape.vocabulary)

    with pytest.raises(RunError, match=r"logits are up to .* the peer would be measured at other"):
        check_same_logits(taken.run.model, taken.shape.vocabulary, wrong)


def test_a_model_that_no_peer_has_is_refused(other_run):
    with pytest.raises(RunError, match="family rnnsearch, which no peer has"):
        load_exportable_run(other_run)


def test_a_setting_that_no_peer_has_is_refused(words_run):
    with pytest.raises(RunError, match=r"model\.embeddings is target; the peers have shared only"):
        load_exportable_run(words_run)
