import json
import sys

from bench.stages import read_records, run_stage, run_stages


def finds():
    yield {"speed": 3}
    yield {"ok": True}


def test_what_a_stage_finds_is_kept_and_shown(tmp_path, capsys):
    file = tmp_path / "facts.jsonl"
    assert run_stage("one", finds, file) == 0
    kept = [{"stage": "one", "speed": 3}, {"stage": "one", "ok": True}]
    assert read_records(file) == kept
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == kept


def test_a_stage_that_fails_says_so_after_what_it_found(tmp_path):
    def fails():
        yield {"speed": 3}
        raise OSError("no such device")

    file = tmp_path / "facts.jsonl"
    assert run_stage("one", fails, file) == 1
    first, last = read_records(file)
    assert first["speed"] == 3
    assert "no such device" in last["failed"]
    assert "fails" in last["where"]


def test_a_wrong_thing_is_a_failure(tmp_path):
    assert run_stage("one", lambda: iter([{"ok": False}]), tmp_path / "facts.jsonl") == 1


def test_where_nothing_was_found_there_are_no_facts(tmp_path):
    assert read_records(tmp_path / "facts.jsonl") == []


def test_stages_that_fail_do_not_keep_the_others_from_running():
    codes = {"good": "0", "bad": "3"}
    ended = run_stages(
        ["bad", "good"],
        lambda name: [sys.executable, "-S", "-c", f"raise SystemExit({codes[name]})"],
        60,
    )
    assert ended["bad"].startswith("failed (3)")
    assert ended["good"].startswith("ok")


def test_stages_for_which_no_time_is_left_are_left_out():
    assert run_stages(["late"], lambda name: ["false"], 1) == {"late": "left out"}
