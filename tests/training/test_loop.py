import json
from functools import partial
from itertools import islice

import pytest
import torch

from flips import flip
from regard.batching.collate import collate_stream
from regard.batching.sampler import WHOLE_STREAM, sample_batches
from regard.corpora.token_store import TokenChunk, TokenStore, write_store
from regard.errors import RunError, TrainingError
from regard.manifest import create_manifest
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.tasks.translation.settings import TranslationTrainingSettings
from regard.training import loop
from regard.training.checkpoints import (
    START,
    best_weights,
    list_checkpoints,
    load_weights,
    read_progress,
)
from regard.training.loop import Selection, TrainingTask, fit
from regard.training.loss import batch_loss
from regard.training.optimizer import OptimizerSettings, build_optimizer

VOCABULARY = 20


class Silent:
    def __init__(self):
        self.notes, self.losses, self.validations = [], [], []

    def noted(self, message):
        self.notes.append(message)

    def logged(self, step, numbers):
        self.losses.append(numbers["loss"])

    def validated(self, step, numbers, *, best):
        self.validations.append((step, best))


def settings(**changed):
    plain = {
        "steps": 12,
        "batch_tokens": 64,
        "precision": "float32",  # the same on every machine
        "schedule": {"warmup": 4},
        "validation": {"every": 4, "by": "loss"},
        "log_every": 3,
        "save_every": 5,
        "average": 2,
    }
    return TranslationTrainingSettings.model_validate(plain | changed)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "s.pairs"
    draw = torch.Generator().manual_seed(0)
    rows = [torch.randint(4, VOCABULARY, (n % 6 + 2,), generator=draw).tolist() for n in range(80)]
    write_store(path, [TokenChunk(rows, rows)], "mark")
    return TokenStore.open(path)


def stream(store, budget, start, shard=WHOLE_STREAM):
    return collate_stream(
        sample_batches(store, start, budget=budget, seed=1, max_tokens=99, shard=shard)
    )


def new_model(seed=1, dropout=0.1, experts=None):
    torch.manual_seed(seed)
    plain = TransformerSettings(
        encoder_layers=1,
        decoder_layers=1,
        width=16,
        heads=2,
        feed_forward=24,
        dropout=dropout,
        experts=experts,
    )
    return Transformer(plain, VOCABULARY, VOCABULARY)


def run(
    store, folder, *, stop_after=None, reporter=None, validate=None, validate_first=False, **changed
):
    sizes = {name: changed.pop(name) for name in ("dropout", "experts") if name in changed}
    loss, selection = changed.pop("loss", None), changed.pop("selection", None)
    wanted, model = settings(**changed), new_model(**sizes)
    steps = iter(range(1, 1000))

    def weight_norm(model):
        return {"loss": float(sum(p.detach().double().square().sum() for p in model.parameters()))}

    progress = fit(
        model,
        TrainingTask(
            partial(stream, store, wanted.batch_tokens),
            loss or partial(batch_loss, smoothing=wanted.label_smoothing),
            validate or weight_norm,
            selection or wanted.validation.selection,
            validate_first=validate_first,
        ),
        wanted,
        folder=folder,
        width=16,
        reporter=reporter or Silent(),
        stop_requested=lambda: stop_after is not None and next(steps) >= stop_after,
    )
    return model, progress


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("stop_after", [1, 4, 5, 7, 11])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"moving_average": 0.9, "accumulate": 2},
        {"experts": {"count": 3, "every": 1}},
        {"precision": "bfloat16"},
        {"optimizer": OptimizerSettings(kind="muon", weight_decay=0.1)},
    ],
    ids=["plain", "averaged", "experts", "bfloat16", "muon"],
)
def test_stopped_and_resumed_equals_unbroken(store, tmp_path, stop_after, changed):
    whole, _ = run(store, tmp_path / "whole", **changed)
    broken, progress = run(store, tmp_path / "broken", stop_after=stop_after, **changed)
    assert progress.step == stop_after
    assert not same(broken, whole)
    resumed, progress = run(store, tmp_path / "broken", **changed)
    assert progress.step == 12
    assert same(resumed, whole)
    files = ["model.safetensors", "weights/best.safetensors", "weights/last.safetensors"]
    for file in files:
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "broken" / file).read_bytes()


def test_resumed_where_a_parameter_never_had_a_gradient(store, tmp_path):
    def without_noise(model, batch):
        return batch_loss(model.eval(), batch, smoothing=0.1)

    given = {"loss": without_noise, "experts": {"count": 3, "every": 1}}
    whole, _ = run(store, tmp_path / "whole", **given)
    assert whole.encoder[0].feed.gate.noise.abs().sum() == 0  # as it began
    run(store, tmp_path / "broken", stop_after=5, **given)
    resumed, _ = run(store, tmp_path / "broken", **given)
    assert same(resumed, whole)


@pytest.mark.parametrize("before", [{}, {"optimizer": {"kind": "sgd", "momentum": 0.9}}])
def test_a_resumed_run_may_go_on_with_muon(store, tmp_path, before):
    run(store, tmp_path, stop_after=5, **before)
    _, progress = run(store, tmp_path, optimizer={"kind": "muon"})
    assert progress.step == 12


def test_an_average_that_begins_in_a_resumed_run_begins_with_its_weights(store, tmp_path):
    before, _ = run(store, tmp_path, steps=5)
    after, _ = run(store, tmp_path, steps=6, moving_average=0.9)
    averaged = load_weights(tmp_path / "weights" / "last.safetensors")
    for (name, first), second in zip(before.named_parameters(), after.parameters(), strict=True):
        torch.testing.assert_close(averaged[name], torch.lerp(first, second, 9 / 16).detach())


def test_resumed_from_the_checkpoint_before_a_damaged_one(store, tmp_path):
    whole, _ = run(store, tmp_path / "whole")
    run(store, tmp_path / "broken", stop_after=7)
    newest = list_checkpoints(tmp_path / "broken" / "checkpoints")[0]
    newest.write_bytes(newest.read_bytes()[:100])
    reporter = Silent()
    resumed, _ = run(store, tmp_path / "broken", reporter=reporter)
    assert same(resumed, whole)
    assert any("is damaged" in message for message in reporter.notes)


def test_where_no_checkpoint_is_whole_training_starts_over_and_says_so(store, tmp_path):
    whole, _ = run(store, tmp_path / "whole")
    run(store, tmp_path / "broken", stop_after=7)
    for path in list_checkpoints(tmp_path / "broken" / "checkpoints"):
        flip(path, 300)
    reporter = Silent()
    resumed, _ = run(store, tmp_path / "broken", reporter=reporter)
    assert same(resumed, whole)
    assert any("all checkpoints are damaged: training starts over" in x for x in reporter.notes)


@pytest.mark.parametrize("lost", [1, 2])
def test_lost_or_damaged_weights_do_not_end_a_run(store, tmp_path, lost):
    create_manifest(tmp_path)
    losses = iter(range(100, 0, -1))
    changed = {"validate": lambda model: {"loss": float(next(losses))}}
    run(store, tmp_path, stop_after=11, **changed)
    kept = best_weights(tmp_path)
    assert len(kept) == 2
    flip(kept[0], 1000)
    if lost == 2:
        kept[1].unlink()
    reporter = Silent()
    losses = iter([200.0, 150.0])  # the last weights are not among the best
    run(store, tmp_path, reporter=reporter, **changed)
    assert any(f"{kept[0]} is damaged; the others are used without" in x for x in reporter.notes)
    used = kept[1] if lost == 1 else tmp_path / "weights" / "last.safetensors"
    assert (tmp_path / "model.safetensors").read_bytes() == used.read_bytes()
    assert any("the last ones are used" in x for x in reporter.notes) == (lost == 2)


def test_a_finished_run_resumed_stays_the_same(store, tmp_path):
    run(store, tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    reporter = Silent()
    _, progress = run(store, tmp_path, reporter=reporter)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert reporter.validations == []
    assert progress.step == 12


def test_the_weights_of_the_beginning_may_stay_the_best(store, tmp_path):
    values, reporter = iter([1.0, 2.0, 0.5, 3.0]), Silent()
    _, progress = run(
        store,
        tmp_path,
        average=1,
        validate_first=True,
        reporter=reporter,
        validate=lambda model: {"loss": next(values)},
    )
    assert reporter.validations == [(0, True), (4, False), (8, True), (12, False)]
    assert progress.best == ((-0.5, 8),)
    other = tmp_path / "other"
    run(store, other, average=1, validate_first=True, validate=lambda model: {"loss": 1.0})
    for name, weights in new_model().state_dict().items():
        assert torch.equal(load_weights(other / "model.safetensors")[name], weights)


def test_metrics_hold_each_step_once(store, tmp_path):
    run(store, tmp_path, stop_after=7)
    run(store, tmp_path)
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    places = [(r["kind"], r["step"]) for r in records]
    assert sorted(places) == sorted(
        [("train", s) for s in (3, 6, 9, 12)]
        + [("valid", s) for s in (4, 8, 12)]
        + [("average", 12)]
    )


def test_expert_use_is_logged(store, tmp_path):
    run(store, tmp_path, experts={"count": 3, "every": 1}, accumulate=2)
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    logged = [r for r in records if r["kind"] == "train"]
    assert len(logged) == 4
    for record in logged:
        for layer in ("encoder-0", "decoder-0"):
            assert 1 <= record[f"experts/{layer}/busiest"] < 3
            assert record[f"experts/{layer}/idle"] == 0


def test_uneven_experts_cost(store, tmp_path):
    losses = []
    for weight in (0.0, 100.0):
        reporter = Silent()
        experts = {"count": 3, "every": 1, "importance_weight": weight, "load_weight": 0}
        run(store, tmp_path / str(weight), steps=3, experts=experts, reporter=reporter)
        losses.append(reporter.losses[0])
    assert losses[1] > losses[0] + 0.1


def test_a_step_is_the_mean_over_the_tokens_of_all_its_batches(store, tmp_path):
    wanted = settings(steps=1, accumulate=3, validation={"every": 9, "by": "loss"})
    model = new_model(dropout=0.0)
    optimizer = build_optimizer(model, wanted.optimizer)
    optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = 5e-4 / 4  # of warm-up 4
    batches = [positioned.batch for positioned in islice(stream(store, 64, START), 3)]
    losses = [batch_loss(model, batch, 0.1).loss for batch in batches]
    (sum(losses) / sum(batch.num_labels for batch in batches)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    found, _ = run(store, tmp_path, dropout=0.0, **wanted.model_dump())
    for one, other in zip(found.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_the_loss_falls(store, tmp_path):
    reporter = Silent()
    run(store, tmp_path, steps=60, reporter=reporter, optimizer={"learning_rate": 0.01})
    assert reporter.losses[-1] < 0.8 * reporter.losses[0]


def accuracies(*pairs):
    """Validations with these accuracies and losses."""
    scores = iter(pairs)
    return lambda model: dict(zip(("accuracy", "loss"), next(scores), strict=True))


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize(("tie_breaker", "best"), [("loss", 8), (None, 4)])
def test_equal_scores_are_told_apart_by_the_tie_breaker(store, tmp_path, tie_breaker, best, broken):
    selection = Selection("accuracy", lower_is_better=False, tie_breaker=tie_breaker)
    changed = {"selection": selection, "average": 1, "save_every": 1}
    found = accuracies((100.0, 0.4), (100.0, 0.1), (100.0, 0.2))
    if broken:
        run(store, tmp_path, validate=found, stop_after=9, **changed)
    _, progress = run(store, tmp_path, validate=found, **changed)
    assert progress.best == ((100.0, best),)
    assert progress.tie_breakers == ((-0.1,) if tie_breaker else ())


@pytest.mark.parametrize(("averaged", "used"), [(0.9, "average"), (1.1, "best")])
def test_the_best_weights_are_averaged_where_that_helps(store, tmp_path, averaged, used):
    values, reporter = iter([3.0, 1.0, 2.0, averaged]), Silent()
    _, progress = run(
        store, tmp_path, reporter=reporter, validate=lambda model: {"loss": next(values)}
    )
    assert [step for _, step in progress.best] == [8, 12]
    weights = {
        name: load_weights(tmp_path / "weights" / f"{name}.safetensors")
        for name in ("best", "last", "average")
    }
    model = load_weights(tmp_path / "model.safetensors")
    for name, value in model.items():
        want = (weights["best"][name].double() + weights["last"][name].double()) / 2
        torch.testing.assert_close(weights["average"][name].double(), want)
        assert torch.equal(value, weights[used][name])
    assert f"averaged: loss {averaged:.2f}, the best alone 1.00; the {used}" in reporter.notes[-1]


def test_weights_stay_as_long_as_a_checkpoint_names_them(store, tmp_path):
    changed = {"save_every": 2, "validation": {"every": 2, "by": "loss"}, "average": 1}
    losses = iter(range(100, 0, -1))
    run(store, tmp_path, validate=lambda model: {"loss": float(next(losses))}, **changed)
    named = {step for one in read_progress(tmp_path / "checkpoints") for _, step in one.best}
    kept = {int(path.stem[5:]) for path in (tmp_path / "weights").glob("step-*")}
    assert kept == named == {10, 12}
    newest = list_checkpoints(tmp_path / "checkpoints")[0]
    newest.write_bytes(b"")
    losses = iter([50.0])  # worse than before: the weights of step 10 are needed again
    run(store, tmp_path, validate=lambda model: {"loss": next(losses) + 20}, **changed)
    assert (tmp_path / "weights" / "best.safetensors").exists()


def test_weights_that_are_not_numbers_are_never_saved(store, tmp_path):
    def spoil(model):
        with torch.no_grad():
            next(iter(model.parameters())).fill_(float("nan"))
        return {"loss": 1.0}

    with pytest.raises(TrainingError, match="not a number"):
        run(store, tmp_path, validate=spoil, save_every=4)
    assert not list_checkpoints(tmp_path / "checkpoints")


def test_patience_ends_training_early(store, tmp_path):
    values = iter([1.0, 2.0, 3.0, 0.5])
    changed = {"validation": {"every": 2, "by": "loss", "patience": 2}}
    told = Silent()
    _, progress = run(
        store, tmp_path, reporter=told, validate=lambda model: {"loss": next(values)}, **changed
    )
    assert progress.step == 6
    assert "stopped after 6 of 12 steps: 2 validations brought no better loss" in told.notes
    assert progress.best[0] == (-1.0, 2)


def test_a_score_is_better_when_higher(store, tmp_path):
    values = iter([10.0, 30.0, 20.0])
    changed = {"validation": {"every": 4, "by": "bleu"}, "average": 1}
    _, progress = run(store, tmp_path, validate=lambda model: {"bleu": next(values)}, **changed)
    assert progress.best == ((30.0, 8),)


def test_the_moving_average_is_what_is_validated(store, tmp_path):
    seen = []

    def validate(model):
        seen.append([p.detach().clone() for p in model.parameters()])
        return {"loss": 1.0}

    model, _ = run(store, tmp_path, validate=validate, moving_average=0.99)
    assert not all(torch.equal(a, b) for a, b in zip(seen[2], model.parameters(), strict=True))


def test_a_loss_that_is_not_a_number_stops_with_advice(store, tmp_path):
    with pytest.raises(TrainingError, match=r"not a number.*lower training\.optimizer"):
        run(store, tmp_path, optimizer={"learning_rate": 1e30, "clip_norm": 0}, steps=30)
    assert not list_checkpoints(tmp_path / "checkpoints")


@pytest.mark.parametrize("loss", [float("inf"), float("nan"), 701.0])
@pytest.mark.parametrize("by", ["loss", "bleu"])
def test_a_validation_beyond_hope_stops_and_is_never_the_best(store, tmp_path, loss, by):
    numbers = iter([{"loss": 2.0, "bleu": 1.0}, {"loss": loss, "bleu": 5.0}])
    changed = {"validation": {"every": 4, "by": by}, "save_every": 4}
    with pytest.raises(TrainingError, match=r"step 8: the loss on the validation data is .* div"):
        run(store, tmp_path, validate=lambda model: next(numbers), **changed)
    assert [one.best[0][1] for one in read_progress(tmp_path / "checkpoints")] == [4]
    assert not (tmp_path / "weights" / "step-000000008.safetensors").exists()


def test_a_checkpoint_of_another_model_is_refused(store, tmp_path):
    run(store, tmp_path, stop_after=5)
    wanted = settings()
    other = Transformer(
        TransformerSettings(encoder_layers=2, decoder_layers=1, width=16, heads=2, feed_forward=24),
        VOCABULARY,
        VOCABULARY,
    )
    with pytest.raises(RunError, match="does not fit the model"):
        fit(
            other,
            TrainingTask(
                partial(stream, store, 64),
                partial(batch_loss, smoothing=0.1),
                lambda model: {"loss": 1.0},
            ),
            wanted,
            folder=tmp_path,
            width=16,
            reporter=Silent(),
            stop_requested=lambda: False,
        )


def test_bfloat16_trains(store, tmp_path):
    reporter = Silent()
    changed = {"precision": "bfloat16", "steps": 60, "optimizer": {"learning_rate": 0.01}}
    model, _ = run(store, tmp_path, reporter=reporter, **changed)
    assert reporter.losses[-1] < 0.8 * reporter.losses[0]
    assert next(model.parameters()).dtype == torch.float32


@pytest.mark.parametrize(("precision", "times"), [("bfloat16", 1), ("float32", 0)])
def test_products_of_packed_batches_are_not_remembered(
    store, tmp_path, monkeypatch, precision, times
):
    asked = []
    monkeypatch.setattr(loop, "limit_onednn_caches", lambda: asked.append(True))
    run(store, tmp_path, precision=precision)
    assert len(asked) == times


def test_other_threads_are_noted(store, tmp_path):
    run(store, tmp_path, stop_after=5)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    reporter = Silent()
    try:
        run(store, tmp_path, reporter=reporter)
    finally:
        torch.set_num_threads(threads)
    assert any(f"resumed with {threads + 1}" in message for message in reporter.notes)
