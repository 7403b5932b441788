# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 9. Beyond translation
#
# The lectures end with a list: attention for captions, for language models, BERT, ViT, transfer,
# and *transformers dominate everything*. This chapter builds what can be built in seconds, counts
# what is too large to build, and measures three sentences of the lectures: that attention saves
# work on large pictures, that a recurrent network cannot recall a name after unrelated text, and
# that attention takes $O(n^2)$ memory. None of the three is quite as it is said.

# %% tags=["hide-input"] mystnb={"code_prompt_show": "What is imported"}
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.block_local import SlidingWindow
from regard.attention.multihead import SelfAttention
from regard.batching.masked_windows import Masking, held_out_windows
from regard.corpora.corpus import SplitName
from regard.corpora.generated.generator import GeneratedSettings
from regard.inspection.plots.figure import InchFigure, ThemedFigure, colour_scale
from regard.inspection.plots.picture_words import plot_picture_panels
from regard.inspection.recording.recorder import AttentionRecorder
from regard.layers.patches import PatchEmbedding
from regard.models.classification.text_classifier import TextClassifier, TextClassifierSettings
from regard.models.contracts import CausalTextEncoder
from regard.models.language.awd_lstm import AwdLstm, AwdLstmSettings
from regard.models.language.bert import Bert, BertSettings
from regard.models.language.gpt import Gpt, GptSettings
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.models.vision.encoder_settings import SmallCnnSettings
from regard.models.vision.show_attend_tell import ShowAttendTell, ShowAttendTellSettings
from regard.models.vision.swin import Swin, SwinSettings
from regard.models.vision.vit import Vit, VitSettings
from regard.tasks.captions.squares import COLOURS, squares
from regard.types import Padded, Pixels, Site


def padded(ids: Tensor) -> Padded:
    """Texts of one length (B, S): nothing is padding."""
    return Padded(ids, torch.ones_like(ids, dtype=torch.bool))


def fit(model: nn.Module, loss: Callable[[], Tensor], steps: int, rate: float) -> float:
    """Take some steps of Adam; the last loss."""
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        found = loss()
        torch.autograd.backward(found)
        optimizer.step()
    return found.item()


# %% [markdown]
# ## Pictures to words
#
# A convolutional network makes a grid of vectors $z_{ij}$ of a picture, one for each region. From
# there on a caption is a translation, and the regions are the source (Xu et al. 2015):
#
# $$e_{t,i,j} = f_{\mathrm{att}}(h_{t-1}, z_{i,j}), \qquad a_{t,:,:} =
# \mathrm{softmax}(e_{t,:,:}), \qquad c_t = \sum_{i,j} a_{t,i,j}\, z_{i,j}$$
#
# where $f_{\mathrm{att}}$ is the additive score of [chapter 3](ch3_attention.py). Our smallest
# corpus of captions has two shapes side by side. To be quick, this captioner tells their two
# colours, left to right, and sees the pictures at half of their size.

# %%
corpus = squares(GeneratedSettings(train=300, valid=1, test=64))
words = ["<pad>", "<s>", "</s>", *COLOURS]


def load(split: SplitName) -> tuple[Tensor, Tensor]:
    """Pictures (B, 3, 24, 24), and the colours they show between two marks (B, 4)."""
    pictures = corpus.splits[split]
    pixels = torch.from_numpy(np.stack([picture.read().pixels for picture in pictures]))
    halved = F.avg_pool2d(pixels.permute(0, 3, 1, 2).float(), 2).byte()
    told = [[word for word in picture.captions[0].split() if word in words] for picture in pictures]
    return halved, torch.tensor([[1, *map(words.index, colours), 2] for colours in told])


def train_captioner(kind: str) -> ShowAttendTell:
    """One that has learned from the training pictures."""
    torch.manual_seed(2)
    cnn = SmallCnnSettings(picture_size=24, width=16, layers=1)
    sizes = {"width": 16, "embedding": 16, "alignment": 16, "dropout": 0.0, "encoder": cnn}
    settings = ShowAttendTellSettings.model_validate({"attention": kind, **sizes})
    model, (pictures, captions) = ShowAttendTell(settings, len(words)), load("train")

    def loss() -> Tensor:
        rows = torch.randint(len(pictures), (16,))
        logits = model(Pixels(pictures[rows]), padded(captions[rows, :-1]))
        return F.cross_entropy(logits.flatten(0, 1), captions[rows, 1:].flatten())

    fit(model, loss, 100, 0.02)
    return model


test_pictures, test_captions = load("test")
captioners = {kind: train_captioner(kind) for kind in ("soft", "none")}
exact = {}
for kind, captioner in captioners.items():
    with torch.no_grad():
        said = captioner(Pixels(test_pictures), padded(test_captions[:, :-1])).argmax(-1)
    exact[kind] = float((said == test_captions[:, 1:]).all(1).float().mean())
    print(f"attention {kind}: {exact[kind]:.0%} of the test pictures have both colours right")

assert exact["soft"] > 0.9 > exact["none"] + 0.2

# %% [markdown]
# Without attention (`none`) each word gets the mean of all regions: red and blue are in it, but
# which is on the left is hard to tell. With attention each word goes and looks. The recorder shows
# where:

# %%
recorder, soft = AttentionRecorder(), captioners["soft"]
with torch.no_grad():
    soft(Pixels(test_pictures), padded(test_captions[:, :-1]), hook=recorder)
[weights] = recorder.weights().values()  # (64, 1, 3, 144)
seen = torch.unflatten(weights[:, 0], -1, soft.grid)  # (64, 3, 12, 12): 3 words with </s>
on_left = seen[..., : seen.shape[-1] // 2].sum((2, 3)).mean(0)  # (3,)
print(
    f"weight on the left half: {on_left[0]:.2f} for the first word, {on_left[1]:.2f} for the second"
)

assert torch.allclose(seen.sum((2, 3)), torch.ones(64, 3), atol=1e-5)  # "attention values sum to 1"
assert seen.min() >= 0
assert on_left[0] > 0.75 > on_left[1] + 0.25

# %% tags=["hide-input"] mystnb={"code_prompt_show": "How it is drawn"}
shown = corpus.splits["test"][0]
told = [words[number] for number in test_captions[0, 1:3]]
panels = list(zip(told, seen[0], strict=False))
ThemedFigure(
    lambda theme: plot_picture_panels(shown.read().pixels, panels, theme=theme),
    alt=f"A picture of two shapes; for the word {told[0]} the left one is bright, for {told[1]} "
    "the right one",
)

# %% [markdown]
# On photographs the gain is smaller, and takes a test to be seen: [four models on
# Flickr8k](../results.md#flickr8k-captions).
#
# ## What looking at a part saves
#
# > **Where the lectures err.** *Attention models can relieve computational burden. Helpful when
# > processing big images!* Attention as above cannot: to know where to look, it scores every
# > region, and each region was computed before anyone looked. Looking comes on top.


# %%
def multiply_adds(run: Callable[[], Any]) -> int:
    """Those of all products and convolutions of `run`, counted by torch."""
    # torch does not count inside fused attention, so the plain formula computes it
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops()) // 2  # it counts a multiplication and an addition as two


picture, first = Pixels(test_pictures[:1]), torch.ones(1, 1, dtype=torch.long)
costs = {}
for kind, captioner in captioners.items():
    with torch.no_grad():
        state = captioner.start(captioner.encode(picture))
    encoding = multiply_adds(partial(captioner.encode, picture))
    a_word = multiply_adds(partial(captioner.step, first, state))
    costs[kind] = encoding, a_word
    print(f"{kind}: {encoding:,} for the picture, {a_word:,} for each word")

assert costs["soft"][0] == costs["none"][0]  # nothing is saved on the picture
assert costs["soft"][1] > costs["none"][1]  # and each word costs more

# %% [markdown]
# What does save is to leave out pixels *before* they are computed, as models do that choose a
# glimpse first (Mnih et al. 2014; not built here) or that read patches. A ViT of base size that
# reads the middle quarter of a picture of 384 × 384 pixels saves a little more than three quarters
# of the work, because attention, which is quadratic, shrinks to a sixteenth. torch can count
# without computing: on its device `meta` tensors have shapes and no numbers.


# %%
def picture_cost(build: Callable[[], nn.Module], size: int) -> float:
    """Billions of multiply-adds for a picture of `size` × `size` pixels."""
    with torch.device("meta"):
        model, pixels = build().eval(), torch.empty(1, 3, size, size)
    model.scale = nn.Identity()  # pixels that are no numbers need not be scaled
    return multiply_adds(lambda: model(Pixels(pixels))) / 1e9


def vit(size: int = 224, **sizes: int) -> Vit:
    """A ViT for 1,000 classes; of base size with nothing given."""
    base: dict[str, Any] = {"patch": 16, "width": 768, "heads": 12, "layers": 12}
    return Vit(VitSettings(picture_size=size, **base | sizes), 1000)


whole, quarter = picture_cost(lambda: vit(384), 384), picture_cost(lambda: vit(192), 192)
print(f"the whole picture {whole:.1f} billion, its middle {quarter:.1f}: {quarter / whole:.1%}")

assert abs(whole / 55.4 - 1) < 0.005  # Liu et al. 2021, table 1: ViT-B/16, 384², 55.4G
assert quarter < whole / 4

# %% [markdown]
# ## A name after unrelated text
#
# > *In Robotics today, Professor Martin-Martin assigned us to read the Attention is All You Need
# > Paper. […] \<Additional unrelated text\>. I am so happy that \_\_\_\_ picked this paper.*
#
# To fill the blank is the work of a *language model*, which tells each word from those before it,
# $P(y) = \prod_t p(y_t \mid y_1 \dots y_{t-1})$: a decoder without a source. One can
# [attend](../systems.md#a-language-model-that-attends-gpt) to them, as GPT does, or
# [remember](../systems.md#a-language-model-that-remembers-awd-lstm) them, as an LSTM does. Both are
# trained on real texts there, and a small GPT on letters in [chapter 7](ch7_measuring.py).
#
# How would a recurrent network fill the blank? The lectures: put the name into the cell state,
# carry it from word to word, take it out again. *Definitely not ideal!* We try. A text is
# *professor*, one of four names, some unrelated words, *that*; the name is to be told.

# %%
names = ["Martin-Martin", "Quinn", "Jane", "Manning"]
story = """in robotics today assigned us to read the attention is all you need paper proposes a
new simple neural network architecture called transformer which relies upon it"""
unrelated = sorted(set(story.split()))
vocabulary = ["professor", "that", *names, *unrelated]


def texts(rows: int, between: int, draw: torch.Generator) -> tuple[Padded, Tensor]:
    """Texts with so many words between the name and the question, and the names (B,)."""
    name = torch.randint(2, 2 + len(names), (rows, 1), generator=draw)
    noise = torch.randint(2 + len(names), len(vocabulary), (rows, between), generator=draw)
    ids = torch.cat([torch.zeros_like(name), name, noise, torch.ones_like(name)], 1)
    return padded(ids), name[:, 0]


def teach(model: CausalTextEncoder, between: range, steps: int, rate: float) -> None:
    """Let a model learn from texts with as many words between as `between` has."""
    draw = torch.Generator().manual_seed(1)

    def loss() -> Tensor:
        count = between[int(torch.randint(len(between), (1,), generator=draw))]
        inputs, labels = texts(32, count, draw)
        return F.cross_entropy(model.logits(model.token_states(inputs)[:, -1]), labels)

    fit(model, loss, steps, rate)


@torch.no_grad()
def recall(model: CausalTextEncoder, between: int) -> float:
    """The share of 128 names that it tells after so many words."""
    inputs, labels = texts(128, between, torch.Generator().manual_seed(2))
    found = model.logits(model.token_states(inputs)[:, -1]).argmax(-1)
    return float((found == labels).float().mean())


gpt_settings = GptSettings(layers=1, width=64, heads=1, dropout=0.0, context=512)
plain = [name for name in AwdLstmSettings.model_fields if "drop" in name or "penalty" in name]
lstm_sizes = {"width": 64, "layers": 1, **dict.fromkeys(plain, 0.0)}
lstm_settings = AwdLstmSettings.model_validate(lstm_sizes)
torch.manual_seed(2)
attentive = Gpt(gpt_settings, len(vocabulary))
remembering, schooled = (AwdLstm(lstm_settings, len(vocabulary)) for _ in range(2))
teach(attentive, range(10, 21), 100, 5e-3)
teach(remembering, range(10, 21), 100, 2e-2)
teach(schooled, range(5), 300, 2e-2)  # short texts alone

distances = [0, 5, 20, 80]
recalls = {
    "GPT, 10 to 20 words between": [recall(attentive, count) for count in distances],
    "LSTM, 10 to 20 words between": [recall(remembering, count) for count in distances],
    "LSTM, 0 to 4 words between": [recall(schooled, count) for count in distances],
}
print(f"{'trained on':30}" + "".join(f"{count:6}" for count in distances), "words between")
for name, found in recalls.items():
    print(f"{name:30}" + "".join(f"{share:6.0%}" for share in found))

assert min(recalls["GPT, 10 to 20 words between"]) > 0.9
assert max(recalls["LSTM, 10 to 20 words between"]) < 0.5  # one of four by chance
assert min(recalls["LSTM, 0 to 4 words between"][:3]) > 0.9

# %% [markdown]
# > **Where the lectures err.** *RNNs could not handle long sequence lengths (forgetful).* The last
# > row handles them: taught on short texts alone, the LSTM carries the name through far more words
# > than it was ever taught with. What fails, in the row above, is to *learn* it from long texts,
# > in as many steps as the GPT takes.
#
# Why, can be seen before any training. How much does the answer change with the vector of the
# name? In the LSTM that has to pass through every word between, and each takes its share
# ([chapter 1](ch1_sequences.py) has the formula). In the GPT the blank looks at the name itself,
# with a weight of about one in all words.


# %%
def sensitivity(state: Tensor, vectors: Tensor) -> Tensor:
    """How much a state (D,) changes with each row of a table of vectors (V, D): (V,)."""
    direction = torch.randn(state.shape, generator=torch.Generator().manual_seed(1))
    [gradient] = torch.autograd.grad(state @ direction, vectors, retain_graph=True)
    sizes: Tensor = gradient.norm(dim=-1)
    return sizes


def name_gradient(model: Gpt | AwdLstm, between: int) -> float:
    """How much the state of *that* changes with the vector of the name."""
    inputs, name = texts(1, between, torch.Generator().manual_seed(2))
    states = model.token_states(inputs)[0]  # (T, D)
    return float(sensitivity(states[-1], model.embedding.weight)[name])


torch.manual_seed(1)
fresh: dict[str, Gpt | AwdLstm] = {
    "GPT": Gpt(gpt_settings, len(vocabulary)),
    "LSTM": AwdLstm(lstm_settings, len(vocabulary)),
}
reaches = {
    name: [name_gradient(model, count) for count in distances] for name, model in fresh.items()
}
for name, found in reaches.items():
    print(
        f"{name}: " + ", ".join(f"{size:.1e}" for size in found), "for 0, 5, 20, 80 words between"
    )

assert reaches["LSTM"][2] / reaches["LSTM"][0] < 1e-3
assert 0.01 < reaches["GPT"][3] / reaches["GPT"][0] < 0.1  # of 83 words instead of 3


# %% tags=["hide-input"] mystnb={"code_prompt_show": "How it is drawn"}
def draw_reaches(theme: str) -> InchFigure:
    """The gradient from the blank to the name, on a logarithmic scale."""
    figure = InchFigure(6.0, 2.3, theme)
    axes = figure.add_panel(0, 0, 6.0, 2.3)
    axes.spines[["top", "right"]].set_visible(False)
    for name, found in reaches.items():
        colour = figure.theme.accent if name == "GPT" else figure.theme.muted
        axes.plot(distances, found, "o-", color=colour, linewidth=1.6, markersize=3.5)
        figure.write(axes, 81.5, found[-1], name, 9, color=colour, va="center")
    axes.set(yscale="log", xticks=distances)
    figure.label_axes(axes, across="words between", down="gradient before training")
    return figure


ThemedFigure(
    draw_reaches,
    alt="The gradient from the blank to the name, by the words between: it falls by many orders of "
    "magnitude in the LSTM, and hardly in the GPT",
)

# %% [markdown]
# ## What was learned before
#
# *Transformer revolution started: transfer learning*, the lectures say. What our schooled LSTM has
# learned can be used elsewhere. Of 64 texts with 20 words between we are told whether the
# professor is one of the first two; of 256 others we have to say it. The classifier is ULMFiT's
# (Howard and Ruder 2018): the layers of a language model, and a linear layer above them.


# %%
def classify(start: AwdLstm | None) -> tuple[float, float]:
    """The loss on 64 labelled texts after 60 steps, and the accuracy on others."""
    torch.manual_seed(1)
    settings = TextClassifierSettings(encoder=lstm_settings, pooling="last", dropout=0.0)
    model = TextClassifier(settings, vocabulary, classes=2)
    if start is not None:
        model.encoder.load_state_dict(start.state_dict())  # `regard train --from RUN` does the same
    inputs, name = texts(64, 20, torch.Generator().manual_seed(5))
    loss = fit(model, lambda: F.cross_entropy(model(inputs), (name < 4).long()), 60, 1e-2)
    others, name = texts(256, 20, torch.Generator().manual_seed(6))
    with torch.no_grad():
        return loss, float((model(others).argmax(-1) == (name < 4)).float().mean())


begun = {"from nothing": classify(None), "from the schooled LSTM": classify(schooled)}
for kind, (loss, accuracy) in begun.items():
    print(f"{kind:23} loss on the 64 texts {loss:.3f}, right on others {accuracy:.0%}")

assert begun["from nothing"][1] < 0.7 < 0.85 < begun["from the schooled LSTM"][1]

# %% [markdown]
# From nothing it learns the 64 texts by heart, and knows nothing of others. With real texts the
# difference is smaller: [five ways of
# transfer](../systems.md#what-was-learned-before-transfer-to-classifiers).
#
# ## Reading both ways
#
# A language model predicts what follows, so it may look only back. BERT is asked for words in the
# middle, and looks both ways: $p(y_i \mid y_1 \dots y_{i-1}, y_{i+1} \dots y_n)$. For that 15 % of
# the tokens are chosen; of these 80 % are masked, 10 % replaced by others, and 10 % left as they
# are, so that no token can be trusted (Devlin et al. 2019).

# %%
ids = torch.randint(4, 1000, (60_000,), generator=torch.Generator().manual_seed(1)).numpy()
masking = Masking(mask_id=1000, share=0.15, pairs=False, vocabulary=1000)
[batch] = held_out_windows(ids, masking, rows=1000, length=128)
given, asked = batch.inputs.ids.flatten()[batch.positions], batch.labels >= 0
masked, same = (given == 1000)[asked], (given == batch.labels)[asked]
chosen = float(asked.sum()) / (batch.inputs.ids.numel() * 126 / 128)  # [CLS] and [SEP] are not
replaced = (~masked & ~same).float().mean()
print(f"to be told {chosen:.1%}: masked {masked.float().mean():.1%}, replaced {replaced:.1%}, "
      f"left {same.float().mean():.1%}")  # fmt: skip

assert abs(chosen - 0.15) < 0.005
assert abs(float(masked.float().mean()) - 0.8) < 0.02
assert abs(float(same.float().mean()) - 0.1) < 0.02

# %% [markdown]
# Which token can know of which? We ask the models, untrained: how much does the state of token $i$
# change with the vector of token $j$? Two more follow below: a *window* of two tokens to either
# side, in one layer and in three.


# %%
def influence(states: Tensor, vectors: Tensor) -> Tensor:
    """∂ state of i / ∂ vector of j for each i and j, the largest of a row being 1: (T, T)."""
    sizes = torch.stack([sensitivity(state, vectors) for state in states])
    return sizes / sizes.amax(1, keepdim=True)


torch.manual_seed(1)
small: dict[str, Any] = {"width": 32, "heads": 2, "dropout": 0.0}
text = padded(torch.arange(16)[None])  # each token once: the row of a token is its place
gpt, bert = Gpt(GptSettings(layers=3, **small), 16), Bert(BertSettings(layers=3, **small), 16)
maps = {
    "GPT, 3 layers": influence(gpt.token_states(text)[0], gpt.embedding.weight),
    "BERT, 3 layers": influence(bert.token_states(text)[0], bert.embedding.weight),
}
for layers in (1, 3):
    stack = TransformerSettings(encoder_layers=layers, decoder_layers=1, window=2, **small)
    model = Transformer(stack, 16, 16)
    name = f"window 2, {layers} layer{'s' * (layers > 1)}"
    maps[name] = influence(model.encode(text).states[0], model.embeddings.source)
apart = (torch.arange(16)[:, None] - torch.arange(16)).abs()
assert maps["GPT, 3 layers"].triu(1).max() == 0  # nothing of what follows
assert maps["BERT, 3 layers"].min() > 0
for layers, name in ((1, "window 2, 1 layer"), (3, "window 2, 3 layers")):
    assert torch.equal(maps[name] > 0, apart <= 2 * layers)  # each layer reaches 2 tokens on


# %% tags=["hide-input"] mystnb={"code_prompt_show": "How it is drawn"}
def draw_maps(theme: str) -> InchFigure:
    """Each map, on a scale of its roots: what is small is seen, and what is 0 is not."""
    figure = InchFigure(6.8, 1.9, theme)
    for place, (name, sizes) in enumerate(maps.items()):
        axes = figure.add_panel(1.75 * place, 0.3, 1.55, 1.55)
        figure.draw_heatmap(axes, sizes.sqrt().sqrt(), colour_scale(figure.theme.sequential, 1.0))
        figure.write(axes, 0, -0.6, name, 9, color=figure.theme.foreground)
    return figure


ThemedFigure(
    draw_maps,
    alt="Four maps of 16 by 16 tokens: GPT a lower triangle, BERT a full square, a window a narrow "
    "band in one layer and a band three times as wide in three",
)

# %% [markdown]
# ## Pictures as words
#
# *An image is worth 16 × 16 words* (Dosovitskiy et al. 2021): ViT cuts a picture into patches of 16
# × 16 pixels and makes a vector of each by one linear layer: a convolution that never overlaps.
# Behind it are BERT's layers, with norms first, and a token for the class. A picture of 224 × 224
# pixels is a text of 14 × 14 words: as many as Show, Attend and Tell had regions of VGG.

# %%
with torch.no_grad():
    patches, pixels = PatchEmbedding(16, 8), torch.randn(1, 3, 224, 224)
    kernel = patches.project.weight.view(8, 3, 16, 16)
    convolved = F.conv2d(pixels, kernel, patches.project.bias, stride=16)  # (1, 8, 14, 14)
    read = patches(pixels)  # (1, 196, 8)
print(f"{read.shape[1]} patches")

assert read.shape[1] == 196
assert torch.allclose(read, convolved.flatten(2).mT, atol=1e-4)

# %% [markdown]
# ## How large they are
#
# On `meta` our classes build the largest models in a second, so that they can be counted. One
# number is the lectures' own: in their table of ImageNet the third row, with 90.94 %, has 1843M
# parameters. That is ViT-G/14 (Zhai et al. 2022), of which *model soups* were made.


# %%
def millions(build: Callable[[], nn.Module]) -> float:
    """The parameters of a model that is not filled with numbers."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build().parameters()) / 1e6


def gpt_of(layers: int, width: int, heads: int, context: int = 1024) -> Gpt:
    """A GPT with GPT-2's vocabulary."""
    return Gpt(GptSettings(layers=layers, width=width, heads=heads, context=context), 50257)


def swin() -> Swin:
    """Swin-T for 1,000 classes."""
    stages, heads = (2, 2, 6, 2), (3, 6, 12, 24)
    sizes = SwinSettings(picture_size=224, patch=4, window=7, width=96, stages=stages, heads=heads)
    return Swin(sizes, 1000)


large: dict[str, Any] = {"layers": 24, "width": 1024, "heads": 16}
giant = {"patch": 14, "layers": 48, "width": 1664, "heads": 16, "feed_forward": 8192}
printed: dict[str, tuple[Callable[[], nn.Module], float]] = {
    "BERT base": (lambda: Bert(BertSettings(), 30522), 110),
    "BERT large": (lambda: Bert(BertSettings(**large), 30522), 340),
    "GPT-2, the smallest": (lambda: gpt_of(12, 768, 12), 117),
    "GPT-3": (lambda: gpt_of(96, 12288, 96, 2048), 175_000),
    "ViT-B/16": (vit, 86),
    "ViT-L/16": (lambda: vit(**large), 307),
    "ViT-G/14, in the lectures": (lambda: vit(**giant), 1843),
    "Swin-T": (swin, 29),
}
counted = {name: millions(build) for name, (build, _) in printed.items()}
for name, (_, number) in printed.items():
    print(f"{name:26} printed {number:9,.0f}M   counted {counted[name]:11,.1f}M")
    slack = 0.065 if name.startswith("GPT-2") else 0.03
    assert abs(counted[name] / number - 1) < slack
assert abs(counted["ViT-G/14, in the lectures"] - 1843) < 3

# %% [markdown]
# > **Where a paper errs.** All agree within 3 %, but for GPT-2: its paper prints 117M for what has
# > 124M. *Our original parameter counts were wrong due to an error*, says the authors' repository.
#
# ## $O(n^2)$, and windows
#
# A layer of width $D$ has $12 D^2$ weights, all of which meet each of $n$ tokens; attention adds
# $n^2 D$ multiply-adds for the scores and as many for the sums, $12\, n D^2 + 2\, n^2 D$ in all.
#
# > **Where the lectures err.** *Baseline transformers use $O(n^2)$ in memory/computation.* Of
# > computation that is so in the limit, and the limit is far: the two terms are equal at $n = 6 D$.
# > Of memory it holds for the formula as it is written, not for attention: a kernel that never
# > writes down the square [takes linear memory](../windows.md#measured).
#
# Where texts are that long, a window helps: with $w$ tokens to either side, blocks of $w$ queries
# meet $3 w$ keys, $3 w n$ scores in all. It is the *local, restricted attention* which the paper's
# conclusion, quoted in the lectures, hopes for. In two dimensions it is Swin.


# %%
def attention_cost(length: int, window: SlidingWindow | None) -> int:
    """Multiply-adds of scores and sums, in one head of width 64."""
    module = SelfAttention(64, 1, window=window)
    queries, kv = module.project_all(torch.zeros(1, length, 64))
    mask = torch.ones(1, 1, 1, length, dtype=torch.bool)
    return multiply_adds(lambda: module(queries, kv, mask, site=Site("encoder", 0)))


near = SlidingWindow(16, 16)
for length in (128, 256, 512):
    full, local = attention_cost(length, None), attention_cost(length, near)
    print(
        f"{length:4} tokens: all {full:11,}   window of 16 {local:10,}   {full / local:5.1f} times"
    )
    assert full == 2 * length**2 * 64
    assert local == 2 * length * 3 * 16 * 64

layer = nn.ModuleList(Gpt(GptSettings(layers=1, width=64, heads=1), 10).layers)
matrices = sum(weights.numel() for weights in layer.parameters() if weights.ndim == 2)
assert matrices == 12 * 64**2
assert matrices * (6 * 64) == attention_cost(6 * 64, None)  # the two terms are equal at n = 6 D
print(f"equal at {6 * 64} tokens for a width of 64, at {6 * 768:,} for the 768 of GPT-2")
shifted = picture_cost(swin, 224)
print(f"Swin-T: {shifted:.2f} billion multiply-adds for a picture of 224 × 224 pixels")
assert abs(shifted / 4.5 - 1) < 0.01  # Liu et al. 2021, table 1: 4.5G

# %% [markdown]
# ## Named, not built
#
# CoCa, CoAtNet and *model soups* head the lectures' table of ImageNet. A soup is the mean of models
# that were fine-tuned from the same weights, and `regard average RUN RUN2` makes one; of so large a
# ViT none was made here. GPT-3's prompting, semantic segmentation, object detection
# (FD-SwinV2-G), speech recognition, behaviour and decisions are on other slides. `regard` has none
# of these, nor CoCa and CoAtNet, and GPT-3 was only counted. What they look with is what this tour
# has shown: queries, keys, values, and a mask.
#
# ## Exercises
#
# **1.** ViT-B/16 is to read pictures of 384 pixels instead of 224. Which parameters does it gain?

# %% tags=["hide-cell"]
gained = round((millions(lambda: vit(384)) - millions(vit)) * 1e6)
answer = ((384 // 16) ** 2 - (224 // 16) ** 2) * 768
print(f"{gained:,}: a position of 768 numbers for each of 576 - 196 more patches, and nothing else")
assert gained == answer == 291_840

# %% [markdown]
# **2.** With windows of 128 tokens to either side, how many layers until the first of 2,048 tokens
# can know of the last? And in Swin, is that a matter of layers alone?

# %% tags=["hide-cell"]
layers_needed = -(-2047 // 128)
print(f"{layers_needed} layers; Swin merges patches between stages: the reach doubles with each")
assert layers_needed == 16

# %% [markdown]
# **3.** Hard attention looks at one region and adds up no others. Does a captioner with hard
# attention cost less for each word?

# %% tags=["hide-cell"]
hard = ShowAttendTell(soft.settings.model_copy(update={"attention": "hard"}), len(words))
with torch.no_grad():
    state = hard.start(hard.encode(picture))
hard_cost = multiply_adds(lambda: hard.step(first, state))
print(f"no: {hard_cost:,}, as with soft attention; to choose a region, all are scored")
assert hard_cost == costs["soft"][1]
