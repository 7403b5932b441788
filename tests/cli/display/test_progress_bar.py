import io

from rich.console import Console

from regard.cli.display.progress_bar import progress_bar


def test_what_is_printed_meanwhile_goes_where_it_goes(capsys):
    terminal = io.StringIO()
    with progress_bar(Console(file=terminal, force_terminal=True, width=80), rate=True) as bar:
        task = bar.add_task("translating", total=2)
        print("a translation")
        bar.advance(task, 2)
    assert capsys.readouterr().out == "a translation\n"
    assert "2/2" in terminal.getvalue()
    assert "translation\n" not in terminal.getvalue()


def test_a_pipe_is_shown_nothing():
    pipe = io.StringIO()
    with progress_bar(Console(file=pipe)) as bar:
        bar.advance(bar.add_task("translating", total=2), 2)
    assert pipe.getvalue() == ""
