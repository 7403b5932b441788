"""`python -m bench` knows its commands."""

import sys

import pytest

from bench.__main__ import COMMANDS, main
from bench.contenders import ROOT


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["bench", *words])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    status = main()
    shown = capsys.readouterr()
    return status, shown.out + shown.err


def test_help_names_every_command(monkeypatch, capsys):
    status, shown = run(monkeypatch, capsys, "--help")
    assert status == 0
    assert all(name in shown for name in COMMANDS)
    assert run(monkeypatch, capsys) == (status, shown)


def test_every_command_has_its_file():
    assert all((ROOT / "bench" / f"{name}.py").is_file() for name in COMMANDS)


def test_an_unknown_command_is_refused(monkeypatch, capsys):
    status, shown = run(monkeypatch, capsys, "trian")
    assert status == 2
    assert "no such measurement: trian; there are train," in shown


@pytest.mark.parametrize("name", ["translate", "latency", "start", "memory"])
def test_a_folder_without_a_model_is_refused(monkeypatch, capsys, tmp_path, name):
    status, shown = run(monkeypatch, capsys, name, "--model", str(tmp_path))
    assert status == 1
    assert "holds no model.safetensors; train one with" in shown


@pytest.mark.parametrize("name", ["train", "translate", "latency", "start", "memory", "growth"])
def test_every_measurement_has_the_same_options(monkeypatch, capsys, name):
    with pytest.raises(SystemExit, match="0"):
        run(monkeypatch, capsys, name, "--help")
    shown = capsys.readouterr().out
    for option in ("--rounds", "--quick", "--json", "--plot"):
        assert option in shown
    assert ("--peers" in shown) == (name != "growth")  # which measures us alone
    assert ("--clock" in shown) == (name not in ("growth", "memory"))


def test_help_names_the_peers(monkeypatch, capsys):
    with pytest.raises(SystemExit, match="0"):
        run(monkeypatch, capsys, "train", "--help")
    shown = " ".join(capsys.readouterr().out.split())
    assert "some of hugging_face, opennmt, joey, torch_transformer" in shown


@pytest.mark.parametrize("name", ["train_gpu", "translate_gpu"])
def test_the_help_of_what_runs_on_gpus(monkeypatch, capsys, name):
    with pytest.raises(SystemExit, match="0"):
        run(monkeypatch, capsys, name, "--help")
    shown = capsys.readouterr().out
    assert shown.count(f"python -m bench {name}") == 1
    assert "[--stages NAME [NAME ...]]" in shown
