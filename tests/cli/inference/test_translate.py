import gzip
import json
import re
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from regard.alignment.run_alignment import align_pairs, best_alignment
from regard.cli.display import progress_bar
from regard.cli.main import command_app
from regard.corpora.corpus import Pair
from regard.errors import CorpusError, RunError, SearchError, SettingsError
from regard.evaluation.pharaoh import format_links
from regard.tasks.translation import options as translate
from regard.tasks.translation.pipeline import load

app = command_app("translate")

SENTENCES = ["Jane visite l'Afrique en septembre.", "Paul aime la mer.", "Elle danse."]
WORDS = [
    "Jane",
    "visite",
    "l",
    "Afrique",
    "en",
    "septembre",
    "Paul",
    "aime",
    "la",
    "mer",
    "Elle",
    "danse",
]
LINES = "".join(f"{line}\n" for line in SENTENCES)


@pytest.fixture
def run(tiny_run):
    def invoke(*args, given=LINES, model=tiny_run, engine="native"):
        args = (str(model), *map(str, args), "--device", "cpu", "--engine", engine)
        return CliRunner().invoke(app, args, input=given, catch_exceptions=False)

    return invoke


@pytest.fixture
def expected(translator):
    return [answer.text for answer in translator.translate(SENTENCES)]


def test_a_line_for_each_line(run, expected):
    shown = run()
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == expected
    assert shown.stderr == ""


def test_without_a_model_the_one_of_the_package_translates():
    shown = CliRunner().invoke(app, [], input="Elle part.\n", catch_exceptions=False)
    assert shown.stdout == "She leaves.\n"
    assert shown.stderr.startswith("no MODEL is given")


def test_one_argument_is_the_model():
    with pytest.raises(RunError, match=r"^Elle part\.: no such folder$"):
        CliRunner().invoke(app, ["Elle part."], catch_exceptions=False)


def test_blank_lines_stay_where_they_are(run):
    lines = run(given="a\n\n\n b \n").stdout.split("\n")
    assert len(lines) == 5
    assert lines[1] == lines[2] == lines[4] == ""
    assert lines[0]
    assert lines[3]


def test_no_lines_give_none(run):
    assert run(given="").stdout == ""
    assert run(given="\n").stdout == "\n"


def test_the_last_line_needs_no_end(run, expected):
    assert run(given=LINES[:-1]).stdout.splitlines() == expected


def test_a_file_and_a_zipped_one(run, expected, tmp_path):
    plain, zipped = tmp_path / "a.fr", tmp_path / "a.fr.gz"
    plain.write_text(LINES)
    zipped.write_bytes(gzip.compress(LINES.encode()))
    assert run(str(plain), given="").stdout == run(str(zipped)).stdout == run("-").stdout


def test_what_is_no_utf8_gives_a_line_and_a_note(run):
    shown = run(given=b"Elle danse.\ncaf\xe9 noir\n\xff\xfe\n")
    lines = shown.stdout.splitlines()
    assert len(lines) == 3
    assert lines[0] == run(given="Elle danse.\n").stdout.splitlines()[0]
    noted = [line for line in shown.stderr.splitlines() if "U+FFFD" in line]
    assert noted == [
        "line 2: has U+FFFD (1) in place of unreadable characters; is it UTF-8?",
        "line 3: has U+FFFD (2) in place of unreadable characters; is it UTF-8?",
    ]


def test_a_line_ends_where_other_tools_see_its_end(run):
    odd = "Elle\u2028danse.\x0b ici\x1c\u0085\n" * 2
    assert run(given=odd).stdout.count("\n") == 2
    assert len(run("--whole-lines", given=odd).stdout.splitlines()) == 2


def test_notes_carry_the_numbers_of_lines_in_the_file(run, monkeypatch):
    monkeypatch.setattr(translate, "CHUNK", 2)
    shown = run(given="a\nb\nc\x00d\n\n" + "mot " * 300 + "\n")
    notes = shown.stderr.splitlines()
    assert "line 3: has control characters (1), which were read as spaces" in notes
    assert any(line.startswith("line 5: ") and "parts" in line for line in notes)
    assert len(shown.stdout.splitlines()) == 5


def test_scores_come_first(run, translator):
    rows = [line.split("\t") for line in run("--scores").stdout.splitlines()]
    for row, answer in zip(rows, translator.translate(SENTENCES), strict=True):
        assert float(row[0]) == pytest.approx(answer.score, abs=1e-4)
        assert row[1] == answer.text


def test_alignments_come_last_and_are_those_of_regard_align(run, translator):
    rows = [line.split("\t") for line in run("--align", given=f"{LINES}\n").stdout.splitlines()]
    assert [len(row) for row in rows] == [2, 2, 2, 2]
    assert rows[3] == ["", ""]
    [model] = translator.runs
    pairs = [Pair(source, text) for source, (text, _) in zip(SENTENCES, rows[:3], strict=True)]
    wanted = align_pairs(model, pairs, best_alignment(model))
    assert [links for _, links in rows[:3]] == list(map(format_links, wanted))


def test_each_of_the_n_best_has_its_own_alignment(run, translator):
    shown = run("--n-best", "3", "--align").stdout
    rows = [line.split("\t") for line in shown.splitlines()]
    assert [len(row) for row in rows] == [4] * 9
    [model] = translator.runs
    pairs = [Pair(SENTENCES[int(line) - 1], text) for line, _, text, _ in rows]
    wanted = align_pairs(model, pairs, best_alignment(model))
    assert [links for *_, links in rows] == list(map(format_links, wanted))
    assert len({tuple(row[2:]) for row in rows[:3]}) == 3
    documents = map(json.loads, run("--n-best", "3", "--align", "--json").stdout.splitlines())
    links = [[one["alignment"] for one in document["translations"]] for document in documents]
    assert [format_links(map(tuple, one)) for line in links for one in line] == [
        row[3] for row in rows
    ]


def test_json(run):
    shown = run("--json", "--n-best", "2", "--align", given="Elle danse.\n\x00\n")
    first, second = map(json.loads, shown.stdout.splitlines())
    assert first["line"] == 1
    assert first["source"] == "Elle danse."
    assert [found.keys() for found in first["translations"]] == [
        {"text", "score", "log_probability", "alignment"}
    ] * 2
    assert all(len(link) == 2 for link in first["alignment"])
    assert second["translations"][0]["text"] == "\0"  # it comes back as it is
    assert "alignment" not in second


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--temperature", "2"), "--temperature can only be used with --sample"),
        (("--top-k", "2"), "--top-k can only be used with --sample"),
        (("--seed", "2"), "--seed can only be used with --sample"),
        (("--sample", "--beam", "2"), "--sample excludes --beam and --length-penalty"),
        (("--n-best", "1001"), "n_best 1001: a beam keeps at most 1,000: lower it"),
        (
            ("--beam", "2", "--n-best", "3"),
            "--n-best 3 asks for more answers than --beam 2 keeps: raise --beam or lower --n",
        ),
    ],
)
def test_options_that_do_not_go_together(run, args, message):
    with pytest.raises(SettingsError, match=message):
        run(*args)


@pytest.mark.parametrize(
    "args", [("--beam", "0"), ("--beam", "1001"), ("--top-p", "2"), ("--n-best", "x")]
)
def test_options_out_of_range_are_refused(run, args):
    shown = run(*args)
    assert shown.exit_code == 2
    assert shown.stdout == ""


def test_a_model_or_a_file_that_is_not_there(run, tmp_path):
    with pytest.raises(RunError, match="none: no such folder"):
        run(model=tmp_path / "none")
    with pytest.raises(CorpusError, match="no such file"):
        run(str(tmp_path / "none.txt"))
    with pytest.raises(RunError, match="device 'nonsense' cannot be used here"):
        CliRunner().invoke(
            app,
            [str(tmp_path), "--device", "nonsense"],
            catch_exceptions=False,
        )


@pytest.fixture
def unsure(run, words_run):
    return lambda *args, **options: run(*args, model=words_run, **options)


def test_unknown_words_are_kept_copied_or_looked_up(unsure, tmp_path):
    (tmp_path / "fr-en.tsv").write_text("".join(f"{w}\tZanzibar\n" for w in WORDS))
    never, kept, copied, looked_up = (
        unsure(*way).stdout.splitlines()
        for way in [(), *(("--unknown", how) for how in ("keep", "copy", tmp_path / "fr-en.tsv"))]
    )
    assert len(never) == len(kept) == len(copied) == len(looked_up) == 3
    assert "⁇" in "".join(kept)
    assert "⁇" not in "".join([*never, *copied, *looked_up])
    for source, one, other, third in zip(SENTENCES, kept, copied, looked_up, strict=True):
        changed = [new for old, new in zip(one.split(), other.split(), strict=True) if "⁇" in old]
        assert len(changed) == sum("⁇" in word for word in one.split())
        assert all(any(word in new for word in WORDS if word in source) for new in changed)
        assert ("⁇" in one) == ("Zanzibar" in third)


def test_unknown_words_in_the_n_best_and_the_alignment(unsure):
    shown = unsure("--unknown", "copy", "--n-best", "2", "--align", "--json", given=f"{LINES}\n")
    for line, source in zip(shown.stdout.splitlines(), [*SENTENCES, ""], strict=True):
        said = json.loads(line)
        texts = [found["text"] for found in said["translations"]]
        assert len(texts) == (2 if source else 1)
        assert "⁇" not in "".join(texts)
        assert bool(said.get("alignment")) == bool(source)
        for there, here in said.get("alignment", []):
            assert there < len(source.split())
            assert here < len(texts[0].split())


def test_a_way_with_unknown_words_that_is_none(unsure, tmp_path):
    with pytest.raises(SettingsError, match="--unknown cpoy: neither keep nor copy, nor a file"):
        unsure("--unknown", "cpoy")
    (tmp_path / "bad.tsv").write_text("one\ttwo\nthree\n")
    with pytest.raises(CorpusError, match=r"bad\.tsv: line 2: expected 2 columns"):
        unsure("--unknown", tmp_path / "bad.tsv")


def test_models_of_unlike_vocabularies(run, tiny_run, other_run, monkeypatch):
    fingerprints = iter(["one", "other"])
    kind = type(load(tiny_run, device="cpu").target)
    monkeypatch.setattr(kind, "fingerprint", lambda self: next(fingerprints))
    with pytest.raises(SearchError, match="must share one target vocabulary"):
        run("--ensemble", str(other_run))


PAGE = "<!DOCTYPE html>\r\n<p>Jane <b>danse</b> {x}.<p translate=no>Paul</p><script>a<b</script>"
CUES = "\ufeff7\r\n00:00:01,000 --> 00:00:02,000\r\n<i>Elle danse.</i>\r\n"


def written(shown):
    """What was written, with the line ends it was written with."""
    assert shown.exit_code == 0
    return shown.stdout_bytes.decode()


def test_a_page_keeps_its_markup(run, tmp_path):
    (tmp_path / "a.html").write_bytes(PAGE.encode())
    shown = written(run(tmp_path / "a.html"))
    for kept in ("<!DOCTYPE html>\r\n<p>", "<b>", "</b>", "{x}", "<script>a<b</script>"):
        assert shown.count(kept) == 1
    assert shown.endswith("<p translate=no>Paul</p><script>a<b</script>")
    assert shown == written(run("--format", "html", given=PAGE))
    assert "danse" not in shown


def test_subtitles_keep_their_times(run, tmp_path):
    (tmp_path / "a.srt.gz").write_bytes(gzip.compress(CUES.encode()))
    shown = written(run(tmp_path / "a.srt.gz"))
    assert shown.startswith("\ufeff7\r\n00:00:01,000 --> 00:00:02,000\r\n<i>")
    assert shown == written(run("--format", "srt", given=CUES))
    assert run("--format", "vtt", given="WEBVTT\n").stdout == "WEBVTT\n"


def test_plain_text_keeps_its_shape(run, tmp_path, expected):
    text = f"  {SENTENCES[0]}\r\n\r\n- {SENTENCES[1]} {SENTENCES[2]}"
    shown = written(run("--format", "text", given=text))
    assert shown == f"  {expected[0]}\r\n\r\n- {expected[1]} {expected[2]}"


def test_a_file_of_text_or_of_another_name_has_lines(run, tmp_path, expected):
    (tmp_path / "a.txt").write_text(LINES)
    assert run(tmp_path / "a.txt").stdout.splitlines() == expected
    (tmp_path / "a.fr").write_text('{"a": "Elle part."}\n')
    with pytest.raises(CorpusError, match=r"a\.fr: is JSON, and not lines of text"):
        run(tmp_path / "a.fr")
    (tmp_path / "a.html").write_text(LINES)
    assert run(tmp_path / "a.html", "--format", "lines").stdout.splitlines() == expected


def test_markdown_keeps_its_markup(run, tmp_path):
    (tmp_path / "a.md").write_text("# Jane **danse** avec [Paul](x.md)\n")
    shown = written(run(tmp_path / "a.md"))
    assert re.fullmatch(r"# .*\*\*.+\*\*.*\]\(x\.md\).*\n", shown)


def test_markup_in_lines(run, expected, monkeypatch):
    monkeypatch.setattr(translate, "CHUNK", 2)
    given = f"<b>{SENTENCES[0]}</b>\n\n{SENTENCES[1].replace(' ', chr(0), 1)} {{x}}\n"
    shown = run("--markup", given=given)
    lines = shown.stdout.split("\n")
    assert len(lines) == 4
    assert lines[0] == f"<b>{expected[0]}</b>"
    assert lines[1] == lines[3] == ""
    assert lines[2].count("{x}") == 1
    assert "line 3: has control characters (1), which were read as spaces" in shown.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--format", "html", "--scores"), "--scores is only for lines, and - is translated whole"),
        (("--format", "srt", "--n-best", "2"), "--n-best is only for lines"),
        (("--format", "vtt", "--prefix", "A"), "--prefix is only for lines"),
        (
            ("--format", "text", "--markup"),
            "--markup is only for lines: text is translated with its",
        ),
        (("--markup", "--align"), "--align cannot be used with --markup"),
        (("--markup", "--json"), "--json cannot be used with --markup"),
    ],
)
def test_options_that_a_document_has_no_use_for(run, args, message):
    with pytest.raises(SettingsError, match=message):
        run(*args)


def test_documents_that_are_none(run, tmp_path):
    (tmp_path / "a.html").write_bytes(b"<p>caf\xe9")
    with pytest.raises(CorpusError, match=r"a\.html: not UTF-8: byte 7 of the file is 0xe9"):
        run(tmp_path / "a.html")
    with pytest.raises(CorpusError, match="no such file"):
        run(tmp_path / "none.srt")
    (tmp_path / "a.vtt").write_bytes(b"")
    assert run(tmp_path / "a.vtt").stdout == ""


LOADED = """
import sys
from regard.cli.main import main
sys.argv = ["regard", "translate", *sys.argv[1:]]
try:
    main()
finally:
    late = {"torch", "numpy", "matplotlib", "sacrebleu", "pyarrow"}
    print(*(late & sys.modules.keys()), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def exported(tiny_run, tmp_path_factory):
    """A run that has its export."""
    pytest.importorskip("ctranslate2")
    folder = shutil.copytree(tiny_run, tmp_path_factory.mktemp("runs") / "run")
    load(folder, device="cpu")
    return folder


@pytest.mark.parametrize(
    "options", [(), ("--beam", "1"), ("--n-best", "2", "--scores"), ("--json",)]
)
def test_a_plain_translation_imports_no_torch(exported, options):
    command = [sys.executable, "-c", LOADED, exported, *options]
    shown = subprocess.run(command, input=LINES, capture_output=True, text=True, check=False)
    assert shown.returncode == 0
    assert shown.stdout.count("\n") == len(SENTENCES) * (2 if "--n-best" in options else 1)
    assert shown.stderr == "\n"  # nothing was loaded, and there was nothing to remark


def test_engines(run, exported, tmp_path):
    only_auto = shutil.ignore_patterns("model-float32-*")  # whichever test may have made one
    exported = shutil.copytree(exported, tmp_path / "run", ignore=only_auto)
    exact = run("--precision", "float32", "--scores", model=exported, engine="auto")
    native = run("--scores", model=exported)
    assert exact.stdout == native.stdout
    assert exact.stderr.startswith("exporting for CTranslate2")
    assert "exported for CTranslate2: 20 of 20" in exact.stderr
    assert native.stderr == ""
    with pytest.raises(SettingsError, match="cannot do this: attention is to be recorded"):
        run("--align", model=exported, engine="ctranslate2")


@pytest.mark.parametrize("given", [b"PK\x03\x04" + bytes(40), None])
def test_nothing_is_exported_for_input_that_cannot_be_read(run, tiny_run, tmp_path, given):
    copied = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(copied / "ctranslate2", ignore_errors=True)
    file = "-" if given else tmp_path / "none.txt"
    with pytest.raises(CorpusError, match=r"not a text file but a zip archive|no such file"):
        run(file, given=given, model=copied, engine="auto")
    assert not (copied / "ctranslate2").exists()


def test_the_first_line_is_translated_also_where_an_export_is_made(run, tiny_run, tmp_path):
    pytest.importorskip("ctranslate2")
    copied = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(copied / "ctranslate2", ignore_errors=True)
    shown = run("--precision", "float32", model=copied, engine="auto")
    assert shown.stdout == run().stdout
    assert (copied / "ctranslate2").exists()


@pytest.mark.parametrize(
    "options", [["--align"], ["--sample"], ["--unknown", "copy"], ["--prefix", "She"]]
)
def test_nothing_is_exported_for_what_the_native_engine_alone_does(
    run, tiny_run, tmp_path, options
):
    copied = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(copied / "ctranslate2", ignore_errors=True)
    assert run(*options, model=copied, engine="auto").stdout == run(*options).stdout
    assert not (copied / "ctranslate2").exists()


@pytest.mark.parametrize("options", [["--forbid", "The"], ["--prefix", "She", "--beam", "1"]])
def test_what_both_engines_can_forbid_and_begin_with(run, exported, options):
    fast = run(*options, "--precision", "float32", model=exported, engine="ctranslate2")
    assert fast.stdout == run(*options, model=exported).stdout
    assert fast.stdout != run(model=exported).stdout


def test_an_export_says_what_it_cannot_do(run, exported):
    [folder] = (exported / "ctranslate2").glob("model-auto-*")
    with pytest.raises(SettingsError, match="an export supports only plain translation"):
        run("--align", model=folder, engine="auto")


def test_unknown_words_of_a_prefix_are_told(run, words_run):
    shown = run("--prefix", "The Zxq", model=words_run)
    assert "--prefix: not in the model's vocabulary: Zxq; translations begin with" in shown.stderr
    assert "--prefix" not in run("--prefix", "The").stderr


def test_a_document_of_an_office_program_is_refused(run, tmp_path):
    file = tmp_path / "letter.docx"
    file.write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(CorpusError, match=r"letter.docx: not a text file but a zip archive"):
        run(file)


@pytest.mark.parametrize(("terminal", "shown"), [(True, True), (False, False)])
def test_a_terminal_is_shown_how_far_it_is(run, tmp_path, monkeypatch, terminal, shown):
    told = []
    monkeypatch.setattr(progress_bar, "progress_bar", lambda **_: Bar(told))
    monkeypatch.setattr(translate.TranslateOptions, "shows_progress", lambda _: terminal)
    file = tmp_path / "a.txt"
    file.write_text(LINES)
    assert len(run(file).stdout.splitlines()) == 3
    assert told == ([3, 3] if shown else [])


def test_a_terminal_is_shown_how_far_a_document_is(run, tmp_path, monkeypatch):
    file, told = tmp_path / "page.html", []
    file.write_text("".join(f"<p>Il part {number}.</p>" for number in range(3)))
    quiet = run(file).stdout
    monkeypatch.setattr(translate, "DOCUMENT_CHUNK", 2)
    monkeypatch.setattr(progress_bar, "progress_bar", lambda **_: Bar(told))
    monkeypatch.setattr(translate.TranslateOptions, "shows_progress", lambda _: True)
    assert run(file).stdout == quiet
    assert told == [3, 2, 1]


class Bar:
    """Stands for a bar, and remembers how many lines there are and how many were done."""

    def __init__(self, told):
        self.told = told

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def add_task(self, _, total):
        self.told.append(total)

    def advance(self, _, lines):
        self.told.append(lines)


def test_a_line_that_takes_long_is_told_of_before():
    [reply] = translate._long_lines(["a", "b" * 8_000_000], 0)
    [said] = reply.notes
    assert said.startswith("line 2: 8,000,000 characters are translated in parts")
