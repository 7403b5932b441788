# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 5. Training
#
# What does training ask of a model, and what does it leave behind? A small Transformer comes with
# `regard`: French sentences about travel into English, trained as
# [the results](../results.md#travel-french-to-english-from-a-small-grammar) say. Its training is
# over, and still nearly all of it can be read off the model: the loss, the smoothed labels, the
# dropout, and what it was never shown. Nothing in this chapter is trained.

# %% tags=["hide-input"] mystnb={"code_prompt_show": "What is imported"}
import math

import torch
from torch import Tensor

import regard
from regard.batching.collate import collate
from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.generated.travel.grammar import travel
from regard.inspection.plots.figure import InchFigure, ThemedFigure
from regard.kernels.dropout import Dropout
from regard.layers.transformer_parts import FeedForward, NormPosition, Residual
from regard.models.translation.transformer_settings import TransformerSettings
from regard.recipes.recipe_files import load_recipe
from regard.training.loss import batch_loss, cross_entropy_and_grad_, symmetric_kl
from regard.training.optimizer import OptimizerSettings, ScheduleSettings, learning_rate
from regard.types import Padded

translator = regard.load(device="cpu")  # without a name: the model in the package
model, vocabulary = translator.model, translator.target.size  # V words of English

# %% [markdown]
# ## Bits
#
# A word of probability $p$ has a best code of $-\log_2 p$ bits. The lectures have one slide on it:
#
# $$\begin{array}{lll}
# \mathrm{entropy} & H(P) = -\sum_i P_i \log P_i & \mathrm{bits\ a\ word,\ with\ the\ best\ code} \\
# \mathrm{cross\ entropy} & H(P, Q) = -\sum_i P_i \log Q_i & \mathrm{with\ the\ best\ code\ for\ } Q
# \\ \mathrm{Kullback\text{-}Leibler} & D(P \| Q) = H(P, Q) - H(P) & \mathrm{the\ extra\ bits} \\
# \mathrm{Jensen\text{-}Shannon} & J(P, Q) = \frac{1}{2} D(P \| M) + \frac{1}{2} D(Q \| M) &
# M = \frac{1}{2}(P + Q) \end{array}$$


# %%
def cross_entropy(p: Tensor, q: Tensor) -> Tensor:
    """H(P, Q) in bits of distributions (..., V): (...); 0 log 0 is 0."""
    return -torch.xlogy(p, q).sum(-1) / math.log(2)


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """D(P ‖ Q) in bits."""
    return cross_entropy(p, q) - cross_entropy(p, p)


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """J(P, Q) in bits."""
    middle = (p + q) / 2
    return (divergence(p, middle) + divergence(q, middle)) / 2


four, uniform = torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 8]), torch.full((4,), 1 / 4)
code = torch.tensor([1.0, 2.0, 3.0, 3.0])  # 0, 10, 110, 111
print(f"entropy {cross_entropy(four, four):.2f} bits, length of the code {(four * code).sum():.2f}")
print(f"with two bits for each word {cross_entropy(four, uniform):.2f}: "
      f"{divergence(four, uniform):.2f} extra")  # fmt: skip

assert cross_entropy(four, four) == (four * code).sum() == 1.75
assert divergence(four, uniform) == 0.25

# %% [markdown]
# > **Where the lectures err.** The slide writes the cross entropy as $C(P)$. It is a number of two
# > distributions, and not the same when they change places. And it calls $J$ *symmetric KL*. That
# > is another number: the mean of $D(P \| Q)$ and $D(Q \| P)$, which R-Drop trains with
# > (`symmetric_kl` in `training/loss.py`). It has no bound. $J$ is never more than one bit.
#
# Now with distributions of the model. What follows *Jane visits* if the sentence is *Jane visite
# l'Afrique en septembre.*, and what if it is *l'Asie*?


# %%
@torch.no_grad()
def next_word(source: str, begun: str) -> Tensor:
    """Logits (V,) of the word that follows `begun` in the translation of `source`."""
    batch = collate(translator.sources[0].encode([source]), translator.target.encode([begun]))
    return model.logits(model.training_features(batch).features)[-1].double()


africa, asia = (next_word(f"Jane visite l'{place} en septembre.", "Jane visits")
                for place in ("Afrique", "Asie"))  # fmt: skip
p, q = africa.softmax(-1), asia.softmax(-1)
for name, one in (("P", p), ("Q", q)):
    best = one.topk(4)
    words = zip(translator.target.pieces(best.indices.tolist()), best.values, strict=True)
    print(name, "  ".join(f"{word.strip('▁')} {share:.4f}" for word, share in words))
both_ways = symmetric_kl(africa[None], asia[None], torch.zeros(1)).item() / math.log(2)
print(f"H(P) {cross_entropy(p, p):.2f}, H(P, Q) {cross_entropy(p, q):.2f} bits")
print(f"D(P‖Q) {divergence(p, q):.2f}, D(Q‖P) {divergence(q, p):.2f}, their mean {both_ways:.2f}")
print(f"J(P, Q) {jensen_shannon(p, q):.2f}, J(Q, P) {jensen_shannon(q, p):.2f}")

assert abs(both_ways - (divergence(p, q) + divergence(q, p)) / 2) < 1e-6
assert both_ways > 5 > 1 > jensen_shannon(p, q) > 0.5
assert abs(jensen_shannon(p, q) - jensen_shannon(q, p)) < 1e-12

# %% [markdown]
# Two neighbours do not show what always holds. Here are all words of a hundred sentences that the
# model has never seen, each distribution against that of the next word.

# %%
corpus = travel(GeneratedSettings(train=1, valid=1, test=100))
pairs = list(corpus.splits["test"]())
batch = collate(
    translator.sources[0].encode([pair.source for pair in pairs]),
    translator.target.encode([pair.target for pair in pairs]),
)
with torch.no_grad():
    all_logits = model.logits(model.training_features(batch).features)  # (M, V)
first = all_logits.double().softmax(-1)
second = first.roll(-1, 0)  # that of the next word
middle = (first + second) / 2

there, back = divergence(first, second), divergence(second, first)
shannon = jensen_shannon(first, second)
by_way = divergence(first, middle) + divergence(middle, second)
roots = jensen_shannon(first, middle).sqrt() + jensen_shannon(middle, second).sqrt()
print(f"{len(first)} words; D from {there.min():.1f} to {there.max():.1f} bits, "
      f"J from {shannon.min():.2f} to {shannon.max():.2f}")  # fmt: skip
print(f"D(P‖Q) and D(Q‖P) differ by up to {(there - back).abs().max():.1f} bits")
print(f"from P to Q by way of the middle: D is {(by_way / there).mean():.0%} of the straight way,")
print(f"the root of J {(roots / shannon.sqrt()).mean():.0%}")

assert there.min() > 0
assert torch.allclose(cross_entropy(first, second), cross_entropy(first, first) + there)
assert 0 < shannon.min() < shannon.max() < 1
assert (by_way < there).all()  # D is no distance: a detour is shorter
assert (roots >= shannon.sqrt()).all()  # the root of J is one

# %% [markdown]
# So $D$ is never negative, has a direction and no bound, and is no distance: a detour is shorter.
# $J$ is the same both ways and below one bit, and its root is a distance.
#
# ## The loss
#
# Training knows the right word, and no distribution. So $P$ is all on one word, its entropy is 0,
# and cross entropy and divergence are one and the same: $-\log Q(\mathrm{right\ word})$. Its mean
# is the loss, `batch_loss`, in nats; $e$ to it is the *perplexity*, among how many words the model
# seems to choose. A model that knows nothing chooses among all.

# %%
with torch.no_grad():
    right = first.gather(1, batch.labels[:, None])[:, 0]  # (M,) what the right words get
    nll = (batch_loss(model, batch, 0.0).nll / batch.num_labels).item()
print(f"it knows nothing: {math.log(vocabulary):.2f} nats, perplexity {vocabulary}")
print(f"it is trained:    {nll:.2f} nats, perplexity {math.exp(nll):.2f}")

assert abs(nll + right.log().mean()) < 1e-4
assert math.exp(nll) < 1.11

# %% [markdown]
# ## Label smoothing
#
# To push $-\log Q$ of the right word to 0, its logit must leave all others behind without end.
# Label smoothing (Szegedy et al. 2016) asks for less: a share $\varepsilon$ of each label goes to
# all $V$ words alike,
#
# $$P_i = (1 - \varepsilon)\,[i = \mathrm{right}] + \frac{\varepsilon}{V}.$$
#
# The loss is least where $Q = P$. There the gradient is 0, and the right word's logit is ahead of
# the others by $\log(1 + V (1 - \varepsilon) / \varepsilon)$ and no more. The paper has
# $\varepsilon = 0.1$; so has our recipe.

# %%
epsilon = load_recipe("travel").training.label_smoothing
wanted = 1 - epsilon + epsilon / vocabulary
gap = math.log(1 + vocabulary * (1 - epsilon) / epsilon)
grads = torch.zeros(1, vocabulary, dtype=torch.float64)
grads[0, 7] = gap
cross_entropy_and_grad_(grads, torch.tensor([7]), epsilon)  # logits become gradients
print(f"ε = {epsilon}, V = {vocabulary}: the right word should get {wanted:.4f},")
print(f"its logit be {gap:.2f} ahead; gradients there {grads.abs().max():.0e}")

assert epsilon == 0.1  # Vaswani et al. 2017, section 5.4
assert grads.abs().max() < 1e-12

# %% [markdown]
# That is a prophecy: whatever our model has learned, it should not give a right word much more than
# 0.9. Has it come true? Once we measure as the model is used, and once with dropout, as it was
# trained.

# %%
torch.manual_seed(1)
with torch.no_grad():
    model.train()  # dropout on
    one_draw, another = (model.logits(model.training_features(batch).features) for _ in range(2))
    model.eval()
in_training = (
    torch.cat([one_draw, another]).softmax(-1).gather(1, batch.labels.repeat(2)[:, None])[:, 0]
)
print(f"median of what right words get: {right.median():.3f}, with dropout "
      f"{in_training.median():.3f}; asked for {wanted:.3f}")  # fmt: skip

assert abs(in_training.median() - wanted) < 0.01
assert wanted < right.median() < 0.97


# %% tags=["hide-input"] mystnb={"code_prompt_show": "How it is drawn"}
def draw_confidence(theme: str) -> InchFigure:
    """What right words get: a histogram with dropout and one without."""
    figure = InchFigure(6.4, 2.6, theme)
    axes = figure.add_panel(0, 0, 6.4, 2.6)
    axes.spines[["top", "right"]].set_visible(False)
    bins = [0.8 + 0.005 * step for step in range(41)]
    series = [("in training, with dropout", in_training, figure.theme.muted, (0.889, 0.08)),
              ("in use", right, figure.theme.accent, (0.961, 0.12))]  # fmt: skip
    for name, found, colour, place in series:
        counts = torch.histogram(found.double(), torch.tensor(bins, dtype=torch.float64)).hist
        shares = (counts / len(found)).tolist()
        axes.stairs(shares, bins, color=colour, linewidth=1.4)
        axes.stairs(shares, bins, color=colour, alpha=0.25, fill=True)
        side = "right" if colour == figure.theme.muted else "left"
        figure.write(axes, *place, name, 8, color=colour, ha=side)
    axes.axvline(wanted, color=figure.theme.foreground, linewidth=1, linestyle=(0, (3, 2)))
    figure.write(axes, wanted - 0.002, 0.145, "what smoothing asks for", 8, ha="right")
    axes.set(xlim=(0.8, 1.0), ylim=(0, 0.155))
    figure.label_axes(axes, across="probability of the right word", down="share of the words")
    return figure


ThemedFigure(
    draw_confidence,
    alt="Histogram of the probabilities of right words: with dropout they heap up at 0.9, which "
    "label smoothing asks for; without, a little above; none reaches 1",
)

# %% [markdown]
# With dropout, as the loss saw it, the model says 0.9 to a hair. Without, it is surer than it was
# asked to be, because the noise that it had learned to live with is gone. In neither case is it
# ever certain.
#
# A model so modest pays in perplexity. One that always says 0.9 has 1.11, however right it is. In
# the paper smoothing *hurts perplexity, as the model learns to be more unsure, but improves
# accuracy and BLEU*: from 4.67 without to 4.92, and from 25.3 BLEU to 25.8 (Vaswani et al. 2017,
# table 3).
#
# ## What dropout does
#
# Each number becomes 0 with probability $p$, the others are divided by $1 - p$: the mean stays.
# The paper has $p = 0.1$ in the base model, 0.3 in the big one, which are our defaults.

# %%
base, big = TransformerSettings(), TransformerSettings(preset="big")
dropped = Dropout(base.dropout)(torch.ones(100_000))  # a new module is in training mode
print(f"{(dropped == 0).float().mean():.3f} are zeros, the others {dropped.max():.3f}, "
      f"the mean is {dropped.mean():.3f}")  # fmt: skip
same_word = symmetric_kl(one_draw, another, batch.labels).item() / batch.num_labels / math.log(2)
print(f"two draws of the model differ by {same_word:.3f} bits a word")

assert (base.dropout, big.dropout) == (0.1, 0.3)  # the paper, section 5.4 and table 3
assert abs((dropped == 0).float().mean() - 0.1) < 0.01
assert abs(dropped.mean() - 1) < 0.01
assert 0.01 < same_word < 0.2

# %% [markdown]
# One number in ten is missing behind every sub-layer, another one each time, and still the two
# draws nearly agree. That is what dropout has taught: to rely on no number alone. Without it the
# paper's base model has 24.6 BLEU instead of 25.8, and a perplexity of 5.77 instead of 4.92.
#
# ## Teacher forcing
#
# A decoder writes one word after another. In training it does not have to: the reference is known,
# so each position is given the reference up to there, all positions at once, and asked for the
# word that follows.

# %%
jane = collate([[1]], translator.target.encode(["Jane visits Africa in September."]))
fed = translator.target.pieces(jane.decoder_input.ids[0].tolist())
asked = translator.target.pieces(jane.labels.tolist())
for name, row in (("given", fed), ("asked for", asked)):
    print(f"{name:10}", "".join(f"{word.strip('▁'):>11}" for word in row))

assert fed[1:] == asked[:-1]

# %% [markdown]
# > **Where the lectures err.** *The decoder is trained to predict the next word given the context
# > vector and all the previously predicted words.* (It is Bahdanau's sentence.) In training they
# > are not predicted: they are the reference's own, whatever the model would have said.
# > Another of the lectures has it: *given a perfect first part of the translation*.
#
# ## Exposure
#
# So in training every beginning is perfect, and in use the first wrong word leads to where the
# model has never been. How bad is that? We put one wrong word into the reference, the likeliest of
# the wrong ones, and measure what the right words behind it cost.

# %%
given, memory = batch.decoder_input, model.encode(batch.inputs)
assert batch.positions is not None
labels = torch.zeros_like(given.ids).flatten().index_copy(0, batch.positions, batch.labels)
labels = labels.view_as(given.ids)  # (B, T)
at_once = model.logits(model.decode(given, memory).features).detach()  # (B, T, V)
wrong = at_once.scatter(2, labels[..., None], -math.inf)
wrong[..., :4] = -math.inf  # the special tokens
wrong_words = wrong.argmax(-1)  # (B, T)
behind: dict[int, list[Tensor]] = {distance: [] for distance in range(1, 8)}
with torch.no_grad():
    for position in range(1, 6):
        ids = given.ids.clone()
        ids[:, position] = wrong_words[:, position - 1]
        features = model.decode(Padded(ids, given.mask), memory).features
        bits = -model.logits(features).log_softmax(-1) / math.log(2)
        bits = bits.gather(2, labels[..., None])[..., 0]  # (B, T)
        for distance, found in behind.items():
            place = position + distance - 1
            found.append(bits[given.mask[:, place], place])
costs = {distance: torch.cat(found).mean().item() for distance, found in behind.items()}
normal = nll / math.log(2)
print(f"a right word costs {normal:.2f} bits")
print("behind a wrong one:", "  ".join(f"{cost:.2f}" for cost in costs.values()))

assert costs[1] > 10 * normal
assert costs[2] < costs[1] / 3
assert costs[7] < 3 * normal


# %% tags=["hide-input"] mystnb={"code_prompt_show": "How it is drawn"}
def draw_exposure(theme: str) -> InchFigure:
    """What right words cost behind a wrong one."""
    figure = InchFigure(6.4, 2.2, theme)
    axes = figure.add_panel(0, 0, 6.4, 2.2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.bar(list(costs), list(costs.values()), width=0.55, color=figure.theme.accent)
    axes.axhline(normal, color=figure.theme.foreground, linewidth=1, linestyle=(0, (3, 2)))
    figure.write(axes, 7.4, normal + 0.12, "behind right words", 8, ha="right", va="bottom")
    for distance in (1, 2, 3):
        number = f"{costs[distance]:.2f}"
        figure.write(axes, distance, costs[distance] + 0.08, number, 8, ha="center")
    axes.set(xlim=(0.4, 7.5), xticks=list(costs), ylim=(0, 1.12 * costs[1]))
    figure.label_axes(axes, across="words behind the wrong one", down="bits of the right word")
    return figure


ThemedFigure(
    draw_exposure,
    alt="Bits of right words behind a wrong one: several for the first, less than one for the "
    "second, and from the fourth on about as behind right words",
)

# %% [markdown]
# The word behind the mistake suffers, and one word later the model is nearly itself again. It looks
# at the source anew for each word, and the source has not changed. But look closer, at *Elle ne la
# visite pas.*, which is *She does not visit it.*

# %%
not_word = translator.target.encode(["She does not"])[0][-1]
for begun in ("She does", "He does", "She visits"):
    follows = next_word("Elle ne la visite pas.", begun).log_softmax(-1)
    [says] = translator.target.pieces([int(follows.argmax())])
    cost = -follows[not_word].item() / math.log(2)
    print(f"{begun} … {says.strip('▁'):4} and not costs {cost:5.2f} bits")

assert says.strip("▁") == "it"
assert cost > 5

# %% [markdown]
# *He* is wrong, and does no harm. Behind *She visits* the model is not lost, either: *it* is the
# only sensible word there, and *not* would be nonsense. The sentence will be good English, and say
# the contrary. That is what a wrong word does in use: it is not corrected, it is made to fit.
# Training on the model's own words is [refinement](../refinement.md).
#
# ## Warm-up
#
# $$\mathrm{rate} = d^{-1/2} \cdot \min(\mathrm{step}^{-1/2},\ \mathrm{step} \cdot
# \mathrm{warmup}^{-3/2})$$
#
# It rises in a straight line for 4,000 steps and then falls with the root of their number
# (`training/optimizer.py`).

# %%
paper, adam = ScheduleSettings(shape="paper"), OptimizerSettings()
rates = {
    (width, step): learning_rate(step, 1.0, paper, width=width, steps=300_000)
    for width in (512, 1024)
    for step in (1, 1_000, 4_000, 64_000, 100_000)
}
for (width, step), rate in rates.items():
    formula = width**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert abs(rate / formula - 1) < 1e-9
    if width == 512:
        print(f"step {step:7,}: base {rate:.2e}, big {rates[1024, step]:.2e}")

assert paper.warmup == 4000  # the paper, section 5.3
assert (adam.betas, adam.epsilon) == ((0.9, 0.98), 1e-9)
assert abs(rates[512, 4000] - 7.0e-4) < 1e-5
assert abs(rates[512, 4000] / rates[512, 1] - 4000) < 1e-6

# %% [markdown]
# Why slowly at first? Adam divides each gradient by its own typical size. After one step the only
# size it knows is that of this one gradient, so every weight moves by the full rate, whether its
# gradient was large or next to nothing (exercise 2). At step 1 the rate is 4,000 times less than at
# its peak.
#
# ## Residual gradients
#
# A sub-layer in a Transformer computes $x + F(x)$. The lectures write what that does for the
# gradient: $F(x) + x \rightarrow F'(x) + 1$. However small $F'$, the 1 remains: a shortcut.
#
# > **Where the lectures err.** The 1 is there as long as nothing follows. But their sub-layer, and
# > the paper's, is *Add & Norm*: the norm comes behind the sum, divides by its deviation, and with
# > it the 1. Only with the norm inside, $x + F(\mathrm{norm}(x))$, does the 1 pass all layers
# > unharmed. Our travel model is built so (`norm: pre`).
#
# How much of a gradient arrives at the bottom of 24 sub-layers, as in twelve layers of an encoder,
# before any training? Once all of it is counted, once the shortcuts alone, with every $F'$ cut off.


# %%
def arriving(norm: NormPosition | None, *, shortcuts_only: bool = False) -> float:
    """The size of the gradient below 24 feed-forward layers, above which it is 1."""
    torch.manual_seed(2)
    x = bottom = torch.randn(32, 64, requires_grad=True)
    for _ in range(24):
        feed_forward = FeedForward(64, 256, "relu")
        if norm is None:
            x = feed_forward.outer(feed_forward(x))
        else:
            residual = Residual(64, norm, 0.0)
            hidden = feed_forward(residual.pre(x))
            x = residual.post(x, hidden.detach() if shortcuts_only else hidden, feed_forward.outer)
    top = torch.randn_like(x)
    return float(torch.autograd.grad(x, bottom, top)[0].norm() / top.norm())


without, add_norm, norm_inside = arriving(None), arriving("post"), arriving("pre")
post_shortcuts, pre_shortcuts = (arriving(norm, shortcuts_only=True) for norm in ("post", "pre"))
print(f"without residuals {without:.0e}")
print(f"Add & Norm        {add_norm:.2f}, by the shortcuts alone {post_shortcuts:.2f}")
print(f"norm inside       {norm_inside:.2f}, by the shortcuts alone {pre_shortcuts:.2f}")

assert without < 1e-4
assert 0.3 < add_norm < 3
assert post_shortcuts < 0.1
assert abs(pre_shortcuts - 1) < 1e-5

# %% [markdown]
# Without residuals some millionths arrive. With Add & Norm all arrives here, but by way of the
# layers, which make up for what the norm takes; of the shortcuts a few hundredths are left. With
# the norm inside, the shortcuts alone hand on everything.
#
# ## Budgets
#
# The lectures print what it cost: eight P100, 300,000 steps and 3.5 days for the big model, 4.5
# million pairs for German and 36 million for French. The paper adds 100,000 steps and 12 hours for
# the base model, 0.4 and 1.0 seconds a step, and batches of about 25,000 tokens of each language
# (Vaswani et al. 2017, section 5). Ours, by their recipes:

# %%
hours = {"base": 100_000 * 0.4 / 3600, "big": 300_000 * 1.0 / 3600}
print(f"base {hours['base']:.1f} hours, big {hours['big'] / 24:.2f} days")
budgets = {"paper, base": (100_000, 25_000), "paper, big": (300_000, 25_000)}
for name in ("travel", "multi30k", "multi30k-tok"):
    recipe = load_recipe(name).training
    budgets[name] = (recipe.steps, recipe.batch_tokens)
for name, (steps, tokens) in budgets.items():
    millions = steps * tokens / 1e6
    print(f"{name:12} {steps:8,} steps of {tokens:6,} tokens: {millions:7,.1f} million, "
          f"{millions / 2500:.2%} of the base model's")  # fmt: skip

generated = load_recipe("travel").corpus.generated
assert generated is not None
german, french = 4_500_000, 36_000_000  # pairs of the paper
print(f"{german:,} and {french:,} pairs; travel has {generated.train:,}, "
      f"one in {german / generated.train:.0f} and in {french / generated.train:.0f}")  # fmt: skip

assert 11 < hours["base"] < 12
assert round(hours["big"] / 24, 1) == 3.5
assert budgets["travel"][0] * budgets["travel"][1] < 0.002 * 100_000 * 25_000

# %% [markdown]
# What it took, and what came of it, is in [the results](../results.md): `travel` four minutes on
# two cores, the models of Multi30k minutes on a GPU of today.
#
# > **Where the lectures err.** *Over 100x less training loss*: the table beside it is of training
# > *cost*, in floating-point operations (chapter 7 counts them). *Sentences encoded using byte-pair
# > encoding* holds for German; for French the paper had 32,000 word pieces (section 5.1).
#
# ## Exercises
#
# **1.** The paper's vocabulary for German has about 37,000 tokens. With $\varepsilon = 0.1$, what
# is the least loss that any model can have, in nats? And what is the perplexity of that model?

# %% tags=["hide-cell"]
size = 37_000
smoothed = torch.full((size,), 0.1 / size, dtype=torch.float64)
smoothed[0] += 0.9
least = cross_entropy(smoothed, smoothed).item() * math.log(2)
perplexity = 1 / smoothed[0].item()
print(f"the entropy of the label, {least:.2f} nats; the right word gets nearly 0.9: perplexity "
      f"{perplexity:.2f}")  # fmt: skip
assert abs(least - 1.38) < 0.01
assert abs(perplexity - 1.11) < 0.01

# %% [markdown]
# **2.** Adam keeps a mean $m$ of gradients and a mean $v$ of their squares, each divided by what it
# lacks at the beginning, $1 - \beta^t$, and moves a weight by $\mathrm{rate} \cdot \hat m /
# (\sqrt{\hat v} + \epsilon)$. How far is the first step for a gradient of 1, $10^{-6}$, $10^{-9}$?

# %% tags=["hide-cell"]
gradient = torch.tensor([1.0, 1e-6, 1e-9], dtype=torch.float64)
beta1, beta2 = adam.betas
mean, square = (1 - beta1) * gradient / (1 - beta1), (1 - beta2) * gradient**2 / (1 - beta2)
moved = mean / (square.sqrt() + adam.epsilon)  # in units of the rate
print([f"{one:.3f}" for one in moved.tolist()])
assert moved[0] > 0.999
assert moved[1] > 0.99  # a millionth of the gradient, the same way
assert abs(moved[2] - 0.5) < 1e-6  # as small as ε itself

# %% [markdown]
# **3.** At step 1,000 the base model's rate is still rising. When is it the same again? And what
# are $D$ and $J$ of two distributions that have no word in common?

# %% tags=["hide-cell"]
assert abs(rates[512, 1_000] / rates[512, 64_000] - 1) < 1e-9
apart = torch.eye(2)
assert divergence(apart[0], apart[1]) == math.inf
assert jensen_shannon(apart[0], apart[1]) == 1  # a word says which of the two it came from: a bit
print("a quarter of the peak: again at 16 times 4,000 = 64,000 steps; D is infinite, J is one bit")
