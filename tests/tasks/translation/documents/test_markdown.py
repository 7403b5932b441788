import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from regard.tasks.translation.documents.markdown import read_markdown
from regard.tasks.translation.markup.markup_translator import translate_markup

DOCUMENT = """---
title: Un voyage
---
# Un *long* voyage #

Elle `danse` avec [**Paul**](http://x.org/a_b "un ami") et
[Jane][ami], dans snake_case, 5 * 3 \\* 2.  
Fin ![vue](p.png)[^1]

> Une citation,
> ***importante***
- [ ] un
  1) deux

         du code

```python
a *b*
```

| a | `b`\\|c |
|---|:-:|
| **x** | $y_1$ |

[ami]: http://x.org
[^1]: Une note.

<div>
Du <b>html</b> *brut*
</div>

Titre
=====
"""
LINES = [
    "Un <md-0>long</md-0> voyage",
    'Elle <md-0 translate="no"></md-0> avec <md-2><md-1>Paul</md-1></md-2> et '
    "<md-3>Jane</md-3>, dans snake_case, 5 * 3 * 2.",
    "Fin <md-0/><md-1/>",
    "Une citation, <md-1><md-0>importante</md-0></md-1>",
    "un",
    "deux",
    "a",
    '<md-0 translate="no"></md-0>|c',
    "<md-0>x</md-0>",
    '<md-0 translate="no"></md-0>',
    "Une note.",
    "Du <b>html</b> *brut*",
    "Titre",
]
DOCS = Path(__file__).parents[4] / "docs"
COMMON_MARK = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def test_blocks_are_found_and_all_else_stays():
    document = read_markdown(DOCUMENT)
    assert document.lines == LINES
    assert document.join(document.lines) == DOCUMENT


def changed(text):
    """The text with its letters in the other case, outside of tags and addresses."""
    parts = re.split(r"(<[^<>]*>|&\w+;|https?://\S+)", text)
    return "".join(one if number % 2 else one.swapcase() for number, one in enumerate(parts))


def test_markup_is_written_as_it_was():
    document = read_markdown(DOCUMENT)
    written = document.join(list(map(changed, document.lines)))
    assert written.startswith("---\ntitle: Un voyage\n---\n# uN *LONG* VOYAGE #\n")
    assert '`danse` AVEC [**pAUL**](http://x.org/a_b "un ami") ET [jANE][ami], DANS' in written
    assert "SNAKE_CASE, 5 \\* 3 \\* 2.  \nfIN ![vue](p.png)[^1]\n" in written
    assert "> uNE CITATION, ***IMPORTANTE***\n- [ ] UN\n  1) DEUX\n" in written
    assert "| A | `b`\\|C |\n|---|:-:|\n| **X** | $y_1$ |" in written


@pytest.mark.parametrize(
    ("text", "answer", "written"),
    [
        ("un _mot_", "<md-0>one</md-0>s", "*one*s"),  # an underscore within a word is text
        ("un *mot*", "one <md-0></md-0>word", "one word"),
        ("un mot", "1. one *word*", r"1\. one \*word\*"),
        ("un * mot", "one * word", "one * word"),
        ("un \\<b> & &amp; mot", "one &lt;b> &amp; word", "one &lt;b> &amp; word"),
    ],
)
def test_a_translation_becomes_no_other_markup(text, answer, written):
    assert read_markdown(text).join([answer]) == written


def structure(text):
    """The tokens of a document, with what is not text."""
    found = []
    for block in COMMON_MARK.parse(text):
        for token in block.children or [block]:
            is_text = token.type in ("text", "softbreak", "text_special")
            kind = "text" if is_text else (token.type, str(token.attrs))
            if kind != "text" or found[-1:] != ["text"]:
                found.append(kind)
            if token.type in ("fence", "code_block", "code_inline"):
                found.append(token.content)
    return found


def test_other_parsers_find_the_same_structure():
    pages = [*DOCS.glob("*.md"), *DOCS.glob("notes/*.md")]
    assert len(pages) > 20
    for page in pages:
        text = page.read_text()
        document = read_markdown(text)
        assert structure(document.join(list(map(changed, document.lines)))) == structure(text)


PIECES = ["*", "_", "`", "[", "](", ")", "![", "\\", "> ", "- ", "1. ", "\n", "\n\n", "  ", "    "]


@given(st.lists(st.sampled_from([*PIECES, "a", "|", "|-|", "```", "<b>", "<div>", "$", "# "])))
def test_any_text_stays(pieces):
    text = "".join(pieces)
    document = read_markdown(text)
    assert document.join(document.lines) == text


@pytest.mark.parametrize(
    "text", ["*_~", "[a](", "` ``", "- ", "<pre>\n", "```\n", "a\n", "[a](b 'c", "\\", "<a ", "$a"]
)
def test_time_is_linear(text):
    begin = time.process_time()
    read_markdown(text * 20_000)
    assert time.process_time() - begin < 10


def test_a_model_keeps_emphasis_code_and_links(translator):
    text = "- Jane **danse** avec `x` et [Paul](http://x.org).\n"
    document = read_markdown(text)
    written = document.join(translate_markup(translator, document.lines))
    for kept in ("**", "`x`", "[", "](http://x.org)"):
        assert written.count(kept) == text.count(kept)
    assert written.startswith("- ")
    assert "danse" not in written
