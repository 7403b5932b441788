"""Fonts and text measures of figures, for any script and writing direction.

Matplotlib shapes text and orders mixed directions itself (libraqm, since 3.11). This module finds
fonts with the characters, cuts labels between grapheme clusters and tells a line's direction; for a
character in no font, a warning names its script and a package.
"""

import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import Any

import regex
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text
from rich.cells import cell_len

from regard.errors import MissingFontWarning

DEFAULT_FONT = "DejaVu Sans"  # the font that matplotlib ships, the same on every machine
PREFERRED = (
    *("Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC"),
    *("Source Han Sans", "WenQuanYi Micro Hei", "Hiragino Sans", "PingFang SC"),
    *("Arial Unicode MS", "Yu Gothic", "Microsoft YaHei", "Malgun Gothic", "Noto Emoji"),
)  # fallback fonts, tried in this order before all others
LAST_RESORT = "Last Resort High-Efficiency"  # has a box for every character: never used
CJK = "Chinese, Japanese and Korean"
SCRIPTS = dict.fromkeys(
    ("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "KANGXI"), CJK
)  # the script of characters by the first word of their Unicode name, if the two differ
PACKAGES = {CJK: "fonts-noto-cjk", "emoji": "fonts-symbola"}
"""The Debian package with a font of a script; for other scripts `OTHER_PACKAGE`."""
OTHER_PACKAGE = "fonts-noto-core"
MAX_LABEL_WIDTH = 18  # characters of a label, wide ones counted twice
JOINERS = "\u200d\ufe0e\ufe0f"  # zero-width joiner and variation selectors
CLUSTER = regex.compile(r"\X(?:(?<=\p{InCB=Linker}\p{InCB=Extend}*)(?=\p{InCB=Consonant})\X)*")
"""A grapheme cluster; the second half is rule GB9c, which the first lacks: Indic letters join."""
FIRST_EMOJI = 0x1F000
POINTS_PER_INCH = 72
MEASURE_DPI = 720  # the resolution at which text is measured; glyph widths are rounded to it


def style_text(text: Text, fontsize: float, colour: str) -> Text:
    """Set the fonts, size and colour of a text; warns once about each script without a font."""
    for character in _missing_characters(text.get_text()):
        _warn_missing_script(*_script_of(character))
    family = [*fonts_for(text.get_text()), "sans-serif"]
    text.set(fontfamily=family, fontsize=fontsize, color=colour, parse_math=False)
    return text


def baseline_offset(fontsize: float) -> float:
    """Inches from the middle of lowercase letters down to the baseline."""
    return 0.36 * fontsize / POINTS_PER_INCH


@lru_cache(4096)
def text_width(text: str, fontsize: float) -> float:
    """The width of a text in inches."""
    font = FontProperties(family=list(fonts_for(text)), size=fontsize)
    with ignore_missing_glyphs():
        size = _renderer().get_text_width_height_descent(text, font, ismath=False)
    return float(size[0]) / MEASURE_DPI


def truncate_label(text: str, max_width: int = MAX_LABEL_WIDTH) -> str:
    """The text, or as many of its first grapheme clusters as fit before an ellipsis; control
    characters become their Unicode pictures.
    """
    text = "".join(chr(0x2400 + ord(char)) if ord(char) < 0x20 else char for char in text)
    if cell_len(text) <= max_width:
        return text
    shown = ""
    for cluster in grapheme_clusters(text):
        if cell_len(shown + cluster) >= max_width:
            break
        shown += cluster
    return f"{shown}…"


def grapheme_clusters(text: str) -> list[str]:
    """The text split into user-perceived characters, as in Unicode's annex 29."""
    clusters: list[str] = CLUSTER.findall(text)
    return clusters


def is_right_to_left(words: Iterable[str]) -> bool:
    """Whether most letters of the words are written from right to left."""
    directions = [unicodedata.bidirectional(character) for word in words for character in word]
    num_right_to_left = sum(direction in ("R", "AL") for direction in directions)
    return num_right_to_left > directions.count("L")


@lru_cache(4096)
def fonts_for(text: str) -> tuple[str, ...]:
    """The default font, and the fallback fonts for characters that it lacks."""
    others = (_find_font(character) for character in _fallback_characters(text))
    return tuple(dict.fromkeys((DEFAULT_FONT, *filter(None, others))))


@contextmanager
def ignore_missing_glyphs() -> Iterator[None]:
    """Silence matplotlib's warnings about missing characters: `style_text` warns once a script."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from font", UserWarning)
        yield


def _fallback_characters(text: str) -> list[str]:
    """The visible characters that the default font lacks."""
    lacking = [char for char in dict.fromkeys(text) if ord(char) not in _default_charmap()]
    return [char for char in lacking if unicodedata.category(char) not in ("Cc", "Cf", "Zs")]


@lru_cache(4096)
def _missing_characters(text: str) -> list[str]:
    """The characters that no font has, without joiners."""
    visible = [char for char in _fallback_characters(text) if char not in JOINERS]
    return [char for char in visible if _find_font(char) is None]


def _script_of(character: str) -> tuple[str, str]:
    """The script of a character, and a Debian package with a font of it, or ""."""
    first = re.split(r"[ -]", unicodedata.name(character, ""))[0]
    if not first:
        return f"U+{ord(character):04X}", ""
    script = SCRIPTS.get(first, first.capitalize())
    if unicodedata.category(character) in ("So", "Sk") and ord(character) >= FIRST_EMOJI:
        script = "emoji"
    return script, PACKAGES.get(script, OTHER_PACKAGE)


@cache
def _warn_missing_script(script: str, package: str) -> None:
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
    """The first installed regular font that has the character."""
    fonts = ((name, FT2Font(path)) for name, path in _installed_fonts())
    has = (name for name, font in fonts if font.scalable and font.get_char_index(ord(character)))
    return next(has, None)


@cache
def _installed_fonts() -> list[tuple[str, str]]:
    """Name and file of each installed regular font, the preferred ones first, then sans serif.

    Fonts installed after matplotlib built its cache are added to it.
    """
    known = {entry.fname for entry in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - known):
        with suppress(RuntimeError):  # not a readable font
            fontManager.addfont(path)
    regular = {
        (entry.name, entry.fname)
        for entry in fontManager.ttflist
        if (entry.style, str(entry.weight)) in {("normal", "400"), ("normal", "normal")}
        and entry.name not in (DEFAULT_FONT, LAST_RESORT)
        and "Color" not in entry.name  # colour emoji have no outlines
    }
    return sorted(regular, key=_font_preference)


def _font_preference(font: tuple[str, str]) -> tuple[int, bool, bool, tuple[str, str]]:
    name, _ = font
    preferred = PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)
    return preferred, "Noto" not in name, "Sans" not in name, font
