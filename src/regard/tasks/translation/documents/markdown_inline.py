"""The emphasis, links and code of a text in Markdown <-> tags, as HTML has them."""

import html
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.tasks.translation.markup.markup_tree import scan_markup

MAX_LABEL = 999  # characters of the label of a link, and of its title

_TICKS = re.compile("`+")
_TOKEN = re.compile(
    r"\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<ticks>`+)"
    r"|(?P<protected>\$(?=[^\s$])[^$]*(?<=[^\s$])\$(?!\d)"  # a formula
    r"|<(?:[A-Za-z][\w+.-]+:|[^\s<>@]+@)[^\s<>]*>)"  # an address
    r"|(?P<tag><[A-Za-z/!?][^<>]*>|https?://[^\s<>*\[\]]*[\w/=&])"
    r"|(?P<note>\[\^[^\s\[\]]+\])"
    r"|(?P<bracket>!?\[|\])"
    r"|(?P<run>\*+|_+|~+)"
)
_TARGET = re.compile(
    r"\(\s*(?:<[^<>]*>|(?:[^\s<>()]|\([^\s()]*\))*+)"
    r"(?:\s+(?:\"[^\"]{0,999}\"|'[^']{0,999}'))?\s*\)"
    rf"|\[(?P<label>[^\[\]]{{0,{MAX_LABEL}}}+)\]"
)
_SPECIAL = re.compile(r"[\\`*_\[\]~|]")
_BLOCK_START = re.compile(r"\A(\d*)((?:[>+.)-]|#+)(?:\s|\Z))")
_WITHIN_WORD = re.compile(r"\w<([\w-]+)>|</([\w-]+)>\w")
_EMPTY_PAIR = re.compile(r"<([\w-]+)></\1>")


def tag_inline(text: str, raw: str, labels: frozenset[str], prefix: str) -> "TaggedText":
    """A text, which is `raw` in its document, with tags for its markup.

    `labels` are those of the document's link definitions; `prefix` begins the names of tags.
    """
    return _InlineReader(text, labels, prefix).read(raw)


def normalize_label(label: str) -> str:
    """The label of a link as it is compared: in any case, with any white space."""
    return " ".join(label.split()).casefold()


class _Tags(NamedTuple):
    """The Markdown that a tag, or a pair of tags, stands for."""

    opening: str
    closing: str = ""

    @property
    def is_emphasis(self) -> bool:
        return self.opening[0] in "*_~"


@dataclass(frozen=True)
class TaggedText:
    """A text with tags for its markup."""

    text: str
    raw: str  # as it is in the document
    tags: Mapping[str, _Tags]  # by the names of the tags
    bare: frozenset[str]  # special characters that are text although they have no backslash

    def write(self, answer: str) -> str:
        """A translation with Markdown for its tags; unchanged text keeps its line breaks."""
        if answer == self.text:
            return self.raw
        tags = dict(self.tags)
        for beside in _WITHIN_WORD.finditer(answer):  # where an underscore would be text
            name = beside[1] or beside[2]
            if name in tags and tags[name].is_emphasis:
                tags[name] = _Tags(*(mark.replace("_", "*") for mark in tags[name]))
        for name in _EMPTY_PAIR.findall(answer):
            if name in tags and tags[name].is_emphasis:
                tags[name] = _Tags("")
        text = "".join(
            tags[token.name][token.kind == "close"]
            if token.name in tags
            # a special character that the model has written would be markup
            else _SPECIAL.sub(self._escape, token.text)
            if token.kind == "text"
            else token.text
            for token in scan_markup(answer)
        )
        return _BLOCK_START.sub(r"\1\\\2", text)

    def _escape(self, special: re.Match[str]) -> str:
        return special[0] if special[0] in self.bare else f"\\{special[0]}"


@dataclass
class _Run:
    """Signs in a row that may begin or end emphasis."""

    sign: str
    count: int  # of signs that have no partner yet
    opens: bool
    closes: bool
    before: list[str] = field(default_factory=list)  # closing tags, from the innermost
    after: list[str] = field(default_factory=list)  # opening tags, from the innermost

    def __str__(self) -> str:
        return "".join((*self.before, self.sign * self.count, *reversed(self.after)))


class _Bracket(NamedTuple):
    """A bracket that may begin a link or a picture."""

    node: int  # its index in the text read so far
    first: int
    last: int


@dataclass
class _InlineReader:
    """Replaces the markup of a text by tags."""

    text: str
    labels: frozenset[str]  # of the link definitions of the document
    prefix: str  # of the names of tags
    nodes: list[str | _Run] = field(default_factory=list)
    brackets: list[_Bracket] = field(default_factory=list)
    tags: dict[str, _Tags] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)
    escaped: set[str] = field(default_factory=set)
    protected: dict[str, str] = field(default_factory=dict)  # the tags of each text

    def read(self, raw: str) -> TaggedText:
        ticks = defaultdict[int, list[int]](list)
        for run in _TICKS.finditer(self.text):
            ticks[len(run[0])].append(run.start())
        place = 0
        while found := _TOKEN.search(self.text, place):
            self.add_text(self.text[place : found.start()])
            place = self.read_token(found, ticks)
        self.add_text(self.text[place:])
        self.pair_runs(0)
        bare = self.bare.union(
            one.sign for one in self.nodes if isinstance(one, _Run) and one.count
        )
        text = "".join(map(str, self.nodes))
        return TaggedText(text, raw, self.tags, frozenset(bare - self.escaped))

    def add_text(self, text: str) -> None:
        self.bare.update(text)
        self.nodes.append(text)

    def tag(self, tags: _Tags) -> str:
        """The name of a new tag."""
        name = f"{self.prefix}-{len(self.tags)}"
        self.tags[name] = tags
        return name

    def protect(self, raw: str) -> None:
        """Add text that is not translated."""
        if raw not in self.protected:
            name = self.tag(_Tags(raw))
            self.protected[raw] = f'<{name} translate="no"></{name}>'
        self.nodes.append(self.protected[raw])

    def read_token(self, found: re.Match[str], ticks: Mapping[int, Sequence[int]]) -> int:
        """Add the markup at a place of the text; returns the place after it."""
        kind, raw, place = found.lastgroup, found[0], found.end()
        if kind == "escaped":
            self.escaped.add(raw[1])
            self.nodes.append(html.escape(raw[1], quote=False))
        elif kind == "ticks":
            others = ticks[len(raw)]
            number = bisect_left(others, place)
            if number == len(others):
                self.add_text(raw)
            else:
                place = others[number] + len(raw)
                self.protect(self.text[found.start() : place])
        elif kind == "protected":
            self.protect(raw)
        elif kind == "note":
            self.nodes.append(f"<{self.tag(_Tags(raw))}/>")
        elif kind == "run":
            self.add_run(found)
        elif raw == "]":
            return self.end_link(found)
        elif kind == "bracket":
            self.brackets.append(_Bracket(len(self.nodes), found.start(), place))
            self.add_text(raw)
        else:  # tags of HTML, and addresses
            self.bare.update(raw)
            self.nodes.append(raw)
        return place

    def add_run(self, found: re.Match[str]) -> None:
        """Add signs of emphasis, by the rules of CommonMark for what is beside them."""
        first, last = found.span()
        before, after = self.text[first - 1 : first] or " ", self.text[last : last + 1] or " "
        left = not after.isspace() and (after.isalnum() or not before.isalnum())
        right = not before.isspace() and (before.isalnum() or not after.isalnum())
        opens, closes = left, right
        if found[0][0] == "_":
            opens = left and (not right or not before.isalnum())
            closes = right and (not left or not after.isalnum())
        self.nodes.append(_Run(found[0][0], len(found[0]), opens, closes))

    def pair_runs(self, first: int) -> None:
        """Make tags of the emphasis from a node on; signs without a partner stay text."""
        openers: list[_Run] = []
        waiting = Counter[str]()  # the signs of the openers
        for run in self.nodes[first:]:
            if not isinstance(run, _Run):
                continue
            while run.closes and run.count and waiting[run.sign]:
                while openers[-1].sign != run.sign:
                    waiting[openers.pop().sign] -= 1
                opener = openers[-1]
                length = opener.count + run.count
                both = (opener.closes or run.opens) and length % 3 == 0
                if (both and (opener.count % 3 or run.count % 3)) or (
                    run.sign == "~" and opener.count != run.count
                ):
                    break
                size = min(opener.count, run.count, 2)
                name = self.tag(_Tags(run.sign * size, run.sign * size))
                opener.after.append(f"<{name}>")
                run.before.append(f"</{name}>")
                opener.count -= size
                run.count -= size
                if not opener.count:
                    waiting[openers.pop().sign] -= 1
            if run.opens and run.count:
                openers.append(run)
                waiting[run.sign] += 1
        for run in self.nodes[first:]:
            if isinstance(run, _Run):  # it is not paired with what is outside of its link
                run.opens = run.closes = False

    def end_link(self, found: re.Match[str]) -> int:
        """Add the end of a link or a picture; returns the place after it."""
        place = found.end()
        if not self.brackets:
            self.add_text("]")
            return place
        node, first, last = self.brackets.pop()
        target = _TARGET.match(self.text, place)
        label = (target and target["label"]) or self.text[last : found.start()][:MAX_LABEL]
        by_label = target is None or target["label"] is not None
        if by_label and normalize_label(label) not in self.labels:
            self.add_text("]")
            return place
        place = target.end() if target else place
        if self.text[first] == "!":
            del self.nodes[node:]
            self.nodes.append(f"<{self.tag(_Tags(self.text[first:place]))}/>")
            return place
        self.pair_runs(node)
        name = self.tag(_Tags("[", self.text[found.start() : place]))
        self.nodes[node] = f"<{name}>"
        self.nodes.append(f"</{name}>")
        self.brackets.clear()  # a link holds no link
        return place
