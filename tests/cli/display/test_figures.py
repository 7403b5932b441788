from pathlib import Path

import pytest
from matplotlib.figure import Figure

from drawing import made_up, no_fonts
from regard.cli.display.figures import figure_files, save_figures
from regard.errors import SettingsError
from regard.inspection.plots.arcs import plot_arcs
from regard.inspection.plots.maps import view_map

__all__ = ["no_fonts"]


def test_the_name_says_how_a_file_is_drawn():
    assert figure_files(Path("a.png"), Path("b.svg")) == [Path("a.png"), Path("b.svg")]
    assert figure_files(None, None) == []
    with pytest.raises(SettingsError, match=r"--png a\.jpg: the file's name should end in \.png"):
        figure_files(Path("a.jpg"), None)


def test_a_figure_is_drawn_once_for_all_files_and_not_for_none(tmp_path, capsys):
    drawn = []

    def draw():
        drawn.append(Figure())
        return drawn[-1]

    save_figures([], draw)
    assert not drawn
    save_figures([tmp_path / "a.png", tmp_path / "a.svg"], draw)
    assert len(drawn) == 1
    assert (tmp_path / "a.svg").exists()


def test_letters_without_a_font_are_told_of_in_one_line(no_fonts, tmp_path, capsys):
    polled = made_up(["東京", "です"], ["Tokyo", "京"])
    save_figures([tmp_path / "a.png", tmp_path / "a.svg"], lambda: plot_arcs(view_map(polled)))
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 3
    assert told[0].startswith("no font here has letters for Chinese, Japanese and Korean")
    assert told[0].endswith("fonts-noto-cjk")
