"""Tracing names the files that a piece of work goes through, and no others."""

from bench.files_entered import trace_beam_step, trace_greedy, trace_http, trace_training_step


def test_a_training_step_goes_from_the_loop_to_the_attention():
    files = trace_training_step()
    assert {"training/loop.py", "models/translation/transformer.py", "batching/collate.py"} <= files
    assert not any(
        file.startswith(("decoding/", "engines/", "pipelines/", "server/", "cli/"))
        for file in files
    )


def test_a_greedy_translation_goes_from_the_translator_to_the_attention(tiny_run):
    files = trace_greedy(tiny_run)
    assert {
        "tasks/translation/pipeline.py",
        "models/translation/transformer.py",
        "decoding/batch_search.py",
    } <= files
    assert not any(file.startswith(("training/", "inspection/", "cli/")) for file in files)


def test_a_beam_step_goes_from_the_search_to_the_attention(tiny_run):
    files = trace_beam_step(tiny_run)
    assert {"decoding/search/step.py", "attention/multihead.py"} <= files
    assert not any(file.startswith(("pipelines/", "engines/", "text/")) for file in files)


def test_a_request_is_followed_up_to_the_translator(tiny_run):
    files = trace_http(tiny_run)
    assert "server/routes/translation.py" in files
    assert not any(file.startswith(("models/", "decoding/")) for file in files)
