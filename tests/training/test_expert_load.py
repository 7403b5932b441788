import pytest
import torch

from regard.training.expert_load import ExpertLoad
from regard.types import Routing, Site


def routing(part, layer, shares):
    return Routing(Site(part, layer), torch.tensor(0.0), torch.tensor(shares))


def test_each_layer_says_how_busy_and_how_idle_its_experts_were():
    use = ExpertLoad()
    use.add([routing("encoder", 1, [0.25, 0.25, 0.5, 0.0]), routing("decoder", 0, [0.5, 0.5])])
    use.add([routing("encoder", 1, [0.25, 0.35, 0.4, 0.0]), routing("decoder", 0, [0.9, 0.1])])
    assert use.pop_metrics() == pytest.approx(
        {
            "experts/encoder-1/busiest": 4 * 0.45,
            "experts/encoder-1/idle": 1,
            "experts/decoder-0/busiest": 2 * 0.7,
            "experts/decoder-0/idle": 0,
        }
    )


def test_what_was_taken_is_forgotten():
    use = ExpertLoad()
    assert use.pop_metrics() == {}
    use.add([routing("encoder", 1, [1.0, 0.0])])
    use.pop_metrics()
    use.add([routing("encoder", 1, [0.0, 1.0])])
    assert use.pop_metrics()["experts/encoder-1/busiest"] == 2
    assert use.pop_metrics() == {}


def test_a_tenth_of_a_fair_share_is_not_idle():
    use = ExpertLoad()
    use.add([routing("decoder", 0, [0.06, 0.94])])
    assert use.pop_metrics()["experts/decoder-0/idle"] == 0
    use.add([routing("decoder", 0, [0.04, 0.96])])
    assert use.pop_metrics()["experts/decoder-0/idle"] == 1
