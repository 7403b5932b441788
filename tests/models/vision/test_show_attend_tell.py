from dataclasses import replace

import torch

from captioners import V, show_attend_tell, tiny, training_batch
from regard.batching.caption_batches import CaptionBuckets
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.models.vision.build import build_captioner
from regard.training.loss import batch_loss
from regard.types import Padded, Pixels


def test_parameters_are_those_of_the_formulas():
    """W_h, W_c, the score function, β, the LSTM, E, L_h, L_z and L_o; and the baseline."""
    model = build_captioner(show_attend_tell(), V)
    width, embedding, alignment, regions = 6, 10, 7, 8
    wanted = {
        "initial": 2 * width * (regions + 1),
        "score": alignment * (width + regions + 1),
        "gate": width + 1,
        "lstm": 4 * width * (embedding + regions + width + 1),
        "embedding": V * embedding,
        "from_state": embedding * (width + 1),
        "from_context": embedding * regions,
        "output": V * (embedding + 1),
    }
    for name, count in wanted.items():
        assert sum(p.numel() for p in getattr(model, name).parameters()) == count, name


def test_the_doubly_stochastic_penalty_is_that_of_equation_14():
    model, inputs, given = tiny("soft", doubly_stochastic=0.3)
    seen = []
    model.train()
    batch = training_batch(inputs, given)
    features = model.training_features(
        batch, hook=lambda site, weights: seen.append(weights) or weights
    )
    weights = torch.cat(seen, 2)[:, 0] * given.mask[..., None]  # (B, T, S)
    wanted = 0.3 * (1 - weights.sum(1)).square().sum() / batch.num_labels
    torch.testing.assert_close(features.penalty, wanted)
    assert model.eval().training_features(batch).penalty is None


def test_filler_changes_no_penalty():
    """A row of filler, and labels that are ignored, as CUDA graphs need them."""
    for name in ("soft", "hard"):
        model, inputs, given = tiny(name)
        model.train()
        batch = training_batch(inputs, given)
        labels = torch.cat([batch.labels, torch.full((2,), IGNORE_INDEX)])
        unused = (~given.mask).flatten().nonzero()[:2, 0]
        padded = type(batch)(inputs, given, torch.cat([batch.positions, unused]), labels)
        penalties = []
        for one in (batch, padded):
            torch.manual_seed(5)
            model.baseline.data.zero_()
            penalties.append(model.training_features(one).penalty * one.num_labels)
        torch.testing.assert_close(*penalties)


def test_a_batch_padded_for_cuda_graphs_has_the_same_loss_and_gradients():
    model, inputs, given = tiny("soft")
    model.train()
    batch, buckets = training_batch(inputs, given), CaptionBuckets()
    wider = buckets.pad(batch, (*buckets.shape(batch)[:-1], 8))
    results = []
    for one in (batch, wider):
        loss = batch_loss(model, one, 0.1)
        weights = [p for p in model.parameters() if p.requires_grad]
        results.append((loss.loss, loss.nll, torch.autograd.grad(loss.loss, weights)))
    torch.testing.assert_close(*results)


def test_hard_attention_has_the_gradient_of_the_expected_reward():
    """The mean of its gradient over many draws is that of E[log p(y)], the region being drawn."""
    model, inputs, given = tiny("hard", reward=1.0, entropy=0.0, doubly_stochastic=0.0)
    picture, bos = (
        type(inputs)(inputs.values[:1]),
        type(given)(given.ids[:1, :1], given.mask[:1, :1]),
    )

    def told(region):
        """log p(y) of the first word if `region` is looked at."""

        def hook(site, weights, /):
            return torch.zeros_like(weights).index_fill(-1, torch.tensor(region), 1.0)

        return model(picture, bos, hook=hook)[0, 0].log_softmax(-1)[0].detach()

    soft, seen = tiny("soft")[0], []
    soft.load_state_dict(model.state_dict())
    soft(picture, bos, hook=lambda site, weights: seen.append(weights) or weights)
    probabilities = seen[0][0, 0, 0]  # (S,)
    expected = sum(p * told(region) for region, p in enumerate(probabilities))
    wanted = torch.autograd.grad(-expected, soft.score.energy.weight)[0]
    draws = 20_000
    many = training_batch(
        Pixels(picture.values.expand(draws, -1, -1, -1)),
        Padded(bos.ids.expand(draws, 1), bos.mask.expand(draws, 1)),
    )
    many = replace(many, labels=torch.zeros_like(many.labels))
    model.train().baseline.data.fill_(float(expected.detach()))
    torch.manual_seed(1)
    penalty = model.training_features(many).penalty
    found = torch.autograd.grad(penalty, model.score.energy.weight)[0]
    found = found / 0.5  # in half of the captions nothing was drawn
    torch.testing.assert_close(found, wanted, rtol=0.15, atol=0.1 * float(wanted.norm()))


def test_the_baseline_follows_the_rewards_and_is_saved_with_the_weights():
    model, inputs, given = tiny("hard")
    model.train()
    batch = training_batch(inputs, given)
    torch.manual_seed(2)
    for _ in range(60):
        model.training_features(batch)
    assert -4 < float(model.baseline) < -1.5  # about log(1 / 13)
    assert "baseline" in dict(model.named_parameters())


def test_without_attention_every_word_sees_the_mean_of_all_regions():
    model, inputs, given = tiny("none")
    assert model.encode(inputs).states.shape[1] == 1
    assert model.grid == (1, 1)
    soft = tiny("soft")[0]
    soft.load_state_dict(model.state_dict())
    uniform = soft(inputs, given, hook=lambda site, weights: torch.full_like(weights, 1 / 16))
    torch.testing.assert_close(model(inputs, given), uniform)
    penalty = model.train().training_features(training_batch(inputs, given)).penalty
    assert penalty.item() == 0
