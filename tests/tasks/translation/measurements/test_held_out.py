import pytest

from regard.errors import CorpusError, SettingsError
from regard.tasks.translation.measurements.held_out import read_eval_data


def test_the_files_given(tmp_path):
    source, reference = tmp_path / "a", tmp_path / "b"
    source.write_text("un\ndeux\n")
    reference.write_text("one\ntwo\n")
    files = str(source), str(reference)
    assert read_eval_data("none", *files, print) == (["un", "deux"], ["one", "two"])
    reference.write_text("one\n")
    with pytest.raises(CorpusError, match="found 2 source, 1 reference"):
        read_eval_data("none", *files, print)


def test_the_runs_own_sentences(tiny_run):
    sources, references = read_eval_data(str(tiny_run), None, None, print)
    assert len(sources) == len(references) == 20


@pytest.mark.parametrize("files", [("a", None), (None, "b")])
def test_one_file_is_not_enough(files):
    with pytest.raises(SettingsError, match="--source and --reference must be given together"):
        read_eval_data("none", *files, print)
