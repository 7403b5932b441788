"""Words in figures: in any script, in its own direction, and never as formulas.

Matplotlib joins letters and orders mixed directions itself (by libraqm, since 3.11). What is left
to do is to find fonts that have the letters, to cut what is too long between letters and not
inside of them, and to say which way a line of words runs. Where no font has a letter, a warning
names its script and a package to install.
"""

import re
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

from regard.errors import MissingFontWarning

DEFAULT_FONT = "DejaVu Sans"
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
CJK = "Chinese, Japanese and Korean"
SCRIPTS = dict.fromkeys(
    ("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "KANGXI"), CJK
)
"""The script of letters whose names in Unicode begin so; for all others it is that beginning."""
PACKAGES = {CJK: "fonts-noto-cjk", "emoji": "fonts-symbola"}
"""Debian's package with a font of the script."""
OTHER_PACKAGE = "fonts-noto-core"
LAST_RESORT = "Last Resort High-Efficiency"
"""A font of boxes: it claims to have every letter."""
MAX_LABEL_WIDTH = 18
"""Letters of a label, wide ones counted twice, before it is cut."""
JOINERS = frozenset("\u200d\ufe0e\ufe0f")
"""What makes one sign of two, or says how one is shown."""
SKIN_TONES = range(0x1F3FB, 0x1F400)
FIRST_EMOJI = 0x1F000
VIRAMA = 9
"""The combining class of a sign that ties a letter of an Indian script to the next."""
POINTS_PER_INCH = 72
"""In an inch."""
MEASURE_DPI = 720
"""Dots to the inch, in which widths are measured: the coarser, the more letters are rounded."""


def style_text(text: Text, fontsize: float, colour: str) -> Text:
    """The text, in fonts that have its letters, or others like them where an SVG is opened.

    Warns once of each script that no font here has.
    """
    for character in _missing_characters(text.get_text()):
        _warn_missing_script(*_script_of(character))
    text.set(
        fontfamily=[*fonts_for(text.get_text()), "sans-serif"],
        fontsize=fontsize,
        color=colour,
        parse_math=False,
    )
    return text


def baseline_offset(fontsize: float) -> float:
    """Inches from the middle of small letters down to the line that they stand on.

    Texts that are set on such a line stand level, whatever letters and marks they have.
    """
    return 0.36 * fontsize / POINTS_PER_INCH


@lru_cache(4096)
def text_width(text: str, fontsize: float) -> float:
    """Inches that a text takes."""
    font = FontProperties(family=list(fonts_for(text)), size=fontsize)
    with ignore_missing_glyphs():
        size = _renderer().get_text_width_height_descent(text, font, ismath=False)
    return float(size[0]) / MEASURE_DPI


def truncate_label(text: str, max_width: int = MAX_LABEL_WIDTH) -> str:
    """The text, or as much of its beginning as fits before an ellipsis.

    Letters stay whole: marks, joined emoji and conjuncts are cut off together or not at all.
    """
    text = "".join(_show_control(character) for character in text)
    if cell_len(text) <= max_width:
        return text
    shown, cells_left = "", max_width - 1
    for character in grapheme_clusters(text):
        cells_left -= cell_len(character)
        if cells_left < 0:
            break
        shown += character
    return f"{shown}…"


def grapheme_clusters(text: str) -> list[str]:
    """The text cut into what a reader takes for one letter, about as Unicode's annex 29 has it."""
    found: list[str] = []
    for character in text:
        if found and _continues_cluster(character, found[-1]):
            found[-1] += character
        else:
            found.append(character)
    return found


def is_right_to_left(words: Iterable[str]) -> bool:
    """Whether most letters of the words are of a script that is written from right to left."""
    directions = [unicodedata.bidirectional(character) for word in words for character in word]
    num_right_to_left = sum(direction in ("R", "AL") for direction in directions)
    return num_right_to_left > directions.count("L")


@lru_cache(4096)
def fonts_for(text: str) -> tuple[str, ...]:
    """The first font, then as many others as it takes to have all letters of the text."""
    others = (_find_font(character) for character in _fallback_characters(text))
    return tuple(dict.fromkeys((DEFAULT_FONT, *filter(None, others))))


@contextmanager
def ignore_missing_glyphs() -> Iterator[None]:
    """Where no font has a letter a box stands for it: no reason to fail, or to warn each time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from font", UserWarning)
        yield


def _fallback_characters(text: str) -> list[str]:
    """The letters of the text that are drawn and that the first font does not have."""
    default_charmap = _default_charmap()
    return [
        character
        for character in text
        if ord(character) not in default_charmap
        and unicodedata.category(character) not in ("Cc", "Cf", "Zs")
    ]


@lru_cache(4096)
def _missing_characters(text: str) -> tuple[str, ...]:
    """The letters of the text that no font has; what only says how another is shown aside."""
    return tuple(
        character
        for character in dict.fromkeys(_fallback_characters(text))
        if character not in JOINERS and _find_font(character) is None
    )


def _script_of(character: str) -> tuple[str, str]:
    """The script of a letter, and Debian's package with a font of it; "" for none."""
    name = unicodedata.name(character, "")
    if not name:
        return f"U+{ord(character):04X}", ""
    if unicodedata.category(character) in ("So", "Sk") and ord(character) >= FIRST_EMOJI:
        script = "emoji"
    else:
        first = re.split(r"[ -]", name)[0]
        script = SCRIPTS.get(first, first.capitalize())
    return script, PACKAGES.get(script, OTHER_PACKAGE)


@cache
def _warn_missing_script(script: str, package: str) -> None:
    """Warn of a script once, however many texts are in it."""
    advice = f"; install one, such as Debian's {package}" if package else ""
    message = f"no font here has letters for {script}: boxes are drawn instead{advice}"
    warnings.warn(message, MissingFontWarning, stacklevel=4)


@cache
def _renderer() -> Any:
    renderer: Callable[..., Any] = RendererAgg  # which has no types
    return renderer(1, 1, MEASURE_DPI)


@cache
def _default_charmap() -> frozenset[int]:
    return frozenset(FT2Font(fontManager.findfont(DEFAULT_FONT)).get_charmap())


@cache
def _find_font(character: str) -> str | None:
    """The name of the first upright, regular font on the shelf that has the letter."""
    for name, path in _installed_fonts():
        font = FT2Font(path)
        if font.scalable and font.get_char_index(ord(character)):
            return name
    return None


@cache
def _installed_fonts() -> list[tuple[str, str]]:
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
        and entry.name not in (DEFAULT_FONT, LAST_RESORT)
        and "Color" not in entry.name  # emoji in colour, of which no outline can be drawn
    }
    return sorted(regular, key=_font_preference)


def _font_preference(font: tuple[str, str]) -> tuple[int, bool, bool, tuple[str, str]]:
    name, _ = font
    preferred = PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)
    return preferred, "Noto" not in name, "Sans" not in name, font


def _continues_cluster(character: str, before: str) -> bool:
    """Whether `letter` goes with the letters just before it."""
    if (
        unicodedata.category(character)[0] == "M"
        or character in JOINERS
        or ord(character) in SKIN_TONES
    ):
        return True
    last = before[-1]
    if last == "\u200d" or unicodedata.combining(last) == VIRAMA:
        return True
    return _is_regional_indicator(character) and len(before) == 1 and _is_regional_indicator(before)


def _is_regional_indicator(character: str) -> bool:
    """Whether it is one of the letters of which two make a flag."""
    return 0x1F1E6 <= ord(character) <= 0x1F1FF


def _show_control(character: str) -> str:
    """The letter, or the picture of a control character."""
    number = ord(character)
    return chr(0x2400 + number) if number < 0x20 else character
