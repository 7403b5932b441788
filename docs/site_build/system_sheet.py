"""All systems on one page, for print: a drawing of each, what it attends to and what was new."""

from html import escape
from typing import NamedTuple

from site_build.system_drawings import DRAWINGS


class Card(NamedTuple):
    """What the sheet says of a system."""

    title: str
    paper: str
    attends: str
    new: str


CARDS: dict[str, Card] = {
    "rnn": Card(
        "Encoder-decoder",
        "Sutskever et al. 2014; Cho et al. 2014",
        "nothing: the last state is all that the decoder gets",
        "one network reads, another writes; both are trained as one",
    ),
    "rnnsearch": Card(
        "RNNsearch",
        "Bahdanau, Cho and Bengio 2015",
        "all source words, read both ways, anew for each word",
        "attention: a trained score, a softmax, a weighted sum",
    ),
    "luong": Card(
        "Luong's attention",
        "Luong, Pham and Manning 2015",
        "all source words, or a window of them (local)",
        "dot products score; the state now asks, and what it found is fed on",
    ),
    "show-attend-tell": Card(
        "Show, Attend and Tell",
        "Xu et al. 2015",
        "the regions that a CNN makes of a picture",
        "attention outside of text; hard attention, which draws one region",
    ),
    "deep-att": Card(
        "Deep-Att",
        "Zhou et al. 2016",
        "all source words, at the top of two deep columns",
        "layers that turn round by turns, and linear ways past them",
    ),
    "gnmt": Card(
        "GNMT",
        "Wu et al. 2016",
        "all source words; every decoder layer gets what was found",
        "residual sums in deep LSTMs; length and coverage in the search",
    ),
    "bytenet": Card(
        "ByteNet",
        "Kalchbrenner et al. 2016",
        "nothing: each column sees what its convolutions reach",
        "no recurrence; dilations double the reach with each layer",
    ),
    "moe": Card(
        "Mixture of experts",
        "Shazeer et al. 2017",
        "all source words; beside it a gate chooses experts",
        "each token computes with a few of very many parameters",
    ),
    "convs2s": Card(
        "ConvS2S",
        "Gehring et al. 2017",
        "all source words, in every layer of the decoder",
        "convolutions with gates on both sides; several looks a word",
    ),
    "transformer": Card(
        "Transformer",
        "Vaswani et al. 2017",
        "words of the same side, and the source, in many heads",
        "attention alone: nothing goes step by step in training",
    ),
    "gpt": Card(
        "GPT",
        "Radford et al. 2018",
        "the token itself and all before it",
        "a decoder alone, trained to go on with any text; then transfer",
    ),
    "bert": Card(
        "BERT",
        "Devlin et al. 2019",
        "all tokens, before and behind",
        "an encoder alone, trained to fill masked tokens; then transfer",
    ),
    "feedback": Card(
        "Feedback Transformer",
        "Fan et al. 2020",
        "one vector for each token before, mixed of all its layers",
        "low layers see what high ones computed; it goes step by step",
    ),
    "vit": Card(
        "ViT",
        "Dosovitskiy et al. 2021",
        "all patches of a picture, from all and from a class token",
        "pictures as sequences of patches, without convolutions",
    ),
    "swin": Card(
        "Swin",
        "Liu et al. 2021",
        "the patches of a window",
        "windows that move from layer to layer: linear in the picture's area",
    ),
}
"""A card for each drawing, in the order of the page."""

LEGEND = (
    "A cell is a vector. Thin arrows: step by step, or layer by layer; dashed: who asks; blue: "
    "attention, the wider the more weight; dotted: a way past a layer."
)
PRINT = "@page { size: A4; margin: 8mm; }"


def sheet() -> str:
    """The grid of all cards, as HTML inside Markdown."""
    cards = "\n".join(_card(family, card) for family, card in CARDS.items())
    html = f'<style>{PRINT}</style>\n<div class="system-sheet">\n{cards}\n</div>'
    return f'\n```{{raw}} html\n{html}\n<p class="system-legend">{LEGEND}</p>\n```\n'


def _card(family: str, card: Card) -> str:
    about = f"{card.title}: it attends to {card.attends}"
    lines = [
        f"<h2>{escape(card.title)}</h2>",
        f'<p class="system-paper">{escape(card.paper)}</p>',
        DRAWINGS[family]().svg(about),
        f"<p><b>Attends to</b> {escape(card.attends)}.</p>",
        f"<p><b>New</b> {escape(card.new)}.</p>",
    ]
    return f'<section class="system-card">{"".join(lines)}</section>'
