import pytest
import torch

from captioners import V, show_attend_tell, tiny, training_batch
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.models.vision.build import build_captioner


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


@pytest.mark.slow
def test_hard_attention_has_the_gradient_of_the_expected_reward():
    """Over many draws the mean of its gradient is that of Σ_t E[(log p(y_t) - b)] for one word."""
    model, inputs, given = tiny("hard", reward=1.0, entropy=0.0, doubly_stochastic=0.0)
    model.train()
    given = type(given)(given.ids[:1, :1], given.mask[:1, :1])  # BOS: one word to tell
    inputs = type(inputs)(inputs.values[:1])
    batch = training_batch(inputs, given)
    weight = model.score.energy.weight

    def told(region):
        """log p(y) if `region` is looked at."""

        def hook(site, weights, /):
            return torch.zeros_like(weights).index_fill(-1, torch.tensor(region), 1.0)

        model.eval()
        logits = model(inputs, given, hook=hook)[0, 0]
        return logits.log_softmax(-1)[batch.labels[0]].detach()

    soft = tiny("soft")[0]
    soft.load_state_dict(model.state_dict())
    seen = []
    soft(inputs, given, hook=lambda site, weights: seen.append(weights) or weights)
    probabilities = seen[0][0, 0, 0]  # (S,)
    rewards = torch.stack([told(region) for region in range(len(probabilities))])
    expected = (probabilities * rewards).sum()
    wanted = torch.autograd.grad(-expected, soft.score.energy.weight)[0]
    model.train()
    model.baseline.data.fill_(float(expected))
    total, draws = torch.zeros_like(weight), 3000
    torch.manual_seed(1)
    for _ in range(draws):
        model.baseline.data.fill_(float(expected))
        penalty = model.training_features(batch).penalty
        total += torch.autograd.grad(penalty, weight)[0]
    found = total / draws / 0.5  # in half of the captions nothing was drawn
    angle = torch.nn.functional.cosine_similarity(found.flatten(), wanted.flatten(), dim=0)
    assert angle > 0.9
    assert 0.7 < found.norm() / wanted.norm() < 1.4


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
    assert float(model.train().training_features(training_batch(inputs, given)).penalty) == 0
