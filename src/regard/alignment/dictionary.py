"""Bilingual dictionaries as files: a source word, its translation, count and probability."""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from regard.atomic_io import write_atomic
from regard.corpora.readers.pair_files import read_lines
from regard.errors import CorpusError, SettingsError
from regard.text.tokenizer import WordTokenizer, normalize

KEEP_UNKNOWN, COPY_UNKNOWN = "keep", "copy"
COLUMN_COUNTS = 2, 4  # columns of a file: source and target, or also count and probability


@dataclass(frozen=True)
class DictionaryEntry:
    """A source word and its best translation."""

    source: str
    target: str
    count: int  # how often the two were aligned
    probability: float  # its share of all translations of the source word


def write_dictionary(entries: Iterable[DictionaryEntry], path: Path) -> None:
    """Write a line for each entry: source, target, count and probability, tabs between them."""
    lines = ("{}\t{}\t{}\t{:.4f}\n".format(*astuple(entry)) for entry in entries)
    write_atomic(path, "".join(lines).encode())


def read_dictionary(path: str | Path) -> dict[str, str]:
    """The translation of each word in a file of two columns, or of the four that we write."""
    translations: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(read_lines(path, limit="examples"), 1):
        if not line.strip():
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) not in COLUMN_COUNTS:
            raise CorpusError(
                f"{path}: line {number}: expected 2 columns, a word and its translation, or 4, "
                f"also count and probability, with tabs between them; found {len(columns)} in "
                f"{line[:40]!r}"
            )
        source, target = normalize(columns[0], "nfc", lowercase=False), columns[1]
        _check_word(source, target, f"{path}: line {number}")
        if source in translations:
            raise CorpusError(
                f"{path}: line {number}: {source!r} already has a translation on line "
                f"{lines[source]}; keep one of them"
            )
        translations[source], lines[source] = target, number
    if not translations:
        raise CorpusError(f"{path}: has no entries: a line has a word, a tab and a translation")
    return translations


def read_unknown_option(option: str) -> Mapping[str, str] | None:
    """The dictionary of the option `--unknown`: None keeps unknown words, an empty one copies."""
    if option == KEEP_UNKNOWN:
        return None
    if option == COPY_UNKNOWN:
        return {}
    if not Path(option).exists():
        raise SettingsError(
            f"--unknown {option}: neither {KEEP_UNKNOWN} nor {COPY_UNKNOWN}, nor a file (looked "
            f"in {Path.cwd()})"
        )
    return read_dictionary(option)


def _check_word(source: str, target: str, line: str) -> None:
    """Raise unless both are given and the source is a single word."""
    if not source or not target:
        side = "translation" if source else "word"
        raise CorpusError(f"{line}: the {side} is missing: {source or target!r} stands alone")
    words = [piece.strip() for piece in WordTokenizer.split_pieces(source) if piece.strip()]
    if len(words) > 1:
        raise CorpusError(
            f"{line}: {source!r} can never be found: texts are looked up word by word, and this is "
            f"{len(words)} words: {' '.join(words)}"
        )
