"""A search whose host is late, as on a GPU, finds what one that waits at each step does."""

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from decoding.tables import HistoryTable
from regard.batching.collate import pad_source
from regard.decoding.constraints import rules
from regard.decoding.constraints.rules import Constraints
from regard.decoding.ensemble import Ensemble, EnsembleState
from regard.decoding.search import active_batch, loop, result_reader, step
from regard.decoding.search.beam import BeamSelector
from regard.decoding.search.config import search
from regard.decoding.search.penalties import Penalties
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings

B, WORDS, S = 9, 4, 5

SETTINGS = st.fixed_dictionaries(
    {
        "n_best": st.integers(1, 2),
        "beam": st.fixed_dictionaries(
            {
                "size": st.integers(2, 4),
                "stop": st.sampled_from(["safe", "size", "limit"]),
                "coverage_penalty": st.sampled_from([0.0, 0.3]),
                "length_penalty": st.sampled_from([0.0, 0.6, 2.0]),
            }
        ),
        "rules": st.fixed_dictionaries(
            {
                "max_length": st.integers(3, 9),
                "max_length_ratio": st.sampled_from([0.5, 1.0, 2.0]),
                "max_length_offset": st.integers(0, 3),
                "min_length": st.integers(0, 2),
                "no_repeat_ngram": st.sampled_from([0, 2]),
                "excluded": st.sampled_from(["spread", "lost"]),
            }
        ),
    }
)


@hypothesis_settings(max_examples=80, deadline=None)
@given(
    chosen=SETTINGS,
    way=st.sampled_from(["beam", "greedy", "sampling"]),
    lag=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    sharp=st.sampled_from([0.5, 2.0, 5.0]),
    prefixed=st.booleans(),
    members=st.integers(1, 2),
)
def test_late_hosts_find_the_same(chosen, way, lag, seed, sharp, prefixed, members):
    chosen = {name: dict(part) if name != "n_best" else part for name, part in chosen.items()}
    if way == "sampling":
        chosen |= {"beam": {}, "sampling": {"seed": seed, "temperature": 0.7}}
    elif way == "greedy":
        chosen["n_best"], chosen["beam"]["size"] = 1, 1
    settings = DecodingSettings.model_validate(chosen)
    tables = [
        HistoryTable(B, WORDS, 4, source=S, seed=seed + n, sharp=sharp) for n in range(members)
    ]
    lengths = torch.tensor([1, 2, 3, 4, 5, 5, 4, 3, 2])
    prefixes = [[4, 5][: number % 3] for number in range(B)] if prefixed else None

    def found():
        state = EnsembleState(tuple(table.start() for table in tables))
        constraints = Constraints(prefixes, [[6, 6]])
        return search(Ensemble(tables), state, lengths, settings, constraints=constraints)

    plain = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "host_lag", lambda where: lag)
        assert found() == plain


class NoWaits(TorchDispatchMode):
    """An error at whatever would make the host wait for a GPU, but while the host reads."""

    ASKED = ("_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "item", "equal")

    def __init__(self):
        super().__init__()
        self.reads, self.seen = False, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.seen += 1
        if not self.reads:
            assert name not in self.ASKED, name
            indices = args[1] if name == "index" else ()
            assert all(x is None or x.dtype == torch.long for x in indices), "a mask as an index"
        return func(*args, **(kwargs or {}))

    def allow(self, patch, cls, name):
        """Let that method read: what it asks are the host's own numbers."""
        method = getattr(cls, name)

        def reading(*args):
            self.reads = True
            try:
                return method(*args)
            finally:
                self.reads = False

        patch.setattr(cls, name, reading)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("excluded", ["spread", "lost"])
@pytest.mark.parametrize("more", [{}, {"min_length": 2, "no_repeat_ngram": 2}])
def test_no_step_waits_for_the_device(size, excluded, more, monkeypatch):
    for module in (step, rules):
        monkeypatch.setattr(module, "is_on_cpu", lambda x: False)
    monkeypatch.setattr(loop, "host_lag", lambda where: 1)
    mode = NoWaits()
    mode.allow(monkeypatch, active_batch.ActiveBatch, "poll")
    mode.allow(monkeypatch, result_reader.ResultReader, "_read")
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "width": 16, "heads": 2, "feed_forward": 16}
    model = Transformer(TransformerSettings(**sizes), 40, 40).eval()
    lengths = torch.tensor([5, 3, 2])
    settings = RuleSettings(max_length_ratio=2, max_length_offset=2, excluded=excluded, **more)
    obeyed = rules.Rules(settings, lengths)
    penalties = Penalties(BeamSettings(), lengths, obeyed.limits)
    config = step.SearchConfig(BeamSelector(size), obeyed, penalties, 1, "size")
    with torch.inference_mode():
        state = model.start(model.encode(pad_source([[5, 6, 7, 8], [9, 10], [11]])))
        plain = loop.run_search(model, state, config, None)
        with mode:
            assert loop.run_search(model, state, config, None) == plain
    assert mode.seen > 100
