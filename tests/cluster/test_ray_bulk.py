import pytest

pytest.importorskip("ray", reason="pip install 'regard[cluster]'")

from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.pipelines.translator import load
