from enum import Enum, IntEnum, auto
from types import SimpleNamespace

import pytest

from regard.cli.options.shared_options import note_packaged_model

NAMES = "PROMPT COMMANDLINE ENVIRONMENT DEFAULT_MAP DEFAULT"


@pytest.mark.parametrize("kind", [Enum, IntEnum])  # of click until 8.3.2, and since
@pytest.mark.parametrize(("source", "noted"), [("COMMANDLINE", False), ("DEFAULT", True)])
def test_what_was_given_is_known_with_all_versions(kind, source, noted, capsys):
    sources = kind("ParameterSource", {name: auto() for name in NAMES.split()})
    command = SimpleNamespace(params=[SimpleNamespace(name="model", opts=["model"])])
    found = {"model": sources[source]}
    note_packaged_model(SimpleNamespace(command=command, get_parameter_source=found.get))
    assert ("no MODEL is given" in capsys.readouterr().err) == noted
