"""The numbers of an examination -> what they mean for training, and what to do about it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from regard.corpora.cleaning.pair_filters import CleaningReport, Reason
from regard.corpora.corpus import SplitName
from regard.corpora.diagnostics.corpus_report import CorpusReport, SplitReport
from regard.corpora.diagnostics.misalignment import MIN_WINDOW_CORRELATION, MisalignedLines
from regard.corpora.diagnostics.split_overlap import SIDES, Leak
from regard.corpora.diagnostics.surface_checks import CheckCount
from regard.corpora.splits import HELD_OUT

Level = Literal["ok", "note", "warning", "problem"]

FEW_PAIRS, TOO_FEW_PAIRS, FEW_HELD_OUT = 10_000, 1_000, 200
MANY_DROPPED = 0.2
"""Share of the pairs."""
MIN_LENGTH_CORRELATION = 0.5
"""Correlation of lengths below which translations are unusually free."""
MIN_NUMBER_PAIRS, MAX_UNLIKE_NUMBERS, NUMERIC_CORPUS_SHARE = 30, 0.25, 0.9
"""Pairs with numbers from which they are judged, and the share that may disagree. Where almost all
have them, as in a corpus of dates, to write them otherwise may be what is learned."""
MANY_LEAKED = 0.1
"""Share of a held-out split."""
NEW_WORDS, MANY_NEW_WORDS, MANY_NEW_CHARACTERS = 0.05, 0.2, 0.001
"""Shares of running words and characters."""
MIN_JUDGED_LINES = 20
"""Lines from which a share of them is judged."""
MAJORITY_SHARE = 0.5
"""Share of the lines from which a sign is taken as how a text is written."""
SHOWN_STRETCHES = 5


class Finding(NamedTuple):
    """One thing that a person should know: what was found, and what to do."""

    level: Level
    text: str


def interpret_report(found: CorpusReport) -> list[Finding]:
    """What an examination means, topic by topic."""
    judges = (_sizes, _cleaning, _alignment, _leaks, _coverage, _damage, _style)
    return [finding for part in judges for finding in part(found)]


def _sizes(found: CorpusReport) -> Iterator[Finding]:
    for split, report in found.splits.items():
        if report.read_error:
            yield Finding("problem", f"{split} cannot be read to its end: {report.read_error}.")
    train = found.splits.get("train")
    if train is None or not train.pairs:
        yield Finding("problem", "There are no training pairs.")
        return
    if train.pairs < FEW_PAIRS:
        level: Level = "warning" if train.pairs < TOO_FEW_PAIRS else "note"
        yield Finding(
            level,
            f"train: {train.pairs:,} pairs are few to learn a language from: some ten thousand are "
            "a start. Expect good answers only to sentences much like these.",
        )
    if found.split_error:
        yield Finding("problem", f"No pairs can be held out: {found.split_error}.")
    if found.cut:
        counts = _listed([f"{count:,} pairs for {split}" for split, count in found.cut.items()])
        yield Finding("note", f"Training holds out {counts}: corpus.split sets how many.")
    for note in found.notes:
        yield Finding("note", f"{note}.")
    yield from _files(found)
    for split, report in found.splits.items():
        if split != "train" and report.pairs < FEW_HELD_OUT:
            yield Finding(
                "note",
                f"{split}: scores on {report.pairs:,} pairs vary a lot by chance; 1,000 and more "
                "tell models apart.",
            )


def _files(found: CorpusReport) -> Iterator[Finding]:
    if len(found.file_starts) > 1:
        listed = _listed(
            [f"{name} from line {first + 1:,} on" for name, first in found.file_starts]
        )
        yield Finding("note", f"train is read from several files, line after line: {listed}.")


_ADVICE: dict[Reason, str] = {
    "empty": "Look for lines that were lost on one side.",
    "control characters": "Look for a conversion that went wrong.",
    "too many words": "Cut documents into sentences, or raise corpus.cleaning.max_words.",
    "too many characters": "Cut documents into sentences, or raise corpus.cleaning.max_characters.",
    "lengths too unlike": "Look at some: where this is how the languages are, raise "
    "corpus.cleaning.max_ratio; otherwise the sides do not belong together.",
    "source equals target": "Look for text that was never translated.",
    "wrong script": "Are the languages right, and in the order of the columns or files?",
    "wrong language": "Are the languages right, and in the order of the columns or files?",
    "duplicate": "They would teach nothing new.",
    "in valid or test": "Where there are few different targets, corpus.cleaning.leaks=source keeps "
    "the pairs that share a target alone.",
}


def advise_dropped(report: CleaningReport) -> str | None:
    """How much cleaning has dropped, why, and what to set, where that is much; None: it is not."""
    rows = sorted(report.rows(), key=lambda row: -row.num_pairs)
    dropped = sum(row.num_pairs for row in rows)
    if dropped < MANY_DROPPED * max(1, report.total):
        return None
    why = _listed([f"{row.num_pairs:,} as {row.reason!r}" for row in rows])
    return (
        f"cleaning has dropped {dropped:,} of {report.total:,} pairs "
        f"({_percent(dropped / report.total)}), {why}. {_ADVICE[rows[0].reason]}"
    )


def _cleaning(found: CorpusReport) -> Iterator[Finding]:
    for split, report in found.splits.items():
        rows, total = report.cleaning.rows(), max(1, report.pairs)
        dropped = sum(row.num_pairs for row in rows)
        if not dropped:
            if split == "train" and report.pairs:
                yield Finding("ok", f"train: cleaning keeps all of its {report.pairs:,} pairs.")
            continue
        rows.sort(key=lambda row: -row.num_pairs)
        what = f"{dropped:,} of {report.pairs:,} pairs ({_percent(dropped / total)})"
        why = _listed([f"{row.num_pairs:,} as {row.reason!r}" for row in rows])
        advice = _ADVICE[rows[0].reason]
        level: Level = "warning" if dropped >= MANY_DROPPED * total else "note"
        if split == "train":
            level = "problem" if dropped == report.pairs else level
            yield Finding(level, f"train: cleaning drops {what}, {why}. {advice}")
        else:
            yield Finding(
                level,
                f"{split}: cleaning would drop {what}, {why}, but leaves {split} as it is: scores "
                f"should not depend on what we find clean. {advice}",
            )


def _alignment(found: CorpusReport) -> Iterator[Finding]:
    aligned = {
        split: report.alignment.correlation
        for split, report in found.splits.items()
        if not report.alignment.stretches
        and (report.alignment.correlation or 0) >= MIN_LENGTH_CORRELATION
    }
    if aligned:
        listed = _listed([f"{value:.2f} in {split}" for split, value in aligned.items()])
        yield Finding(
            "ok", f"The two sides belong together, line by line: lengths correlate at {listed}."
        )
    for split, report in found.splits.items():
        yield from _split_alignment(split, report, found.languages)
    undecided = [
        split
        for split, report in found.splits.items()
        if report.pairs and not report.alignment.stretches and report.alignment.correlation is None
    ]
    if undecided:
        yield Finding(
            "note",
            f"{_listed(undecided)}: lengths vary too little, or in too few pairs, to tell whether "
            "the "
            "sides belong together.",
        )


def _split_alignment(
    split: SplitName, report: SplitReport, languages: tuple[str, str]
) -> Iterator[Finding]:
    alignment = report.alignment
    shifted = [one for one in alignment.stretches if one.shift is not None]
    unrelated = [one for one in alignment.stretches if one.shift is None]
    for stretch in shifted[:SHOWN_STRETCHES]:
        yield Finding("problem", f"{split}: {_shifted(stretch)}")
    if len(shifted) > SHOWN_STRETCHES:
        more = len(shifted) - SHOWN_STRETCHES
        yield Finding("problem", f"{split}: and {more} more such stretches.")
    if unrelated:
        one_language = languages[0] == languages[1] != "und"
        yield Finding(
            "warning" if one_language else "problem", f"{split}: {_unrelated(unrelated, report)}"
        )
    elif not shifted and (alignment.correlation or MIN_LENGTH_CORRELATION) < MIN_LENGTH_CORRELATION:
        yield _low_correlation(split, alignment.correlation or 0.0)
    unlike = alignment.numbers_unlike / max(1, alignment.with_numbers)
    some = MIN_NUMBER_PAIRS <= alignment.with_numbers < NUMERIC_CORPUS_SHARE * report.pairs
    if some and unlike > MAX_UNLIKE_NUMBERS:
        yield Finding(
            "warning",
            f"{split}: where both sides hold numbers, {_percent(unlike)} of "
            f"{alignment.with_numbers:,} pairs hold unlike ones. Look at some: they may be "
            "misaligned, or freely translated.",
        )


def _shifted(stretch: MisalignedLines) -> str:
    assert stretch.shift is not None
    lines = _count(abs(stretch.shift), "line")
    way, more, fewer = (
        ("down", "target", "source") if stretch.shift > 0 else ("up", "source", "target")
    )
    return (
        f"lines {stretch.first:,} to {stretch.last:,} look shifted by {stretch.shift:+d}: a source "
        f"line belongs to the target {lines} further {way}. Near line {stretch.first:,} the "
        f"{more} has {lines} too many or the {fewer} too few: compare them there and mend the file."
    )


def _unrelated(stretches: list[MisalignedLines], report: SplitReport) -> str:
    lines = sum(one.last - one.first + 1 for one in stretches)
    shown = _listed([f"{one.first:,} to {one.last:,}" for one in stretches[:SHOWN_STRETCHES]])
    where = "all lines" if lines == report.pairs else f"lines {shown}"
    return (
        f"{where} look unrelated: lengths and words of the two sides agree no better than by "
        "chance. Look for lines lost or shuffled on one side. Only where a target need not be as "
        "long as its source, as in a dialogue, is that right."
    )


def _low_correlation(split: SplitName, correlation: float) -> Finding:
    return Finding(
        "warning" if correlation < MIN_WINDOW_CORRELATION else "note",
        f"{split}: the lengths of the two sides correlate at {correlation:.2f}, which is low for "
        "translations. Look at some pairs.",
    )


def _leaks(found: CorpusReport) -> Iterator[Finding]:
    leaking = [leak for leak in found.overlap.leaks if leak.sources or leak.targets]
    for leak in leaking:
        counts = {"source": leak.sources, "target": leak.targets, "whole pair": leak.pairs}
        shared = [_count(number, noun) for noun, number in counts.items() if number]
        much = max(leak.sources, leak.pairs) >= MANY_LEAKED * leak.total
        yield Finding(
            "warning" if much else "note",
            f"{leak.split} shares {_listed(shared)} of its {leak.total:,} pairs with "
            f"{leak.within}.{_leak_advice(leak, much)}",
        )
    for near in found.near_leaks:
        if near.sources:
            yield Finding(
                "warning" if near.sources >= MANY_LEAKED * near.total else "note",
                f"{near.split}: {_count(near.sources, 'more source')} of {near.total:,} "
                f"{'is' if near.sources == 1 else 'are'} in train but for punctuation, such as "
                f"{near.example!r}. corpus.cleaning.leaks_ignore=punctuation leaves such pairs out "
                "of training.",
            )
    if found.overlap.leaking_pairs:
        yield _dropped_leaks(found.overlap.leaking_pairs, found.splits["train"].pairs)
    elif found.overlap.leaks:
        yield Finding("ok", "No sentence of a held-out split is in train.")


def _leak_advice(leak: Leak, much: bool) -> str:
    if leak.within == "valid" and leak.sources:
        return " Weights would be chosen by what they are tested on: remove it from one of them."
    if much:
        return " That is much: was the corpus split before its duplicates were removed?"
    return ""


def _dropped_leaks(pairs: int, total: int) -> Finding:
    share = pairs / max(1, total)
    text = (
        f"Training leaves out {_count(pairs, 'pair')} ({_percent(share)}) for sharing a held-out "
        "sentence, in any case and spacing."
    )
    if share < MANY_LEAKED:
        return Finding("note", text)
    return Finding(
        "warning",
        f"{text} That is much. Where there are few different targets, "
        "corpus.cleaning.leaks=source keeps the pairs that share a target alone.",
    )


def _coverage(found: CorpusReport) -> Iterator[Finding]:
    worded = [one for one in found.overlap.coverage if one.words]
    worst = max((one.new_words / one.words for one in worded), default=0.0)
    if worst > NEW_WORDS:
        listed = _listed(
            [
                f"{one.split} {one.side} {_percent(one.new_words / one.words)} "
                f"({', '.join(one.word_examples[:3])})"
                for one in worded
                if one.new_words > NEW_WORDS * one.words
            ]
        )
        advice = (
            "Is it of another domain, or written otherwise?"
            if worst > MANY_NEW_WORDS
            else "Subwords can spell them; a vocabulary of words cannot."
        )
        yield Finding(
            "warning" if worst > MANY_NEW_WORDS else "note",
            f"Running words that never occur in train: {listed}. {advice}",
        )
    elif worded:
        new = f"at most {_percent(worst)} of them are new" if worst else "none of them is new"
        yield Finding("ok", f"Train covers the words of the held-out splits: {new}.")
    odd = [one for one in found.overlap.coverage if one.new_characters]
    if odd:
        share = max(one.new_characters / one.characters for one in odd)
        listed = _listed(
            [
                f"{' '.join(one.character_examples)} in {one.split} {one.side} "
                f"({one.new_characters:,} in all)"
                for one in odd
            ]
        )
        yield Finding(
            "warning" if share > MANY_NEW_CHARACTERS else "note",
            f"Characters that never occur in train: {listed}. Subwords spell them as bytes; words "
            "and characters, as vocabularies, cannot.",
        )


class _DamageRule(NamedTuple):
    """What a sign of damage is called, and from which shares it is a note, warning, problem."""

    noun: str
    shares: tuple[float, float, float]
    advice: str


_DAMAGE_RULES = {
    "escapes": _DamageRule(
        "hold escapes such as &apos; or &#39;",
        (0, 0.01, 1),
        "Unescape all splits alike, or translations will hold them too.",
    ),
    "tags": _DamageRule(
        "hold tags such as <b>", (0, 0.05, 1), "Remove them, unless they are to be translated."
    ),
    "subwords": _DamageRule(
        "were cut into subwords or by Moses (@@, ▁, @-@)",
        (0.001, 0.01, 0.1),
        "Join them again: the tokenizer cuts words itself.",
    ),
    "garbled": _DamageRule(
        "are garbled, such as Ã© for é",
        (0, 0.001, 0.01),
        "The file was UTF-8, taken for Latin-1 and saved again; turn it back: "
        "iconv -f UTF-8 -t LATIN1, or -t WINDOWS-1252.",
    ),
    "odd spaces": _DamageRule(
        "hold no-break spaces (U+00A0, U+202F) between words",
        (0.001, 0.01, 1),
        "A model takes them for letters: make them plain spaces in all splits.",
    ),
    "invisible": _DamageRule(
        "hold invisible characters (of no width, soft hyphens, direction marks)",
        (0, 0.005, 1),
        "Remove them in all splits: words that look alike are unlike to a model.",
    ),
}


def _damage(found: CorpusReport) -> Iterator[Finding]:
    """Damage: any line that shows it is one too many."""
    for sign, damage in _DAMAGE_RULES.items():
        shown = [(where, one) for where, one in _shown(found, sign) if one.showing]
        worst = max((one.share for _, one in shown), default=0.0)
        reached = [limit for limit in damage.shares if worst > limit]
        if not reached:
            continue
        levels: tuple[Level, Level, Level] = ("note", "warning", "problem")
        listed = ", ".join(
            f"{where} {one.showing:,} ({_percent(one.share)})" for where, one in shown
        )
        yield Finding(
            levels[len(reached) - 1],
            f"Some lines {damage.noun}: {listed}. {damage.advice}",
        )


class _StyleRule(NamedTuple):
    """A way to write text, which should be the same in all splits."""

    adjective: str
    advice: str
    level: Level
    """How bad it is when a split differs from train."""
    between_sides: bool
    """Whether it is odd for the sides of a corpus to differ in it."""


_STYLE_RULES = {
    "tokenised": _StyleRule(
        "tokenised already (spaces before full stops and commas)",
        "Translations will be written so too, and scores are not those of plain text.",
        "problem",
        True,
    ),
    "lowercase": _StyleRule(
        "in lower case", "Translations will be in lower case too.", "problem", True
    ),
    "curly": _StyleRule("with curly apostrophes (’)", "", "warning", False),
}


def _style(found: CorpusReport) -> Iterator[Finding]:
    """Ways to write that differ between splits, or between the sides of train."""
    for sign, style in _STYLE_RULES.items():
        shown = {where: one for where, one in _shown(found, sign) if one.lines >= MIN_JUDGED_LINES}
        yield from _between_splits(shown, style)
        if style.between_sides:
            yield from _between_sides(shown, style)


def _between_splits(shown: dict[str, CheckCount], style: _StyleRule) -> Iterator[Finding]:
    listed = []
    for side in SIDES:
        train = shown.get(f"train {side}")
        for split in HELD_OUT:
            other = shown.get(f"{split} {side}")
            if train and other and abs(train.share - other.share) > MAJORITY_SHARE:
                shares = f"{_percent(other.share)} of {split} {side}"
                listed.append(f"{shares} (of train {side} {_percent(train.share)})")
    if listed:
        yield Finding(
            style.level,
            f"Splits are written unlike: {style.adjective} are {_listed(listed)}. A model does "
            "badly "
            "on text written otherwise than what it learned from: prepare all alike.",
        )


def _between_sides(shown: dict[str, CheckCount], style: _StyleRule) -> Iterator[Finding]:
    train = {side: shown[f"train {side}"].share for side in SIDES if f"train {side}" in shown}
    showing = [side for side, share in train.items() if share > MAJORITY_SHARE]
    if len(train) == len(SIDES) == len(showing):
        yield Finding("note", f"Train is {style.adjective} on both sides. {style.advice}")
    elif len(train) == len(SIDES) and showing:
        listed = _listed([f"{_percent(share)} of the {side}" for side, share in train.items()])
        yield Finding(
            "warning",
            f"The sides of train are written unlike: {style.adjective} are {listed}. Prepare both "
            "alike, unless that is meant.",
        )


def _shown(found: CorpusReport, sign: str) -> Iterable[tuple[str, CheckCount]]:
    for split, report in found.splits.items():
        yield f"{split} source", report.source.surface[sign]
        yield f"{split} target", report.target.surface[sign]


def _percent(share: float) -> str:
    return "under 0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _listed(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
