import io

from rich.console import Console

from regard.cli.display.progress_bar import progress_bar


def test_stdout_is_not_redirected_while_a_bar_is_shown(capsys):
    terminal = io.StringIO()
    with progress_bar(Console(file=terminal, force_terminal=True, width=80), rate=True) as bar:
        task = bar.add_task("translating", total=2)
        print("a translation")
        bar.advance(task, 2)
    assert capsys.readouterr().out == "a translation\n"
    assert "2/2" in terminal.getvalue()
    assert "translation\n" not in terminal.getvalue()


def test_no_bar_without_a_terminal():
    pipe = io.StringIO()
    with progress_bar(Console(file=pipe)) as bar:
        bar.advance(bar.add_task("translating", total=2), 2)
    assert pipe.getvalue() == ""
