import subprocess
import sys

import pytest
from typer.testing import CliRunner

from regard.cli.commands import serve
from regard.cli.main import command_app
from regard.errors import RunError, SettingsError
from regard.recipes.paths import PACKAGED_RUN
from regard.server.served_models import LoadOptions
from regard.server.settings import ServerSettings

app = command_app("serve")

KEY = "0123456789abcdef"


@pytest.fixture
def run(tiny_run, monkeypatch):
    """Invokes the command with a server that only remembers what it was given."""
    given = {}

    def remember(specs, settings, keys, loading, *, on_listening):
        given.update(specs=specs, settings=settings, keys=keys, loading=loading)
        on_listening("http://127.0.0.1:5000")

    def invoke(*args, model=tiny_run):
        monkeypatch.setattr(serve, "serve", remember)
        result = CliRunner().invoke(
            app,
            [*([] if model is None else [str(model)]), *map(str, args)],
            catch_exceptions=False,
            env={"COLUMNS": "200"},
        )
        return result, given

    return invoke


def test_the_defaults_are_those_of_the_settings(run, tiny_run):
    result, given = run()
    assert result.exit_code == 0
    assert "serving fr-en at http://127.0.0.1:5000" in result.stderr
    assert given["settings"] == ServerSettings()
    assert given["loading"] == LoadOptions()
    assert given["specs"] == [(("fr", "en"), tiny_run)]
    assert not given["keys"]
    assert "think of --keys" not in result.stderr


def test_without_a_model_the_one_of_the_package_is_served(run):
    result, given = run(model=None)
    assert given["specs"] == [(("fr", "en"), PACKAGED_RUN)]
    assert result.stderr.startswith("no MODEL is given")


def test_options_become_settings(run, tmp_path):
    file = tmp_path / "keys"
    file.write_text(KEY)
    options = {
        "--host": "::1",
        "--port": 0,
        "--window": 0.1,
        "--batch-tokens": 9,
        "--queue": 8,
        "--timeout": 7,
        "--read-timeout": 6,
        "--grace": 5,
        "--max-bytes": 4,
        "--max-bytes-held": 12,
        "--max-characters": 3,
        "--rate-limit": 11,
        "--max-texts": 2,
        "--max-alternatives": 1,
        "--max-beam": 2,
        "--cors": "https://a.example",
        "--allow-host": "box.example",
        "--keys": file,
    }
    _, given = run(*(word for pair in options.items() for word in pair), "--lines", "--watch")
    assert given["settings"] == ServerSettings(
        host="::1",
        port=0,
        window=0.1,
        batch_tokens=9,
        queue=8,
        timeout=7,
        read_timeout=6,
        grace=5,
        max_bytes=4,
        max_bytes_held=12,
        max_characters=3,
        rate_limit=11,
        max_texts=2,
        max_alternatives=1,
        max_beam=2,
        origins=("https://a.example",),
        hosts=("box.example",),
        sentences=False,
        watch=True,
    )
    assert KEY in given["keys"]


def test_the_engine_and_its_precision(run):
    _, given = run("--engine", "native", "--precision", "int8", "--device", "cpu")
    assert given["loading"] == LoadOptions("cpu", "native", "int8")


def test_every_setting_has_an_option(run):
    shown = run("--help")[0].output
    renamed = {"origins": "cors", "hosts": "allow-host"}
    for name in ServerSettings.model_fields.keys() - {"watch_every"}:
        assert f"--{renamed.get(name, name.replace('_', '-'))}" in shown


def test_an_open_server_says_so(run):
    assert "anyone who can reach 0.0.0.0 can use this server" in run("--host", "0.0.0.0")[0].stderr
    assert "think of --keys" not in run("--host", "localhost")[0].stderr


def test_a_setting_that_does_not_fit(run):
    with pytest.raises(SettingsError, match="--batch-tokens 0: must be more than 0"):
        run("--batch-tokens", 0)
    with pytest.raises(SettingsError, match="--port 70000: "):
        run("--port", 70000)
    for wrong in ("nonsense", "https://a.example/path", "a.example", "https://"):
        with pytest.raises(SettingsError, match=f"--cors {wrong}: must be an origin such as"):
            run("--cors", wrong)
    run("--cors", "https://a.example:8080", "--cors", "*", "--cors", "http://[::1]:80")


def test_no_such_run(run, tmp_path):
    with pytest.raises(RunError, match="no such folder"):
        run(model=tmp_path / "nowhere")


def test_what_it_needs_is_named():
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv = ['regard', 'serve', 'runs/x']; "
        "from regard.cli.main import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "needs fastapi, which is not installed: pip install 'regard[serve]'" in ended.stderr
