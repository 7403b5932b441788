"""Words in figures: in any script, in its own direction, and never as formulas.

Matplotlib joins letters and orders mixed directions itself (by libraqm, since 3.11). What is left
to do is to find fonts that have the letters, to cut what is too long between letters and not
inside of them, and to say which way a line of words runs.
"""

import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text
from rich.cells import cell_len

FIRST = "DejaVu Sans"
"""Matplotlib's own font, the same on every machine."""
PREFERRED = (
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans JP",
    "Noto Sans SC",
    "Source Han Sans",
    "WenQuanYi Micro Hei",
    "Hiragino Sans",
    "PingFang SC",
    "Arial Unicode MS",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Noto Emoji",
)
"""Asked in this order for letters that the first font does not have, before all others."""
LAST_RESORT = "Last Resort High-Efficiency"
"""A font of boxes: it claims to have every letter."""
LONGEST = 18
"""Letters of a label, wide ones counted twice, before it is cut."""
JOINERS = frozenset("\u200d\ufe0e\ufe0f")
"""What makes one sign of two, or says how one is shown."""
SKIN_TONES = range(0x1F3FB, 0x1F400)
VIRAMA = 9
"""The combining class of a sign that ties a letter of an Indian script to the next."""
POINTS = 72
"""In an inch."""
FINE = 720
"""Dots to the inch, in which widths are measured: the coarser, the more letters are rounded."""


def write(text: Text, fontsize: float, colour: str) -> Text:
    """The text, in fonts that have its letters, or others like them where an SVG is opened."""
    text.set(
        fontfamily=[*fonts_for(text.get_text()), "sans-serif"],
        fontsize=fontsize,
        color=colour,
        parse_math=False,
    )
    return text


def drop(fontsize: float) -> float:
    """Inches from the middle of small letters down to the line that they stand on.

    Texts that are set on such a line stand level, whatever letters and marks they have.
    """
    return 0.36 * fontsize / POINTS


@lru_cache(4096)
def width_of(text: str, fontsize: float) -> float:
    """Inches that a text takes."""
    font = FontProperties(family=list(fonts_for(text)), size=fontsize)
    with missing_letters_allowed():
        size = _renderer().get_text_width_height_descent(text, font, ismath=False)
    return float(size[0]) / FINE


def shorten(text: str, longest: int = LONGEST) -> str:
    """The text, or as much of its beginning as fits before an ellipsis.

    Letters stay whole: marks, joined emoji and conjuncts are cut off together or not at all.
    """
    text = "".join(_visible(letter) for letter in text)
    if cell_len(text) <= longest:
        return text
    kept, room = "", longest - 1
    for letter in clusters(text):
        room -= cell_len(letter)
        if room < 0:
            break
        kept += letter
    return f"{kept}…"


def clusters(text: str) -> list[str]:
    """The text cut into what a reader takes for one letter, about as Unicode's annex 29 has it."""
    found: list[str] = []
    for letter in text:
        if found and _belongs(letter, found[-1]):
            found[-1] += letter
        else:
            found.append(letter)
    return found


def runs_leftwards(words: Iterable[str]) -> bool:
    """Whether most letters of the words are of a script that is written from right to left."""
    directions = [unicodedata.bidirectional(letter) for word in words for letter in word]
    leftwards = sum(direction in ("R", "AL") for direction in directions)
    return leftwards > directions.count("L")


@lru_cache(4096)
def fonts_for(text: str) -> tuple[str, ...]:
    """The first font, then as many others as it takes to have all letters of the text."""
    needed = [FIRST]
    own = _letters_of_first()
    for letter in text:
        if ord(letter) in own or unicodedata.category(letter) in ("Cc", "Cf", "Zs"):
            continue
        name = _font_with(letter)
        if name is not None and name not in needed:
            needed.append(name)
    return tuple(needed)


@contextmanager
def missing_letters_allowed() -> Iterator[None]:
    """Where no font has a letter a box stands for it: no reason to fail, or to warn each time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from font", UserWarning)
        yield


@cache
def _renderer() -> Any:
    renderer: Callable[..., Any] = RendererAgg  # which has no types
    return renderer(1, 1, FINE)


@cache
def _letters_of_first() -> frozenset[int]:
    return frozenset(FT2Font(fontManager.findfont(FIRST)).get_charmap())


@cache
def _font_with(letter: str) -> str | None:
    """The name of the first upright, regular font on the shelf that has the letter."""
    for name, path in _shelf():
        font = FT2Font(path)
        if font.scalable and font.get_char_index(ord(letter)):
            return name
    return None


@cache
def _shelf() -> list[tuple[str, str]]:
    """Name and file of each installed regular font, the preferred ones first, then sans serif.

    Matplotlib remembers for ever what it found when it was first used. Fonts that were installed
    since are added here.
    """
    known = {entry.fname for entry in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - known):
        try:
            fontManager.addfont(path)
        except RuntimeError:  # not all that lies among fonts can be read
            continue
    regular = {
        (entry.name, entry.fname)
        for entry in fontManager.ttflist
        if (entry.style, str(entry.weight)) in {("normal", "400"), ("normal", "normal")}
        and entry.name not in (FIRST, LAST_RESORT)
        and "Color" not in entry.name  # emoji in colour, of which no outline can be drawn
    }
    return sorted(regular, key=_rank)


def _rank(font: tuple[str, str]) -> tuple[int, bool, bool, tuple[str, str]]:
    name, _ = font
    preferred = PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)
    return preferred, "Noto" not in name, "Sans" not in name, font


def _belongs(letter: str, before: str) -> bool:
    """Whether `letter` goes with the letters just before it."""
    if unicodedata.category(letter)[0] == "M" or letter in JOINERS or ord(letter) in SKIN_TONES:
        return True
    last = before[-1]
    if last == "\u200d" or unicodedata.combining(last) == VIRAMA:
        return True
    return _is_flag(letter) and len(before) == 1 and _is_flag(before)


def _is_flag(letter: str) -> bool:
    """Whether it is one of the letters of which two make a flag."""
    return 0x1F1E6 <= ord(letter) <= 0x1F1FF


def _visible(letter: str) -> str:
    """The letter, or the picture of a control character."""
    number = ord(letter)
    return chr(0x2400 + number) if number < 0x20 else letter
