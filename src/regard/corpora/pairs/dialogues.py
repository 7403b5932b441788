"""Dialogues -> pairs of a history and an answer, split by dialogue.

A history is one text: each turn after the token of its speaker, the newest last. `<user>` spoke
last, and `<assistant>` answers.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from regard.corpora.corpus import Corpus, Pair, SplitName
from regard.corpora.dedup import hash_exact_pairs, hash_texts
from regard.corpora.readers.dialogue_files import Dialogue
from regard.corpora.splits import HELD_OUT, MAX_HELD_OUT_SHARE, SplitSettings, punctuationless_key
from regard.errors import CorpusError
from regard.settings import Settings

USER, ASSISTANT = "<user>", "<assistant>"
SPEAKERS = (USER, ASSISTANT)
PRIOR_SEED = 11  # decides which answers are also learned without a history
LONG_TURN = 6  # words; dialogues that share a turn this long are parts of the same one

_SPEAKER = re.compile("|".join(SPEAKERS))
_SEPARATOR = re.compile(r"[\t\r\n]+")

ReadDialogues = Callable[[], Iterator[Dialogue]]  # a call starts reading at the first


class DialogueSettings(Settings):
    """Which turns of a dialogue are learned, and how much of its history is read."""

    max_turns: PositiveInt | None = None
    """The most turns of a history; the newest are kept. null keeps all."""
    history_tokens: NonNegativeInt = 128
    """The most tokens of a history; the newest are kept. 0 keeps none, so that the decoder learns
    to answer without a history."""
    learn_turns: bool = True
    """Whether each turn of a history is learned too, as the answer to the turns before it, in
    training lines with `answers`. In lines without `answers`, turns are always learned."""
    prior: float = Field(default=0.1, ge=0, le=1)
    """Share of the training answers that are also learned without their history: the model then
    knows how likely an answer is regardless of the history, as `decoding.reranking` needs."""


def format_history(turns: Sequence[str], max_turns: int | None = None) -> str:
    """The history of turns by alternating speakers; the last turn is the user's."""
    newest = turns[-max_turns:] if max_turns else turns
    speakers = cycle(SPEAKERS)
    marked = [f"{next(speakers)} {clean_turn(turn)}" for turn in reversed(newest)]
    return " ".join(reversed(marked))


def clean_turn(text: str) -> str:
    """A turn in the form it has in a history: single spaces, and no speaker tokens."""
    return " ".join(_SPEAKER.sub(lambda found: found[0][1:-1], text).split())


def parse_history(text: str) -> list[str]:
    """The turns of a history: after speaker tokens, or separated by line breaks or tabs."""
    parts = _SPEAKER.split(text) if text.lstrip().startswith(SPEAKERS) else _SEPARATOR.split(text)
    return [part.strip() for part in parts if part.strip()]


def dialogue_pairs(
    dialogues: Iterable[Dialogue], settings: DialogueSettings, *, training: bool
) -> Iterator[Pair]:
    """The pairs of each dialogue: for training also those of `learn_turns` and `prior`."""
    for turns, answers, _ in dialogues:
        histories = [(turns, answer) for answer in answers]
        if not answers or (training and settings.learn_turns):
            histories += [(turns[:place], turns[place]) for place in range(1, len(turns))]
        pairs = [
            Pair(format_history(history, settings.max_turns), clean_turn(answer))
            for history, answer in histories
        ]
        yield from pairs
        if training and settings.prior:
            drawn = hash_exact_pairs(pairs, seed=PRIOR_SEED) / 2.0**64  # from 0 to 1
            yield from (
                Pair("", pairs[place].target) for place in np.flatnonzero(drawn < settings.prior)
            )


def dialogue_corpus(
    name: str,
    language: str,
    files: Mapping[SplitName, ReadDialogues],
    settings: DialogueSettings,
    split: SplitSettings,
) -> Corpus:
    """The corpus of dialogues in one language; see `split_dialogues`."""
    splits = split_dialogues(name, files, split)
    return Corpus(
        name,
        (language, language),
        {
            each: partial(_read_pairs, read, settings, training=each == "train")
            for each, read in splits.items()
        },
    )


def _read_pairs(
    read: ReadDialogues, settings: DialogueSettings, *, training: bool
) -> Iterator[Pair]:
    return dialogue_pairs(read(), settings, training=training)


def split_dialogues(
    name: str, files: Mapping[SplitName, ReadDialogues], settings: SplitSettings
) -> dict[SplitName, ReadDialogues]:
    """The dialogues of each split; splits that are missing in `files` are held out of train.

    Dialogues are chosen by a hash of the seed and the dialogue's id, or its text if it has no id,
    until they have as many pairs as asked for, at most a tenth of all. A dialogue that shares a
    turn of six words or more (ignoring punctuation) with the test split is in no other split, and
    one that shares such a turn with the validation split is not trained on: it may belong to the
    same conversation.
    """
    sizes = dict(zip(HELD_OUT, (settings.valid, settings.test), strict=True))
    missing = {each: size for each, size in sizes.items() if size and each not in files}
    chosen = _choose_dialogues(name, files["train"], missing, settings.seed) if missing else {}
    select = partial(_by_key, files["train"], settings.seed)
    splits: dict[SplitName, ReadDialogues] = {}
    seen: frozenset[str] = frozenset()
    for each in reversed(HELD_OUT):
        if each in chosen or each in files:
            own = partial(select, chosen.get(each, frozenset()), chosen=True)
            read = files.get(each, own)
            splits[each] = partial(_without_turns, read, seen)
            seen |= {turn for dialogue in splits[each]() for turn in _long_turns(dialogue)}
    held_out: frozenset[int] = frozenset().union(*chosen.values())
    rest = partial(select, held_out, chosen=False)
    splits["train"] = partial(_without_turns, rest, seen)
    return splits


def _choose_dialogues(
    name: str, read: ReadDialogues, sizes: Mapping[SplitName, int], seed: int
) -> dict[SplitName, frozenset[int]]:
    """The keys of the dialogues of each split: the smallest, until they have enough pairs."""
    pairs: Counter[int] = Counter()
    for dialogue in read():
        pairs[_key(dialogue, seed)] += len(dialogue.answers) or len(dialogue.turns) - 1
    limit, keys = pairs.total() * MAX_HELD_OUT_SHARE, sorted(pairs)
    chosen, first = {}, 0
    for each, size in sizes.items():
        sums = np.cumsum([pairs[key] for key in keys[first:]])
        last = first + 1 + int(np.searchsorted(sums, min(size, limit)))
        if last >= len(keys):
            raise CorpusError(
                f"{name}: {len(keys):,} dialogues are too few to hold any out for {each}; give it "
                "a separate file of dialogues, or give more dialogues"
            )
        chosen[each], first = frozenset(keys[first:last]), last
    return chosen


def _key(dialogue: Dialogue, seed: int) -> int:
    """A hash that all lines of one dialogue share."""
    text = dialogue.id or "\n".join(map(punctuationless_key, dialogue.turns))
    return int(hash_texts([text], seed=seed)[0])


def _by_key(
    read: ReadDialogues, seed: int, keys: frozenset[int], *, chosen: bool
) -> Iterator[Dialogue]:
    """The dialogues whose keys are among `keys`, or those whose keys are not."""
    return (one for one in read() if (_key(one, seed) in keys) == chosen)


def _without_turns(read: ReadDialogues, turns: frozenset[str]) -> Iterator[Dialogue]:
    """The dialogues that have none of these long turns."""
    return (one for one in read() if turns.isdisjoint(_long_turns(one)))


def _long_turns(dialogue: Dialogue) -> Iterator[str]:
    keys = map(punctuationless_key, dialogue.turns)
    return (key for key in keys if len(key.split()) >= LONG_TURN)
