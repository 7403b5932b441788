from pathlib import Path

import pytest
from matplotlib.figure import Figure

from regard.cli.pictures import draw_all, name_pictures
from regard.errors import SettingsError


def test_the_name_says_how_a_file_is_drawn():
    assert name_pictures(Path("a.png"), Path("b.svg")) == [Path("a.png"), Path("b.svg")]
    assert name_pictures(None, None) == []
    with pytest.raises(SettingsError, match=r"--png a\.jpg: the file's name should end in \.png"):
        name_pictures(Path("a.jpg"), None)


def test_a_figure_is_drawn_once_for_all_files_and_not_for_none(tmp_path, capsys):
    drawn = []

    def draw():
        drawn.append(Figure())
        return drawn[-1]

    draw_all([], draw)
    assert not drawn
    draw_all([tmp_path / "a.png", tmp_path / "a.svg"], draw)
    assert len(drawn) == 1
    assert (tmp_path / "a.svg").exists()
