import numpy as np
import pytest

from regard.decoding.constraints.length_limits import (
    DEFAULT_LIMITS,
    LengthLimits,
    count_too_long,
    fit_limits,
    report_truncation,
)
from regard.decoding.settings import RuleSettings

SOURCE = np.arange(1, 41).repeat(50)


def rules(limits):
    return RuleSettings(**limits._asdict())


@pytest.mark.parametrize("target", [SOURCE, SOURCE + 10, SOURCE // 2])
def test_usual_limits_stay_where_targets_fit_them(target):
    assert fit_limits(SOURCE, target) == DEFAULT_LIMITS
    assert count_too_long(SOURCE, target, RuleSettings()) == 0


@pytest.mark.parametrize("target", [4 * SOURCE, 12 * SOURCE, SOURCE * 0 + 200, SOURCE + 90])
def test_limits_leave_room_for_long_targets(target):
    found = fit_limits(SOURCE, target)
    assert count_too_long(SOURCE, 1.2 * target, rules(found)) == 0
    assert count_too_long(SOURCE, target, RuleSettings()) > 0
    allowed = [rules(found).limit(int(n) + 1) for n in SOURCE]
    assert np.mean(allowed) < 2 * target.mean() + 40  # and waste little


def test_what_is_given_is_kept():
    found = fit_limits(SOURCE, 4 * SOURCE, {"max_length_ratio": 1.0, "max_length": 99})
    assert (found.max_length_ratio, found.max_length) == (1.0, 99)
    assert found.max_length_offset >= 3 * 40
    assert fit_limits([], [], {"max_length": 7}) == DEFAULT_LIMITS._replace(max_length=7)


def test_a_count_agrees_with_the_search():
    settings = RuleSettings(max_length_ratio=1.5, max_length_offset=3, max_length=30)
    source, target = [0, 1, 5, 5, 40, 40], [3, 6, 11, 12, 29, 30]
    pairs = zip(source, target, strict=True)
    beyond = sum(t + 1 > settings.limit(s + 1) for s, t in pairs)
    assert count_too_long(source, target, settings) == beyond == 3


def test_what_was_cut_is_told_with_what_to_set():
    assert str(report_truncation([3], [9], RuleSettings())) == ""
    assert str(report_truncation([3], [9], RuleSettings(), 1)) == "1 answer was cut at the limit"
    sentences = str(report_truncation([3, 3], [9, 150], RuleSettings(), 2))
    assert sentences.startswith(
        "1 of 2 references (50.0%) are longer than answers may be and 2 answers"
    )
    assert "decoding.rules of {max_length: 256, max_length_ratio: " in sentences
    assert isinstance(report_truncation([3], [150], RuleSettings()).fitting, LengthLimits)
