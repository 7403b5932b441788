import errno
import gzip
import os
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from regard.cli.commands import bulk
from regard.cli.main import app, command_app
from regard.cluster.bulk import run_bulk
from regard.cluster.bulk_folder import BulkPlan, check_outputs
from regard.cluster.bulk_inputs import InputFile, read_blocks, scan_input
from regard.cluster.bulk_job import (
    BlockTranslator,
    BulkJob,
    ModelIdentity,
    ModelOptions,
    TranslatedBlock,
)
from regard.decoding.settings import DecodingSettings
from regard.errors import CorpusError, RunError, SettingsError, StorageError
from regard.tasks.translation.pipeline import CHUNK

LINES = 5000  # three blocks
MODEL = ModelIdentity(weights={"a": "0"}, vocabularies=("v",), engine="native", precision="float32")


class Counts:
    """Counts lines as they are committed."""

    finished = lines = 0

    def start(self, finished, total):
        self.finished = finished

    def advance(self, lines):
        self.lines += lines


class Carrier:
    """Translates blocks by a function, the last one first, and raises an error after some."""

    def __init__(self, stop_after=None):
        self.carried, self.stop_after = [], stop_after

    def __call__(self, inputs):
        blocks = [
            block for one in inputs for block in read_blocks(one.file, one.index, one.finished)
        ]
        for block in reversed(blocks):
            if len(self.carried) == self.stop_after:
                raise KeyboardInterrupt
            self.carried.append((block.input, block.number))
            texts = tuple(text.upper() for text in block.texts)
            kept = block.model_dump(include={"input", "number", "notes"})
            yield TranslatedBlock(texts=texts, blank=texts.count(""), **kept)


def plan_of(*files, model=MODEL, column=None):
    inputs = tuple(scan_input(InputFile(path=str(file), column=column)) for file in files)
    return BulkPlan(model=model, decoding=DecodingSettings(), inputs=inputs)


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "in.txt"
    file.write_text("".join(f"line {n}\n" for n in range(LINES)))
    return file


def test_one_line_in_one_line_out_exactly_once_however_often_it_is_killed(text, tmp_path):
    zipped, out = tmp_path / "zipped.txt.gz", tmp_path / "out"
    zipped.write_bytes(gzip.compress(b"a\n\n\xff bad\nlast"))
    carried = []
    for stop_after in (2, 1, None):
        carrier, counts = Carrier(stop_after), Counts()
        plan = plan_of(text, zipped)
        try:
            summary = run_bulk(plan, out, carrier, counts)
        except KeyboardInterrupt:
            assert not (out / "in.txt").exists()
        carried += carrier.carried
        assert counts.finished + counts.lines <= plan.lines
    assert sorted(carried) == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert (out / "in.txt").read_text() == text.read_text().upper()
    assert (out / "zipped.txt").read_text() == "A\n\n� BAD\nLAST\n"
    assert (out / "zipped.txt.notes.tsv").read_text().startswith("3\tnot UTF-8: byte 1")
    assert (summary.lines, summary.blank, summary.noted) == (LINES + 4, 1, 1)
    again = Carrier()
    assert run_bulk(plan, out, again, Counts()) == summary
    assert not again.carried
    (out / "zipped.txt").unlink()
    assert run_bulk(plan, out, again, Counts()) == summary
    assert again.carried == [(1, 0)]


def test_another_model_another_input_and_what_would_be_overwritten_are_refused(text, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_bulk(plan_of(text), out, Carrier(1), Counts())
    other = MODEL.model_copy(update={"weights": {"a": "1"}, "precision": "int8"})
    with pytest.raises(
        RunError, match="started with other weights and precision; repeat the command"
    ):
        run_bulk(plan_of(text, model=other), out, Carrier(), Counts())
    with text.open("a") as file:
        file.write("one more\n")
    with pytest.raises(RunError, match="has changed: it had 5,000 lines, and now has 5,001"):
        run_bulk(plan_of(text), out, Carrier(), Counts())
    with pytest.raises(SettingsError, match="would be replaced; give another folder"):
        run_bulk(plan_of(text), tmp_path, Carrier(), Counts())
    twin = tmp_path / "twin" / "in.txt"
    twin.parent.mkdir()
    twin.write_text("x\n")
    with pytest.raises(SettingsError, match="would both be written as"):
        run_bulk(plan_of(text, twin), tmp_path / "two", Carrier(), Counts())
    with pytest.raises(RunError, match="exists, and would be replaced"):
        run_bulk(plan_of(text), twin.parent, Carrier(), Counts())


@pytest.mark.parametrize("name", ["summary.json", "bulk.json.gz", ".blocks", ".gz"])
def test_an_output_never_takes_the_name_of_the_plan_or_the_summary(name, tmp_path):
    file = InputFile(path=str(tmp_path / name), lines=1)
    with pytest.raises(SettingsError, match="which has another use; rename the file"):
        check_outputs([file], tmp_path / "out")


@pytest.mark.parametrize("names", [("a", "a.notes.tsv"), ("a.notes.tsv.gz", "a"), ("a", "a")])
def test_an_output_never_takes_the_name_of_the_notes_of_another_one(names, tmp_path):
    files = [InputFile(path=str(tmp_path / name), lines=1) for name in names]
    with pytest.raises(SettingsError, match=r"would both be written as \S+out/a"):
        check_outputs(files, tmp_path / "out")


@pytest.mark.parametrize("name", ["in.txt.notes.tsv", "summary.json"])
def test_notes_and_a_summary_that_are_there_already_are_not_replaced(name, text, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(RunError, match="exists, and would be replaced"):
        run_bulk(plan_of(text), tmp_path / "out", Carrier(), Counts())
    assert (tmp_path / "out" / name).read_text() == "mine"


def test_of_an_input_that_changes_meanwhile_no_changed_block_is_translated(text, tmp_path):
    before = text.read_text()
    changes = {
        before.replace("line 2100\n", "line 2101\n"): [0],
        before.replace("line 4999\n", ""): [0, 1],
        "".join(before.splitlines(keepends=True)[: 2 * CHUNK]): [0, 1],  # without its last block
        before + "".join("more\n" for _ in range(CHUNK - LINES % CHUNK)): [0, 1],
    }
    for number, (changed, unchanged) in enumerate(changes.items()):
        plan, carried, out = plan_of(text), [], tmp_path / str(number)

        def translate(inputs, carried=carried):
            for block in read_blocks(inputs[0].file, 0, inputs[0].finished):
                carried.append(block.number)
                yield TranslatedBlock(input=0, number=block.number, texts=block.texts)

        text.write_text(changed)
        with pytest.raises(CorpusError, match="has changed while it was translated; restore it"):
            run_bulk(plan, out, translate, Counts())
        assert carried == unchanged
        text.write_text(before)
        run_bulk(plan_of(text), out, translate, Counts())
        assert carried == [0, 1, 2]
        assert (out / text.name).read_text() == before


def test_a_damaged_block_is_translated_again(text, tmp_path):
    out, plan = tmp_path / "out", plan_of(text)
    with pytest.raises(KeyboardInterrupt):
        run_bulk(plan, out, Carrier(2), Counts())
    (out / ".blocks" / "0" / "2.json").write_text("{")
    with pytest.raises(RunError, match="it was removed, and the same command"):
        run_bulk(plan, out, Carrier(), Counts())
    carrier = Carrier()
    run_bulk(plan, out, carrier, Counts())
    assert carrier.carried == [(0, 2)]


def test_a_full_disk_ends_it_and_it_goes_on_when_there_is_room(text, tmp_path, monkeypatch):
    out, plan, carrier, sync = tmp_path / "out", plan_of(text), Carrier(), os.fsync

    def full_after_a_block(handle):
        if len(carrier.carried) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full_after_a_block)
    with pytest.raises(StorageError, match="the disk is full"):
        run_bulk(plan, out, carrier, Counts())
    monkeypatch.undo()
    assert run_bulk(plan, out, carrier, Counts()).lines == LINES
    assert (out / "in.txt").read_text() == text.read_text().upper()


def test_columns_of_tables_and_uris(tmp_path):
    tsv, table = tmp_path / "a.tsv", tmp_path / "b.parquet"
    tsv.write_bytes(b"id\ttext\n1\tun\n2\n3\ttrois\n")
    parquet.write_table(pa.table({"text": ["un", None, "trois\nlignes"], "n": [1, 2, 3]}), table)

    def cells(path, column):
        file = scan_input(InputFile(path=str(path), column=column))
        [block] = read_blocks(file, 0, frozenset())
        return list(block.texts), [place for place, _ in block.notes]

    assert cells(tsv, "text") == (["un", "", "trois"], [1])
    assert cells(tsv.as_uri(), 1) == (["text", "un", "", "trois"], [2])
    for path in (table, table.as_uri()):
        assert cells(path, "text") == cells(path, None) == (["un", "", "trois lignes"], [1])
    with pytest.raises(CorpusError, match="--column n was asked for; its columns of text are text"):
        cells(table, "n")
    with pytest.raises(CorpusError, match="--column 1 was asked for, which is n; its columns of"):
        cells(table, 1)
    parquet.write_table(
        pa.table({"2025": ["neuf"], "2026": ["dix"]}), years := tmp_path / "y.parquet"
    )
    assert cells(years, 2026) == (["dix"], [])
    assert cells(years, 0) == (["neuf"], [])
    with pytest.raises(CorpusError, match=r"--column 7 .* no line has more than 2 columns"):
        cells(tsv, 7)
    with pytest.raises(CorpusError, match="cannot be opened"):
        cells(tsv.as_uri() + "x", 0)
    with pytest.raises(SettingsError, match="bulk reads only files"):
        cells("-", None)
    (tmp_path / "c.po").write_text('msgid "un"\n')
    with pytest.raises(CorpusError, match=r"c\.po: is PO, .*, or give --column 0 if its lines"):
        cells(tmp_path / "c.po", None)
    assert cells(tmp_path / "c.po", 0) == (['msgid "un"'], [])


def test_texts_of_parquet_may_be_a_dictionarys_or_not_utf8(tmp_path):
    table = tmp_path / "a.parquet"
    bad = pa.array([b"un", b"\xff\r\n", None]).view(pa.string())
    for column in (bad, bad.cast(pa.string_view()), bad.dictionary_encode()):
        parquet.write_table(pa.table({"text": column}), table)
        [block] = read_blocks(scan_input(InputFile(path=str(table))), 0, frozenset())
        assert block.texts == ("un", "\ufffd  ", "")
        notes = (1, "not UTF-8: byte 1 of the line is 0xff"), (2, "the cell is empty")
        assert block.notes == notes


def test_an_actor_translates_as_the_translator_does(tiny_run, translator, tmp_path):
    options = ModelOptions((str(tiny_run),), device="cpu", engine="native")
    settings = translator.search_settings(beam=1)
    lines = ["Jane visite l'Afrique en septembre.", "", "Paul aime\tla mer."]
    file = tmp_path / "in.txt"
    file.write_text("\n".join(lines))
    [block] = read_blocks(scan_input(InputFile(path=str(file))), 0, frozenset())
    identity = options.identity(translator, settings)
    translated = BlockTranslator(BulkJob(options, identity, settings))(block)
    expected = translator.translate(lines, settings)
    assert list(translated.texts) == [answer.text for answer in expected]
    assert translated.blank == 1
    assert (identity.engine, identity.precision) == ("native", "auto")
    assert [Path(name).name for name in identity.weights] == ["model.safetensors"]


def test_an_actor_refuses_weights_and_vocabularies_that_the_command_has_not_loaded(
    tiny_run, translator
):
    options = ModelOptions((str(tiny_run),), device="cpu", engine="native")
    settings = translator.search_settings(beam=1)
    identity = options.identity(translator, settings)
    [path] = identity.weights
    for changed, what in (({"weights": {path: "0"}}, "weights"), ({"vocabularies": ()}, "vocab")):
        job = BulkJob(options, identity.model_copy(update=changed), settings)
        with pytest.raises(RunError, match=rf"on the machine \S+ the {what}\w* are not those that"):
            BlockTranslator(job)


def test_actors_in_another_folder_find_the_model_and_the_inputs(tiny_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny_run.parent)
    (tmp_path / "in.txt").write_text("a\n")
    (tmp_path / "lora.safetensors").touch()
    options = ModelOptions(
        (tiny_run.name,),
        weights=f"{tiny_run.name}/model.safetensors",
        adapter=os.path.relpath(tmp_path / "lora.safetensors"),
    )
    file, absolute = (
        scan_input(InputFile(path=os.path.relpath(tmp_path / "in.txt"))),
        options.absolute(),
    )
    monkeypatch.chdir("/")
    assert [block.texts for block in read_blocks(file, 0, frozenset())] == [("a",)]
    assert Path(*absolute.models).samefile(tiny_run)
    assert Path(absolute.weights).samefile(tiny_run / "model.safetensors")
    assert Path(absolute.adapter).samefile(tmp_path / "lora.safetensors")
    assert options._replace(weights="best", adapter=None).absolute().weights == "best"


def test_a_command_that_cannot_run_says_so_in_one_line(tiny_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    args = [str(tiny_run), "in.txt", "--out", "out"]
    with pytest.raises(SettingsError, match=r"needs ray, .*: pip install 'regard\[cluster\]'$"):
        CliRunner().invoke(command_app("bulk"), args, catch_exceptions=False)
    args += ["--dashboard", "--address", "auto"]
    with pytest.raises(SettingsError, match="--dashboard cannot be used with --address"):
        CliRunner().invoke(command_app("bulk"), args, catch_exceptions=False)


def test_sigterm_interrupts_the_command_before_ray_has_a_handler(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setattr(bulk, "find_spec", lambda name: True)
    monkeypatch.setattr(bulk, "_scan", lambda files: signal.raise_signal(signal.SIGTERM))
    args = ["bulk", str(tiny_run), "letters.fr", "--out", str(tmp_path), "--engine", "native"]
    shown = CliRunner().invoke(app, args)
    assert shown.exit_code == 143
    assert shown.stderr == "error: interrupted\n"
