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
LONGEST = 18
"""Letters of a label, wide ones counted twice, before it is cut."""
JOINERS = frozenset("\u200d\ufe0e\ufe0f")
"""What makes one sign of two, or says how one is shown."""
SKIN_TONES = range(0x1F3FB, 0x1F400)
FIRST_EMOJI = 0x1F000
VIRAMA = 9
"""The combining class of a sign that ties a letter of an Indian script to the next."""
POINTS = 72
"""In an inch."""
FINE = 720
"""Dots to the inch, in which widths are measured: the coarser, the more letters are rounded."""


def write(text: Text, fontsize: float, colour: str) -> Text:
    """The text, in fonts that have its letters, or others like them where an SVG is opened.

    Warns once of each script that no font here has.
    """
    for letter in _missing_letters(text.get_text()):
        _warn_of_script(*_script_of(letter))
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
    others = (_font_with(letter) for letter in _foreign_letters(text))
    return tuple(dict.fromkeys((FIRST, *filter(None, others))))


@contextmanager
def missing_letters_allowed() -> Iterator[None]:
    """Where no font has a letter a box stands for it: no reason to fail, or to warn each time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from font", UserWarning)
        yield


def _foreign_letters(text: str) -> list[str]:
    """The letters of the text that are drawn and that the first font does not have."""
    own = _letters_of_first()
    return [
        letter
        for letter in text
        if ord(letter) not in own and unicodedata.category(letter) not in ("Cc", "Cf", "Zs")
    ]


@lru_cache(4096)
def _missing_letters(text: str) -> tuple[str, ...]:
    """The letters of the text that no font has; what only says how another is shown aside."""
    return tuple(
        letter
        for letter in dict.fromkeys(_foreign_letters(text))
        if letter not in JOINERS and _font_with(letter) is None
    )


def _script_of(letter: str) -> tuple[str, str]:
    """The script of a letter, and Debian's package with a font of it; "" for none."""
    name = unicodedata.name(letter, "")
    if not name:
        return f"U+{ord(letter):04X}", ""
    if unicodedata.category(letter) in ("So", "Sk") and ord(letter) >= FIRST_EMOJI:
        script = "emoji"
    else:
        first = re.split(r"[ -]", name)[0]
        script = SCRIPTS.get(first, first.capitalize())
    return script, PACKAGES.get(script, OTHER_PACKAGE)


@cache
def _warn_of_script(script: str, package: str) -> None:
    """Warn of a script once, however many texts are in it."""
    advice = f"; install one, such as Debian's {package}" if package else ""
    message = f"no font here has letters for {script}: boxes are drawn instead{advice}"
    warnings.warn(message, MissingFontWarning, stacklevel=4)


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
