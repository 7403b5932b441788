# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 2. The encoder-decoder and its bottleneck
#
# [Chapter 1](ch1_sequences.py) read a sequence and answered with one number. A translation is a
# sequence too, of another length. The answer of 2014: one network reads, another writes, and a
# vector of fixed size is handed over between them. The lectures count the parameters of such a
# model, which translates by characters, and say what is wrong with it. We count them again, and
# then measure how much goes through the vector. It is less than one would think, and the reason is
# not that the vector is small.

# %% tags=["hide-input"] mystnb={"code_prompt_show": "What is imported"}
import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.batching.collate import collate, pad, pad_source
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings
from regard.inspection.plots.figure import InchFigure, ThemedFigure
from regard.inspection.plots.maps import MapView, plot_map
from regard.inspection.recording.recorder import record_attention
from regard.layers.recurrent import RecurrentDecoder
from regard.models.contracts import AnyGenerator
from regard.models.translation.luong import Luong, LuongSettings
from regard.models.translation.rnn import RnnEncoderDecoder, RnnSettings
from regard.text.special_tokens import BOS, SPECIAL_PIECES
from regard.training.loss import batch_loss

# %% [markdown]
# ## 702,030 parameters
#
# The encoder reads the source $x_1 \dots x_S$ and keeps its last state. The decoder begins with it,
# and writes one character after another:
#
# $$h_s = \mathrm{LSTM}(x_s, h_{s-1}), \qquad z_0 = h_S, \quad
# z_t = \mathrm{LSTM}(y_{t-1}, z_{t-1}), \qquad p(y_t) = \mathrm{softmax}(W z_t + b).$$
#
# An LSTM is four linear layers, three gates and what passes them, each of the input and of the
# state before: $4 (F + U + 1) U$ parameters for $F$ inputs and $U$ units. In the lectures there are
# 74 characters to read, 78 to write, and 256 units; a character is a vector with a single 1. In
# `regard` that is `RnnEncoderDecoder` in `models/translation/rnn.py`, with `embedding: 0`.


# %%
def count(module: nn.Module) -> int:
    """The parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


lectures = RnnEncoderDecoder(RnnSettings(width=256, embedding=0), source_size=74, target_size=78)
parts = {"encoder": lectures.encoder, "decoder": lectures.decoder, "output": lectures.output}
for name, part in parts.items():
    print(f"{name:8} {count(part):8,}")
print(f"in all   {count(lectures):8,} parameters, {count(lectures) * 4 / 2**20:.2f} MB")

assert count(lectures.encoder) == 4 * (74 + 256 + 1) * 256 == 338_944  # as the lectures print
assert count(lectures.decoder) == 4 * (78 + 256 + 1) * 256 == 343_040
assert count(lectures.output) == (256 + 1) * 78 == 20_046
assert count(lectures) == 702_030
assert round(count(lectures) * 4 / 2**20, 2) == 2.68

# %% [markdown]
# > **Where the lectures err.** Beside this table they write $p(y_t \mid y_1 \dots y_{t-1}, c) =
# > g(y_{t-1}, s_t, c)$: the context $c$ is there at every step. That is another model (Cho et al.
# > 2014). In the one that they count, the decoder meets the context once, as its first state. Their
# > own number tells: a decoder that reads 78 characters *and* 256 numbers of context at each step
# > would have 605,184 parameters.

# %%
with_context = RecurrentDecoder("lstm", 78 + 256, 256)
print(f"a decoder with the context at every step: {count(with_context):,}")
assert count(with_context) == 605_184

# %% [markdown]
# ## What is handed over
#
# The lectures speak of *the final hidden state*, and of *a vector*. For an LSTM it is two, $h$ and
# $c$: 512 numbers. They are all that the decoder gets, of three characters or of three hundred. The
# states before are thrown away.

# %%
short, long = [4, 5, 6], [4, 5, 6] * 100  # ids of characters
with torch.no_grad():
    memories = [lectures.encode(pad_source([text])) for text in (short, long)]
    target, memory = pad([short], first=BOS), memories[1]
    written = lectures.decode(target, memory).features
    noise = replace(memory, states=torch.randn_like(memory.states))
    assert torch.equal(lectures.decode(target, noise).features, written)  # others are not used
for memory in memories:
    handed = " + ".join(str(state.shape[1]) for state in memory.extras)
    print(f"{memory.states.shape[1]:3} states were computed, {handed} numbers are handed over")
    assert [state.shape for state in memory.extras] == [(1, 256), (1, 256)]

# %% [markdown]
# Is that few? In single precision 512 numbers are 16,384 bits, and a character out of 74 is 6.2
# bits. There would be room for a book page.

# %%
each = math.log2(74)
room = 512 * 32 / each
print(f"{512 * 32:,} bits, {each:.1f} a character: room for {room:,.0f} characters")
assert 512 * 32 == 16_384
assert round(each, 1) == 6.2
assert round(room) == 2639

# %% [markdown]
# So is there a bottleneck at all?
#
# ## How many letters go through
#
# We send words through, letter by letter, and ask for the same word: no grammar, no ambiguity,
# only memory. The letters are a to h, drawn at random, 1 to 10 of them: each letter is three bits,
# and none can be guessed from the others. A narrow network and a wide one learn it, for 150 steps
# each. Then they spell words of up to 16 letters, by greedy search.

# %%
LETTERS, LONGEST, STEPS = "abcdefgh", 10, 150
FIRST = len(SPECIAL_PIECES)  # the id of the first letter
SIZE = FIRST + len(LETTERS)


def draw_words(
    number: int, shortest: int, longest: int, generator: torch.Generator
) -> list[list[int]]:
    """Random words as ids of letters."""
    lengths = torch.randint(shortest, longest + 1, (number,), generator=generator).tolist()
    letters = torch.randint(FIRST, SIZE, (number, longest), generator=generator).tolist()
    return [word[:length] for word, length in zip(letters, lengths, strict=True)]


generator = torch.Generator().manual_seed(1)
drawn = [draw_words(48, 1, LONGEST, generator) for _ in range(STEPS)]
batches = [collate(words, words) for words in drawn]  # each word is its own translation


def learn(model: AnyGenerator) -> None:
    """Teach a model to copy words."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03, fused=True)
    for batch in batches:
        optimizer.zero_grad()
        loss = batch_loss(model, batch, smoothing=0).loss / batch.num_labels
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()


def copy_out(model: AnyGenerator, some: list[list[int]]) -> list[tuple[int, ...]]:
    """What a model writes for each word."""
    greedy = DecodingSettings(beam=BeamSettings(size=1))
    found = search_many([SearchMember(model, some)], greedy, budget=8192)
    return [hypotheses[0].tokens for hypotheses in found]


def letters_right(model: AnyGenerator) -> list[float]:
    """How many letters are right, in their places, of words of 1 to 16 letters: the mean."""
    means = []
    for length in range(1, 17):
        some = draw_words(100, length, length, torch.Generator().manual_seed(length))
        pairs = zip(some, copy_out(model, some), strict=True)
        right = [sum(a == b for a, b in zip(*pair, strict=False)) for pair in pairs]
        means.append(sum(right) / len(right))
    return means


def recurrent(width: int) -> RnnEncoderDecoder:
    """A network like that of the lectures, narrower."""
    torch.manual_seed(1)
    return RnnEncoderDecoder(RnnSettings(width=width, embedding=0), SIZE, SIZE)


plain = {width: recurrent(width) for width in (16, 48)}
for model in plain.values():
    learn(model)
right = {f"{width} units": letters_right(model) for width, model in plain.items()}
print("letters right of        ", *(f"{length:4}" for length in range(2, 17, 2)))
for name, means in right.items():
    print(f"{name:24}", *(f"{mean:4.1f}" for mean in means[1::2]))

ends = [means[LONGEST - 1] for means in right.values()]
assert all(means[0] == 1 for means in right.values())  # one letter goes through all of them
assert ends[0] + 1 < ends[1] < 0.7 * LONGEST  # the wider, the more; and far from all
assert all(abs(means[15] - means[7]) < 1.5 for means in right.values())  # twice as long, no more

# %% [markdown]
# There is. Each network lets a few letters through, and hardly more of sixteen than of eight. (They
# seem to gain a little: of the letters that they do not know, one in eight is right by luck.) *The
# longer the sentence, the lower the quality*, say the lectures. And it is not for lack of bits: the
# wide network hands over 96 numbers. What is scarce is not room. It is what so few steps can teach
# two networks about how to pack and to unpack it. Set `STEPS` to 900 and the learning rate to 0.01,
# and more goes through; the curve is flat again, only higher.

# %%
bits = 3 * right["48 units"][LONGEST - 1]
print(f"{2 * 48} numbers, {2 * 48 * 32:,} bits of room, {bits:.0f} bits used")
assert 2 * 48 == 96
assert bits < 0.01 * 96 * 32

# %% [markdown]
# ## The way around
#
# The states that were thrown away know the letters. *Attention allows decoder to look directly at
# source; bypass bottleneck*, say the lectures: at every step, the decoder looks for the state that
# it needs. How is the subject of [chapter 3](ch3_attention.py); here is what it is worth. Luong's
# model with its dot product has fewer parameters than the wide network above, and learns for as
# many steps.

# %%
torch.manual_seed(1)
small = LuongSettings(layers=1, width=40, embedding=16, score="dot", input_feeding=False)
attentive = Luong(small, SIZE, SIZE)
learn(attentive)
right["attention"] = letters_right(attentive)
print(f"{count(attentive):,} parameters, with 48 units and no attention {count(plain[48]):,}")
print("letters right of        ", *(f"{length:4}" for length in range(2, 17, 2)))
print(f"{'with attention':24}", *(f"{mean:4.1f}" for mean in right["attention"][1::2]))

assert count(attentive) < count(plain[48])
assert right["attention"][LONGEST - 1] > 8 > 1.3 * right["48 units"][LONGEST - 1]


# %% tags=["hide-input"] mystnb={"code_prompt_show": "How it is drawn"}
def draw_right(theme: str) -> InchFigure:
    """Letters right by letters sent; all that were sent, as a dashed line."""
    figure = InchFigure(6.4, 3.2, theme)
    axes = figure.add_panel(0, 0, 6.4, 3.2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.axvspan(0, LONGEST, color=figure.theme.border, alpha=0.25, linewidth=0)
    axes.plot([0, 16], [0, 16], "--", color=figure.theme.border, linewidth=1)
    figure.write(axes, 11.6, 11.7, "all", 8, ha="right")
    for name, means in right.items():
        colour = figure.theme.accent if name == "attention" else figure.theme.muted
        axes.plot(range(1, 17), means, "o-", color=colour, linewidth=1.6, markersize=3)
        figure.write(axes, 16.2, means[-1], name, 8, color=colour, va="center")
    figure.write(axes, 0.15, 11.5, "lengths that were learned", 8)
    axes.set(xlim=(0, 16.1), ylim=(0, 12), xticks=range(0, 17, 2))
    figure.label_axes(axes, across="letters of the word", down="letters right")
    return figure


ThemedFigure(
    draw_right,
    alt="Letters right by the length of the word: two curves that become flat, at two letters and "
    "at five; with attention nearly all letters, up to the learned length of ten",
)

# %% [markdown]
# With attention almost every letter arrives, up to the length that was learned. Beyond it, it falls
# short too; [chapter 4](ch4_transformer.py) comes back to that. Real words can be spelled with
# eight letters:

# %%
spelled = ["bed", "head", "cabbage", "headache"]
ids = [[FIRST + LETTERS.index(letter) for letter in word] for word in spelled]
systems: dict[str, AnyGenerator] = {f"{width} units": net for width, net in plain.items()}
answers = {}
for name, system in (systems | {"attention": attentive}).items():
    answers[name] = ["".join(LETTERS[i - FIRST] for i in out) for out in copy_out(system, ids)]
    print(f"{name:10}", *answers[name])
hits = {
    name: sum(out == word for out, word in zip(some, spelled, strict=True))
    for name, some in answers.items()
}
assert hits["attention"] >= 3 > hits["16 units"]

# %%
headache = ids[3]
recorded = record_attention(attentive, pad_source([headache]), pad([headache], first=BOS))
weights = recorded.weights["cross", 0][0, 0]  # (9, 9)
named = (*"headache", SPECIAL_PIECES[3])
headache_map = MapView("cross", weights, torch.zeros(9, 9, dtype=torch.bool), named, named,
                       (), "Each letter as it is written, and where it was read")  # fmt: skip
on_diagonal = float(weights.diagonal()[:8].mean())
print(f"mean weight of a letter's own place: {on_diagonal:.2f}")
assert on_diagonal > 0.3 > 2 / 9
ThemedFigure(
    lambda theme: plot_map(headache_map, theme=theme),
    alt="Attention of the eight letters of headache to themselves: a diagonal",
)

# %% [markdown]
# Nobody told it to look there. That is the picture that made attention famous, at the size of a
# word. At the size of sentences, with nine systems and their translations by the length of the
# source, it is [the ladder](../systems.md#the-ladder-on-travel): there, too, the lines without
# attention fall (ByteNet has none either), and those with it hold better. At full size a translator
# of characters, for dates, is in [the
# results](../results.md#dates-dates-of-some-forty-places-to-iso-8601).
#
# ## What is in the vector
#
# > **Where the lectures err.** *All output predictions are based on the final and static recurrent
# > state of the encoder. No matter the output word being predicted at each time step, all input
# > words are considered in an equal way.* The first sentence is right. The second is not: the state
# > is the same for every output, but the inputs have no equal part in it.
#
# Exchange one letter of ten, and see how far the state moves. Before training the last letters
# count most, since each step forgets a little. Training turns it round: to write the first letter
# first, that one must be held the longest, and the network learns to hold it.


# %%
@torch.no_grad()
def moved(model: RnnEncoderDecoder) -> list[float]:
    """How far the last state of the encoder moves with each of ten letters: the mean."""
    some = torch.tensor(draw_words(200, LONGEST, LONGEST, torch.Generator().manual_seed(1)))
    before, distances = model.encode(pad_source(some.tolist())).extras, []
    for place in range(LONGEST):
        other = some.clone()
        other[:, place] = FIRST + (other[:, place] - FIRST + 1) % len(LETTERS)
        after = model.encode(pad_source(other.tolist())).extras
        steps: list[Tensor] = [new - old for new, old in zip(after, before, strict=True)]
        distances.append(float(torch.cat(steps, dim=-1).norm(dim=-1).mean()))
    return distances


untrained, trained = moved(recurrent(48)), moved(plain[48])
print("letter      ", *(f"{place:5}" for place in range(1, LONGEST + 1)))
print("untrained   ", *(f"{distance:5.2f}" for distance in untrained))
print("trained     ", *(f"{distance:5.2f}" for distance in trained))

assert untrained == sorted(untrained)  # the later, the more
assert untrained[-1] > 1.5 * untrained[0]
assert trained[0] > 1.5 * trained[-1]  # and now the first counts most


# %% tags=["hide-input"] mystnb={"code_prompt_show": "How it is drawn"}
def draw_moved(theme: str) -> InchFigure:
    """How far the state moves with each letter, before and after training."""
    figure = InchFigure(6.4, 2.2, theme)
    panels = (("before training", untrained), ("after training", trained))
    for number, (name, distances) in enumerate(panels):
        axes = figure.add_panel(3.35 * number, 0.3, 3.05, 1.9)
        axes.spines[["top", "right"]].set_visible(False)
        colour = figure.theme.accent if number else figure.theme.muted
        axes.bar(range(1, LONGEST + 1), distances, color=colour, width=0.7)
        axes.set(xticks=range(1, LONGEST + 1))
        figure.label_axes(axes, across="letter", down="" if number else "how far the state moves")
        figure.write(axes, 0.5, max(distances) * 1.1, name, 9, color=figure.theme.foreground)
    return figure


ThemedFigure(
    draw_moved,
    alt="How far the state moves with each of ten letters: before training most with the last, "
    "after training most with the first",
)

# %% [markdown]
# ## Exercises
#
# **1.** How many parameters would the lectures' encoder have with a GRU, which is three linear
# layers? And their decoder with 512 units, if the characters were embedded in 32 numbers first?

# %% tags=["hide-cell"]
gru = RnnEncoderDecoder(RnnSettings(cell="gru", width=256, embedding=0), 74, 78)
embedded = RnnEncoderDecoder(RnnSettings(width=512, embedding=32), 74, 78)
print(f"{count(gru.encoder):,} and {count(embedded.decoder):,}, and 78 × 32 of embeddings")
assert count(gru.encoder) == 3 * (74 + 256 + 1) * 256 == 254_208
assert count(embedded.decoder) == 4 * (32 + 512 + 1) * 512 == 1_116_160
assert count(embedded.target) == 78 * 32

# %% [markdown]
# **2.** Sutskever et al. (2014) read the source backward: *headache* as *ehcadaeh*. On average each
# letter is as far from its copy as before. Why should it help to learn? Look at a network that has
# learned nothing yet.

# %% tags=["hide-cell"]
places = range(1, LONGEST + 1)
forward_way = [LONGEST + place - place for place in places]  # read at `place`, written at `place`
backward_way = [LONGEST + place - (LONGEST + 1 - place) for place in places]
torch.manual_seed(1)
backward = RnnEncoderDecoder(RnnSettings(width=48, embedding=0, reading="backward"), SIZE, SIZE)
moved_backward = moved(backward)
print("steps from a letter to its copy:", *forward_way)
print("              if read backward:", *backward_way)
print("the state moves by              ", *(f"{distance:.2f}" for distance in moved_backward))
print("what must be written first is now what the state holds best: there is a place to begin")
assert sum(forward_way) == sum(backward_way)
assert min(backward_way) == 1
assert moved_backward == sorted(moved_backward, reverse=True)

# %% [markdown]
# **3.** Nothing but the first state of the decoder depends on the source. What does the network of
# 48 units write if it is handed zeros instead of the encoder's state? Does it depend on the word?

# %% tags=["hide-cell"]
with torch.no_grad():
    memory = plain[48].encode(pad_source([ids[1], ids[3][:4]]))  # head, head(ache)
    empty = replace(memory, extras=tuple(torch.zeros_like(state) for state in memory.extras))
    logits, _ = plain[48].step(torch.full((2, 1), BOS), plain[48].start(empty))
first = logits.softmax(-1)[:, 0, FIRST:]
print("probabilities of a to h:", *(f"{share:.2f}" for share in first[0].tolist()))
assert torch.equal(first[0], first[1])  # whatever the word was
