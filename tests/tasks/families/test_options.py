import pytest

from regard.errors import SettingsError
from regard.tasks.captions.options import CaptionOptions
from regard.tasks.families.options import parse_options


@pytest.mark.parametrize("spell", [str, lambda name: f"--{name.replace('_', '-')}"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"top_k": 1}, "{top_k} can only be used with {sample}"),
        ({"sample": True, "top_p": 2}, "{top_p} 2: must be at most 1"),
        ({"n_best": 3, "beam": 2}, "{n_best} 3 asks for more answers than {beam} 2 keeps"),
    ],
)
def test_an_error_calls_an_option_as_it_was_given(given, message, spell):
    names = ("top_k", "sample", "top_p", "n_best", "beam")
    with pytest.raises(
        SettingsError, match=message.format(**{name: spell(name) for name in names})
    ):
        parse_options(CaptionOptions, {"model": "run", **given}, spell)


def test_what_is_not_given_has_its_default_and_what_is_given_its_group():
    options = parse_options(CaptionOptions, {"model": "run", "seed": 3, "sample": True, "beam": 2})
    assert (options.sampling.given, options.beam, options.n_best) == ({"seed": 3}, 2, None)
    assert options.load.device == "auto"
