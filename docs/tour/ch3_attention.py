# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 3. Attention as lookup
#
# A dictionary gives the value whose key equals the query. Attention is a dictionary for vectors:
# no key equals the query exactly, so every value is given, in the measure in which its key fits.
# All models in `regard` do it in one place, `attention/attend.py`, and differ in how they measure
# the fit. This chapter walks through that place by hand, with the numbers that the lectures print.

# %% tags=["hide-input"] mystnb={"code_prompt_show": "What is imported"}
import torch
from torch import Tensor

from regard.attention.attend import KeyValues, attend
from regard.attention.score_functions import (
    AdditiveScore,
    DotScore,
    ScaledDotScore,
    ScoreFunction,
    build_score,
)
from regard.batching.collate import pad, pad_source
from regard.inspection.plots.figure import InchFigure, ThemedFigure
from regard.inspection.recording.recorder import AttentionRecorder
from regard.layers.recurrent import RecurrentDecoder
from regard.models.translation.luong import Luong, LuongSettings
from regard.models.translation.rnn import RnnEncoderDecoder, RnnSettings
from regard.text.special_tokens import BOS
from regard.types import Site

# %% [markdown]
# ## Query, keys, values
#
# For a query $q$, keys $k_1 \dots k_S$ and values $v_1 \dots v_S$,
#
# $$e_j = \mathrm{score}(q, k_j), \qquad \alpha_j = \frac{\exp e_j}{\sum_i \exp e_i}, \qquad
# c = \sum_j \alpha_j v_j.$$
#
# The lectures' dictionary has three entries: *name* is Quinn, *position* is quarterback,
# *handedness* is right. Let each key be a direction of its own, and each value a number, 1, 2 and
# 3. A query in the direction of a key finds its value; how surely, is a matter of its length.


# %%
def look_up(
    score: ScoreFunction, query: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """The weights (T, S) and the contexts (T, D) of queries (T, K), by the package's attention."""
    recorder, kv = (
        AttentionRecorder(),
        KeyValues(score.prepare(keys[None, None]), values[None, None]),
    )
    context = attend(score, query[None, None], kv, None, site=Site("cross", 0), hook=recorder)
    [weights] = recorder.weights().values()
    return weights[0, 0], context[0, 0]


keys, values = torch.eye(3), torch.tensor([[1.0], [2.0], [3.0]])
for length in (0.0, 1.0, 5.0, 20.0):
    weights, found = look_up(DotScore(), length * keys[:1], keys, values)
    shown = " ".join(f"{weight:.3f}" for weight in weights[0])
    print(f"name, length {length:4.0f}: weights {shown}, found {found.item():.3f}")

assert torch.allclose(weights, torch.tensor([[1.0, 0.0, 0.0]]), atol=1e-6)  # a dictionary
assert abs(found.item() - 1) < 1e-6  # Quinn

# %% [markdown]
# A query of length 0 asks for nothing and gets the mean of everything; a long one gets one value.
# Both are the same formula, and between them there is a gradient: a dictionary that can be
# learned.
#
# ## The lectures' numbers
#
# For *I am a student* the lectures print the products of the query of *I* with all four keys, 128,
# 32, 32 and 128, and what becomes of them: 16, 4, 4 and 16. That is a division by 8, so $d_k =
# 64$. Their other example has $q_1 \cdot k_2 = 96$, with vectors of the same 64 numbers. Vectors
# with these products:

# %%
query = torch.ones(1, 64)
products = torch.tensor([128.0, 32.0, 32.0, 128.0])  # of I, am, a, student
keys = (products / 64)[:, None].expand(4, 64)  # each key has 64 equal numbers
scores = ScaledDotScore()(query, keys)[0]
weights, _ = look_up(ScaledDotScore(), query, keys, torch.eye(4))
print("scores ", [f"{score:.0f}" for score in scores])
print("weights", [f"{weight:.7f}" for weight in weights[0]])

assert DotScore()(query, keys)[0].tolist() == [128, 32, 32, 128]
assert scores.tolist() == [16, 4, 4, 16]
assert ScaledDotScore()(query, torch.full((1, 64), 96 / 64)).item() == 12  # q₁ · k₂ = 96
assert abs(float(weights[0, 0]) - 0.5) < 1e-5

# %% [markdown]
# So *I* looks at itself and at *student*, half and half, and at the rest not at all.
#
# ## Why the root
#
# > **Where the lectures err.** One of them says that *dividing by $d_k$ makes the algorithm easier
# > to train*. Its own formula, and the paper, divide by the root of it, $\sqrt{d_k}$. That is no
# > trifle.
#
# If the numbers of $q$ and $k$ have mean 0 and variance 1, their product is a sum of $d_k$ terms
# of variance 1: its variance is $d_k$, and its typical size $\sqrt{d_k}$. Undivided, scores grow
# with the width until the softmax picks one key and its gradient dies. Divided by $d_k$ they
# shrink to nothing, and every key gets the same. Divided by the root they stay as they are.

# %%
torch.manual_seed(1)
widths, num_keys = [4, 16, 64, 256], 32
spread: dict[str, list[float]] = {"q·k": [], "q·k / √d": [], "q·k / d": []}
largest: dict[str, list[float]] = {name: [] for name in spread}
for width in widths:
    product = torch.randn(500, 1, width) @ torch.randn(500, width, num_keys)  # (500, 1, S)
    for name, divided in (
        ("q·k", product),
        ("q·k / √d", product / width**0.5),
        ("q·k / d", product / width),
    ):
        spread[name].append(float(divided.std()))
        largest[name].append(float(divided.softmax(-1).amax(-1).mean()))
print("deviation of the scores and largest weight, by width")
print(" " * 9, "".join(f"{width:>15}" for width in widths))
for name in spread:
    pairs = zip(spread[name], largest[name], strict=True)
    print(f"{name:9}", "".join(f"   {deviation:6.2f} {most:5.2f}" for deviation, most in pairs))

assert abs(spread["q·k"][2] / 8 - 1) < 0.05  # √64
assert all(abs(one - 1) < 0.1 for one in spread["q·k / √d"])
assert largest["q·k"][-1] > 0.8  # nearly one-hot
assert largest["q·k / d"][-1] < 1.5 / num_keys  # nearly uniform


# %% tags=["hide-input"] mystnb={"code_prompt_show": "How it is drawn"}
def draw_largest(theme: str) -> InchFigure:
    """The largest of 32 weights by the width of the vectors."""
    figure = InchFigure(6.4, 2.6, theme)
    axes = figure.add_panel(0, 0, 6.4, 2.6)
    axes.spines[["top", "right"]].set_visible(False)
    for name, found in largest.items():
        colour = figure.theme.accent if "√" in name else figure.theme.muted
        axes.plot(widths, found, "o-", color=colour, linewidth=1.6, markersize=3.5)
        figure.write(axes, widths[-1] * 1.1, found[-1], name, 8, color=colour, va="center")
    axes.set(xscale="log", xticks=widths, xticklabels=widths, ylim=(0, 1))
    axes.minorticks_off()
    figure.label_axes(axes, across="width d", down="largest of 32 weights, on average")
    return figure


ThemedFigure(
    draw_largest,
    alt="The largest weight by width: towards 1 undivided, towards 1/32 divided by d, the same at "
    "all widths divided by the root of d",
)

# %% [markdown]
# ## Four ways to fit
#
# $$\begin{array}{ll} \mathrm{dot} & q^\top k \\ \mathrm{scaled\ dot} & q^\top k / \sqrt{d_k} \\
# \mathrm{multiplicative} & q^\top W k \\ \mathrm{additive} & v^\top \tanh(W q + U k) \end{array}$$
#
# The first two need queries and keys of one width, and have nothing to learn. The other two have
# matrices. The lectures' sizes are $d_1$ for values, $d_2$ for the query and $d_3$ inside:

# %%
d1, d2, d3 = 6, 4, 5
counts = {}
for name in ("dot", "scaled_dot", "multiplicative", "additive"):
    narrow = d2 if "dot" in name else d1
    score = build_score(name, query_width=d2, key_width=narrow, hidden=d3)
    counts[name] = sum(parameter.numel() for parameter in score.parameters())
    print(f"{name:15} {counts[name]:3} parameters")

assert counts["dot"] == counts["scaled_dot"] == 0
assert counts["multiplicative"] == d2 * d1  # W ∈ R^{d₂×d₁}
assert counts["additive"] == d3 * d1 + d3 * d2 + d3  # W₁, W₂ and v

# %% [markdown]
# > **Where the lectures err.** *Bahdanau: attention scores are separately trained; Luong:
# > attention scores are not trained.* Of Luong's three scores that holds for one, *dot*. *General*
# > and *concat* are the multiplicative and the additive score above, with parameters that are
# > trained; and even without any, the vectors that are compared are learned.
#
# ## One step of Bahdanau and of Luong
#
# Both look with a state $s$ of the decoder at the states $h_j$ of the encoder. They differ in
# *when*, and in what becomes of the context:
#
# | | Bahdanau 2015 | Luong 2015 |
# |---|---|---|
# | the query | $s_{i-1}$, the state before | $s_i$, the state now |
# | the score | $v^\top \tanh(W s_{i-1} + U h_j)$ | $s_i^\top h_j$ |
# | the context | makes $s_i = f(s_{i-1}, y_{i-1}, c_i)$ | $\tilde s_i = \tanh(W_c [c_i; s_i])$ |
#
# On *Jane visite l'Afrique*, with states of two numbers, all by hand and all by the package:

# %%
h = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # of Jane, visite, l'Afrique
s = torch.tensor([[0.5, 1.0]])

luong_scores = torch.tensor([0.5 * 1 + 1 * 0, 0.5 * 0 + 1 * 1, 0.5 * 1 + 1 * 1])
luong, luong_context = look_up(DotScore(), s, h, h)
additive = AdditiveScore(2, 2, 2)
with torch.no_grad():
    for layer in (additive.query, additive.key):
        layer.weight.copy_(torch.eye(2))
    additive.energy.weight.fill_(1.0)
fits = torch.tanh(s + h)  # (3, 2) W = U = 1
bahdanau_scores = fits.sum(-1)  # v = (1, 1)
bahdanau, bahdanau_context = look_up(additive, s, h, h)

print("Bahdanau W s + U h =", (s + h).tolist())
print("         tanh of it =", [[f"{number:.3f}" for number in row] for row in fits.tolist()])
for name, scored, weighed, context in (
    ("Luong", luong_scores, luong[0], luong_context[0]),
    ("Bahdanau", bahdanau_scores, bahdanau[0], bahdanau_context[0]),
):
    print(f"{name:9}", "e =", [f"{number:.3f}" for number in scored.tolist()])
    print(" " * 9, "α =", [f"{number:.3f}" for number in weighed.tolist()])
    print(" " * 9, "c =", [f"{number:.3f}" for number in context.tolist()])
    assert torch.allclose(weighed, scored.softmax(0))
    assert torch.allclose(context, scored.softmax(0) @ h)
    assert abs(float(weighed.sum()) - 1) < 1e-6

# %% [markdown]
# The dot product prefers *l'Afrique* more clearly than the additive score, whose tanh cannot
# exceed 1 for any of its units: however well a key fits, its score has a limit.
#
# The step ends with what becomes of the context. Luong's $W_c$ takes $c$ and $s$ alike here, so
# that $\tilde s = \tanh(c + s)$, and the next word is read off $\tilde s$. In Bahdanau's model $c$
# is an input of the GRU. Let its gates be half open and its candidate be $\tanh c$; then the new
# state is halfway between $\tanh c$ and the old one.

# %%
combine = Luong(LuongSettings(layers=1, width=2, embedding=2), 5, 5).combine  # W_c
decoder = RecurrentDecoder("gru", 2 + 2, 2)  # reads [y; c]
[gru] = decoder.layers
with torch.no_grad():
    combine.weight.copy_(torch.eye(2).repeat(1, 2))
    new_luong = torch.tanh(combine(torch.cat([luong_context, s], 1)))  # (1, 2)
    for weight in gru.parameters():
        weight.zero_()  # both gates are σ(0) = 1/2
    gru.weight_ih[4:, 2:] = torch.eye(2)  # the candidate is tanh(c)
    begin = torch.zeros(1, 2)  # y_{i-1}
    inputs = torch.cat([begin, bahdanau_context], 1)[None]  # (1, 1, 4)
    new_bahdanau = decoder.step(inputs, (s[None],)).outputs[0]  # (1, 2)
print("Luong     s̃ =", [f"{number:.3f}" for number in new_luong[0].tolist()])
print("Bahdanau  s =", [f"{number:.3f}" for number in new_bahdanau[0].tolist()])

assert torch.allclose(new_luong, torch.tanh(luong_context + s))
assert torch.allclose(new_bahdanau, (torch.tanh(bahdanau_context) + s) / 2)

# %% [markdown]
# With sizes of use, trained, both are in the ladder: [RNNsearch](../systems.md#2-rnnsearch) and
# [Luong's model](../systems.md#3-luongs-attention).
#
# ## A shortcut for gradients
#
# *Attention helps with vanishing gradient problem; provides shortcut to faraway states*, say the
# lectures. So let us ask the first word that is written how much it changes with the vector of
# each of 40 words that were read,
#
# $$\left\lVert \frac{\partial\, z_1}{\partial\, x_j} \right\rVert, \qquad j = 1 \dots 40.$$
#
# Without attention the way from $x_1$ to $z_1$ leads through all 40 steps of the encoder. With it,
# $c = \sum_j \alpha_j h_j$ holds $h_1$ itself. No model is trained: this is what training begins
# with.

# %%
WORDS = 40
source, target = pad_source([[4 + word for word in range(WORDS)]]), pad([[4]], first=BOS)


def changes(model: RnnEncoderDecoder | Luong) -> Tensor:
    """How much the first output changes with each word read, the largest being 1: (40,)."""
    output = model.decode(target, model.encode(source)).features[0, 0]  # (D,)
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    [gradient] = torch.autograd.grad(output @ direction, model.source.weight)  # (V, E)
    sizes = gradient[4 : 4 + WORDS].norm(dim=1)  # each word was read once
    return sizes / sizes.max()


torch.manual_seed(1)
size = 4 + WORDS
arriving = {
    "no attention": changes(RnnEncoderDecoder(RnnSettings(width=32, embedding=32), size, size)),
    "Luong": changes(Luong(LuongSettings(layers=1, width=32, embedding=32), size, size)),
}
for name, sizes in arriving.items():
    shown = ", ".join(f"{word} {sizes[word - 1]:.0e}" for word in (1, 10, 20, 30, 40))
    print(f"{name:13} word {shown}")

far = {name: float(sizes[0]) for name, sizes in arriving.items()}
print(f"of the first word {far['Luong'] / far['no attention']:.0e} times as much with attention")
assert far["no attention"] < 1e-3
assert far["Luong"] > 0.1


# %% tags=["hide-input"] mystnb={"code_prompt_show": "How it is drawn"}
def draw_arriving(theme: str) -> InchFigure:
    """The change with each word, on a logarithmic scale."""
    figure = InchFigure(6.4, 2.4, theme)
    axes = figure.add_panel(0, 0, 6.4, 2.4)
    axes.spines[["top", "right"]].set_visible(False)
    for name, sizes in arriving.items():
        colour = figure.theme.muted if name == "no attention" else figure.theme.accent
        axes.plot(range(1, WORDS + 1), sizes.tolist(), color=colour, linewidth=1.6)
        figure.write(
            axes, 1, float(sizes[0]) * (3 if name == "Luong" else 8), name, 8, color=colour
        )
    axes.set(yscale="log", xticks=[1, 10, 20, 30, 40])
    figure.label_axes(axes, across="word read", down="change of the first output")
    return figure


ThemedFigure(
    draw_arriving,
    alt="How much the first output changes with each of 40 words: without attention it falls by "
    "four orders of magnitude towards the first word; with attention it stays level",
)

# %% [markdown]
# The shortcut does not mend the recurrent network: between $h_1$ and $h_{40}$ the gradient vanishes
# as before. It goes around it.
#
# ## Exercises
#
# **1.** With a query of length 0 the context was the mean of the values. Which score function
# gives the mean for *every* query, if all keys are alike?

# %% tags=["hide-cell"]
same = torch.ones(4, 2)
for name in ("dot", "scaled_dot", "multiplicative", "additive"):
    score = build_score(name, 2, 2, 3)
    with torch.no_grad():
        weights, _ = look_up(score, torch.randn(1, 2), same, torch.eye(4))
    assert torch.allclose(weights, torch.full((1, 4), 0.25))
print("all of them: a softmax of equal scores is uniform, whatever they are")

# %% [markdown]
# **2.** The weights of *I am a student* are .5, 0, 0, .5. What would they be if the scores had
# been divided by $d_k$, and what if by nothing?

# %% tags=["hide-cell"]
by_width, undivided = (products / 64).softmax(0), products.softmax(0)
print([f"{weight:.3f}" for weight in by_width], [f"{weight:.3f}" for weight in undivided])
assert abs(float(by_width[0]) - 0.409) < 0.001  # 2 and 0.5: what does not fit has a share, too
assert undivided[1] < 1e-40  # e^-96 beside 1: no gradient will ever bring it back

# %% [markdown]
# **3.** Add the same number to all scores of a query. What changes? And if all are doubled?

# %% tags=["hide-cell"]
assert torch.allclose((luong_scores + 7).softmax(0), luong_scores.softmax(0))
doubled = (2 * luong_scores).softmax(0)
assert doubled.max() > luong_scores.softmax(0).max()
print("nothing changes by adding; doubling makes the weights sharper: a temperature of one half")
