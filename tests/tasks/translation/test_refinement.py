import itertools
from collections import Counter
from functools import partial

import torch

from regard.batching.collate import collate
from regard.models.build import build_model
from regard.models.translation.transformer_settings import TransformerSettings
from regard.tasks.translation.refinement import (
    gleu_reward,
    refinement_training_settings,
    sample_translations,
)
from regard.tasks.translation.training_inputs import prepare
from regard.text.special_tokens import BOS, EOS, PAD
from regard.training.refinement import RefinementSettings, refinement_loss
from tiny import tiny_recipe

SIZE, A = 6, 4
REFINEMENT = (
    "refinement={steps: 5, samples: 3, batch_tokens: 64, learning_rate: 0.01, validate_every: 2}"
)


def small_model(**given):
    torch.manual_seed(5)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "width": 8, "heads": 2, "feed_forward": 12}
    settings = TransformerSettings(**sizes, embeddings="separate", dropout=0.0, **given)
    return build_model(settings, SIZE, SIZE, joint=False).eval()


def drawn(model, samples=400, ratio=1.0):
    batch = collate([[A, 5], [5]], [[A, 5], [A]])
    settings = RefinementSettings(samples=samples, max_length_ratio=ratio)
    return sample_translations(settings, model, model.encode(batch.inputs), batch.given.mask.sum(1))


def test_answers_are_drawn_as_often_as_they_are_likely():
    model = small_model()
    torch.manual_seed(1)
    samples = drawn(model, samples=1000)[1]
    assert len(samples) == 1000
    counts = Counter((one.tokens, one.finished) for one in samples)
    assert sum(not finished for _, finished in counts) > 1
    memory = model.encode(collate([[5]], [[]]).inputs)
    for (tokens, finished), count in counts.items():
        state, likely = model.start(memory), 1.0
        for last, token in itertools.pairwise((BOS, *tokens, *[EOS] * finished)):
            logits, state = model.step(torch.tensor([[last]]), state)
            logits[..., [PAD, BOS]] = float("-inf")
            likely *= logits[0, 0].softmax(-1)[token].item()
        spread = (likely * (1 - likely) / 1000) ** 0.5
        assert abs(count / 1000 - likely) < 4 * spread + 1e-9


def test_no_answer_is_longer_than_allowed():
    for ratio, longest in ((1.0, [3, 2]), (1.5, [4, 3])):  # of 3 and 2 tokens, EOS counted
        lengths = [
            max(len(one.tokens) + one.finished for one in row)
            for row in drawn(small_model(), ratio=ratio)
        ]
        assert lengths == longest
    near = small_model(positions="learned", max_positions=3)
    assert [max(len(one.tokens) for one in row) for row in drawn(near, ratio=1.5)] == [3, 3]


def test_draws_follow_torch_s_generator():
    model = small_model()
    torch.manual_seed(7)
    one, other = drawn(model, samples=9), drawn(model, samples=9)
    torch.manual_seed(7)
    assert drawn(model, samples=9) == one != other


def test_what_was_drawn_in_low_precision_leaves_no_weights_behind():
    """The loss must not reuse weights that autocast has cached in a search without gradients."""
    model, batch = small_model(), collate([[A, 5], [5]], [[A, 5], [A]])
    draw = partial(sample_translations, RefinementSettings(samples=5))
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16):
        loss = refinement_loss(
            model,
            batch,
            draw=draw,
            reward=lambda reference, some: [*range(len(some))],
            likelihood=1,
        )
    loss.loss.backward()
    assert all(parameter.grad.count_nonzero() for parameter in model.parameters())


def test_the_reward_is_gleu_of_words(tmp_path):
    target = prepare(tiny_recipe(), tmp_path, print).tokenizers.target
    reference, cut, other = target.encode(["She visits Africa.", "She visits", "He sleeps."])
    assert gleu_reward(target, "13a")(reference, [reference, cut, other, []]) == [1, 0.3, 0.1, 0]


def test_what_the_loop_is_told():
    recipe = tiny_recipe(
        "training.accumulate=4",
        "training.moving_average=0.9",
        "training.optimizer.clip_norm=2",
        "training.validation.patience=1",
        REFINEMENT,
    )
    told = refinement_training_settings(recipe.training, recipe.refinement)
    assert (told.steps, told.batch_tokens, told.accumulate, told.average) == (5, 64, 1, 1)
    assert (told.optimizer.learning_rate, told.optimizer.clip_norm) == (0.01, 2)
    assert (told.schedule.shape, told.schedule.warmup) == ("constant", 50)
    assert told.moving_average == 0.9
    assert (told.validation.every, told.validation.by, told.validation.patience) == (
        2,
        "gleu",
        None,
    )
    assert told.validation.sentences == recipe.training.validation.sentences
    assert told.save_every == told.log_every == 2
