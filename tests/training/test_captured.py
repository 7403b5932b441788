from contextlib import nullcontext
from functools import partial

import pytest
import torch
from pydantic import ValidationError

from regard.batching.buckets import Buckets
from regard.batching.collate import collate
from regard.errors import TrainingError
from regard.models.transformer import Transformer, TransformerSettings
from regard.training.average import MovingAverage
from regard.training.captured import Again, CapturedStep, graphs_on, put
from regard.training.expert_use import ExpertUse
from regard.training.loop import TrainingSettings
from regard.training.loss import batch_loss
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.step import Learning, PlainStep

SIZE, CLIP = 40, 0.5
SETTINGS = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 24}


class Counted(Again):
    """Counts what was captured and what was done again."""

    def __init__(self):
        self.captured, self.replayed = 0, 0

    def capture(self, work):
        self.captured += 1

        def again():
            self.replayed += 1
            work()

        return again


def batches(lengths, seed=0):
    """One batch of so many sentences for each list of lengths."""
    generator = torch.Generator().manual_seed(seed)

    def draw(sizes):
        return [torch.randint(4, SIZE, (size,), generator=generator).tolist() for size in sizes]

    return [collate(draw(sizes), draw(reversed(sizes))) for sizes in lengths]


def learning(**settings):
    torch.manual_seed(1)
    model = Transformer(TransformerSettings(**SETTINGS, **settings), SIZE, SIZE)
    optimizer = build_optimizer(model, OptimizerSettings())
    moving = MovingAverage(list(model.parameters()), 0.9)
    totals = torch.zeros(2, dtype=torch.float64)
    loss = partial(batch_loss, smoothing=0.1)
    return Learning(model, loss, optimizer, moving, totals, ExpertUse(), CLIP, nullcontext)


LENGTHS = [[3, 5, 4], [6, 7], [2, 2, 5, 5], [9, 11], [7, 4, 3], [10, 12], [5, 1]]


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("settings", [{}, {"positions": "relative"}], ids=["packed", "padded"])
def test_it_ends_where_the_plain_step_ends(settings, accumulate):
    # The slope of a bias of keys is 0 but for rounding, of which Adam would make whole steps.
    plain, other = (learning(dropout=0.0, bias=False, **settings) for _ in range(2))
    recorder = Counted()
    captured = CapturedStep(other, Buckets(60), recorder)
    plain_step, given = PlainStep(plain), batches(LENGTHS)
    for step in range(1, 1 + len(given) // accumulate):
        some = given[(step - 1) * accumulate : step * accumulate]
        plain_step(some, rate=0.01 * step, step=step)
        captured(some, rate=0.01 * step, step=step)
    torch.testing.assert_close(other.totals, plain.totals, rtol=1e-4, atol=1e-4)
    wanted = dict(plain.model.named_parameters())
    for name, found in other.model.named_parameters():
        torch.testing.assert_close(found, wanted[name], rtol=1e-3, atol=2e-4)
    for found, shadow in zip(other.moving.shadow, plain.moving.shadow, strict=True):
        torch.testing.assert_close(found, shadow, rtol=1e-3, atol=2e-4)
    assert recorder.captured == len(captured.runs) + 1
    assert recorder.replayed > recorder.captured - 1


def test_the_first_of_a_shape_is_done_and_the_second_captured():
    recorder = Counted()
    captured = CapturedStep(learning(), Buckets(60), recorder)
    one, other = batches([[3, 5, 4], [5, 2]])
    captured([one], rate=0.01, step=1)
    assert recorder.captured == 0
    captured([other], rate=0.01, step=2)
    assert recorder.captured == 2  # the shape's, and the update
    captured([one], rate=0.01, step=3)
    assert recorder.captured == 2
    assert recorder.replayed == 4


def test_a_batch_beyond_the_buckets_is_learned_from_without_them():
    recorder = Counted()
    captured = CapturedStep(learning(), Buckets(60), recorder)
    long = batches([[70]])
    for step in (1, 2, 3):
        captured(long, rate=0.01, step=step)
    assert not captured.buffers
    assert recorder.captured == 1  # the update


def test_dropout_differs_each_time():
    it = learning(dropout=0.3)
    captured = CapturedStep(it, Buckets(60), Again())
    given, seen = batches([[3, 5, 4]]), []
    for step in (1, 2, 3):
        it.totals.zero_()
        captured(given, rate=0.0, step=step)
        seen.append(it.totals[0].item())
    assert len(set(seen)) == 3


def test_gradients_stay_where_they_are():
    it = learning()
    captured = CapturedStep(it, Buckets(60), Again())
    before = [p.grad.data_ptr() for p in it.model.parameters()]
    for step in (1, 2, 3):
        captured(batches([[3, 5, 4]]), rate=0.01, step=step)
    assert [p.grad.data_ptr() for p in it.model.parameters()] == before
    assert all((p.grad == 0).all() for p in it.model.parameters())


def test_putting_a_batch_changes_the_values_and_not_the_place():
    one, other = batches([[3, 5]]), batches([[3, 5]], seed=1)
    place = one[0].labels.data_ptr()
    put(other[0], one[0])
    assert torch.equal(one[0].labels, other[0].labels)
    assert torch.equal(one[0].source.ids, other[0].source.ids)
    assert one[0].labels.data_ptr() == place


def test_experts_are_refused():
    it = learning(experts={"count": 3, "every": 1})
    captured = CapturedStep(it, Buckets(60), Again())
    with pytest.raises(TrainingError, match="capture is not for models with experts"):
        captured(batches([[3, 5]]), rate=0.01, step=1)


def test_a_cpu_has_no_graphs():
    with pytest.raises(TrainingError, match=r"capture is for a GPU, .* this is a cpu"):
        graphs_on(torch.device("cpu"))


def test_two_draws_for_each_pair_are_refused():
    with pytest.raises(ValidationError, match=r"consistency 5\.0 sees pairs twice"):
        TrainingSettings(capture=True, consistency=5)
