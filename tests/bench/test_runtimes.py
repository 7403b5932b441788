"""A model in several runtimes."""

from bench.runtimes import measure
from regard.errors import RunError


def test_a_runtime_that_cannot_have_the_model_is_told_with_its_reason():
    def refuse():
        raise RunError("positions: relative")

    opened = {"ours": lambda: lambda texts: [text.upper() for text in texts], "theirs": refuse}
    outcomes, failed = measure(opened, ["a", "b"])
    assert outcomes["ours"].texts == ["A", "B"]
    assert outcomes["ours"].seconds > 0
    assert failed == {"theirs": "positions: relative"}
