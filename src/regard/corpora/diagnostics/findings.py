"""The numbers of a corpus report -> what they mean for training, and what to do about it."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from regard.corpora.cleaning.pair_filters import CleaningReport, Reason
from regard.corpora.corpus import SplitName
from regard.corpora.diagnostics.corpus_report import CorpusReport, SplitReport
from regard.corpora.diagnostics.misalignment import MIN_WINDOW_CORRELATION, MisalignedLines
from regard.corpora.diagnostics.pair_noise import NoiseRate
from regard.corpora.diagnostics.split_overlap import SIDES, Leak
from regard.corpora.diagnostics.surface_checks import CheckCount
from regard.corpora.splits import HELD_OUT
from regard.settings import counted

Level = Literal["ok", "note", "warning", "problem"]

FEW_PAIRS, TOO_FEW_PAIRS, FEW_HELD_OUT = 10_000, 1_000, 200
MANY_DROPPED, MANY_LEAKED = 0.2, 0.1  # shares of all pairs, and of those held out
MIN_LENGTH_CORRELATION = 0.5  # below it, translations are unusually free
MIN_NUMBER_PAIRS, MAX_UNLIKE_NUMBERS, NUMERIC_CORPUS_SHARE = 30, 0.25, 0.9
"""Fewest pairs with numbers to judge; the share that may differ; above the last, numbers are the
task."""
NEW_WORDS, MANY_NEW_WORDS, MANY_NEW_CHARACTERS = 0.05, 0.2, 0.001  # shares of all tokens
MIN_JUDGED_LINES, MAJORITY_SHARE = 20, 0.5  # fewest lines to judge a share of
SHOWN_STRETCHES = 5


class Finding(NamedTuple):
    """What was found, and what to do about it."""

    level: Level
    text: str


def interpret_report(report: CorpusReport) -> list[Finding]:
    """What a report means, topic by topic."""
    topics = _sizes, _cleaning, _alignment, _leaks, _coverage, _damage, _style, _noise
    return [finding for topic in topics for finding in topic(report)]


def _level(value: float, note: float, warning: float, problem: float = 2.0) -> Level | None:
    """The highest level whose threshold `value` exceeds; None if it exceeds none."""
    if value > problem:
        return "problem"
    return "warning" if value > warning else "note" if value > note else None


def _sizes(report: CorpusReport) -> Iterator[Finding]:
    for split, one in report.splits.items():
        if one.read_error:
            yield Finding("problem", f"{split} cannot be read to its end: {one.read_error}.")
    train = report.splits.get("train")
    if train is None or not train.pairs:
        yield Finding("problem", "There are no training pairs.")
        return
    if train.pairs < FEW_PAIRS:
        yield Finding(
            "warning" if train.pairs < TOO_FEW_PAIRS else "note",
            f"train: {train.pairs:,} pairs are few to learn a language from: start with some ten "
            "thousand. Expect good answers only to sentences much like these.",
        )
    if report.split_error:
        yield Finding("problem", f"No pairs can be held out: {report.split_error}.")
    if report.cut:
        counts = _listed([f"{count:,} pairs for {split}" for split, count in report.cut.items()])
        yield Finding("note", f"Training holds out {counts}: corpus.split sets how many.")
    yield from (Finding("note", f"{note}.") for note in report.notes)
    if len(report.file_starts) > 1:
        files = _listed([f"{name} from line {at + 1:,} on" for name, at in report.file_starts])
        yield Finding("note", f"train is read from several files, line after line: {files}.")
    for split, one in report.splits.items():
        if split != "train" and one.pairs < FEW_HELD_OUT:
            yield Finding(
                "note",
                f"{split}: scores on {one.pairs:,} pairs vary a lot by chance; 1,000 and more "
                "tell models apart.",
            )


_ADVICE: dict[Reason, str] = {
    "empty": "Look for lines that were lost on one side.",
    "control characters": "Look for a conversion that went wrong.",
    "too many words": "Cut documents into sentences, or raise corpus.cleaning.max_words.",
    "too many characters": "Cut documents into sentences, or raise corpus.cleaning.max_characters.",
    "lengths too unlike": "Look at some: if this is normal for the languages, raise "
    "corpus.cleaning.max_ratio; otherwise the sides do not belong together.",
    "source equals target": "Look for text that was never translated.",
    "wrong script": "Are the languages right, and in the order of the columns or files?",
    "wrong language": "Are the languages right, and in the order of the columns or files?",
    "duplicate": "They would teach nothing new.",
    "in valid or test": "If there are few different targets, corpus.cleaning.leaks=source keeps "
    "pairs that share only their target.",
}


def _dropped(report: CleaningReport) -> tuple[float, str, str]:
    """The share that cleaning drops, the reasons, and advice about the most frequent one."""
    rows = sorted(report.rows(), key=lambda row: -row.num_pairs)
    if not rows:
        return 0.0, "", ""
    count = sum(row.num_pairs for row in rows)
    reasons = _listed([f"{row.num_pairs:,} as {row.reason!r}" for row in rows])
    share = count / report.total
    text = f"{count:,} of {report.total:,} pairs ({_percent(share)}), {reasons}"
    return share, text, _ADVICE[rows[0].reason]


def advise_dropped(report: CleaningReport) -> str | None:
    """What cleaning dropped, why, and what to set; None if it dropped little."""
    share, text, advice = _dropped(report)
    return f"cleaning has dropped {text}. {advice}" if share >= MANY_DROPPED else None


def _cleaning(report: CorpusReport) -> Iterator[Finding]:
    for split, one in report.splits.items():
        share, text, advice = _dropped(one.cleaning)
        level: Level = "warning" if share >= MANY_DROPPED else "note"
        if split != "train" and share:
            yield Finding(
                level,
                f"{split}: cleaning would drop {text}, but leaves {split} as it is: scores "
                f"should not depend on our cleaning. {advice}",
            )
        elif share:
            level = "problem" if share == 1 else level
            yield Finding(level, f"train: cleaning drops {text}. {advice}")
        elif split == "train" and one.pairs:
            yield Finding("ok", f"train: cleaning keeps all of its {one.pairs:,} pairs.")


def _alignment(report: CorpusReport) -> Iterator[Finding]:
    correlations = {
        split: one.alignment.correlation
        for split, one in report.splits.items()
        if one.pairs and not one.alignment.stretches
    }
    aligned = [
        f"{value:.2f} in {split}"
        for split, value in correlations.items()
        if value is not None and value >= MIN_LENGTH_CORRELATION
    ]
    if aligned:
        how = f"lengths correlate at {_listed(aligned)}"
        yield Finding("ok", f"The two sides belong together, line by line: {how}.")
    for split, one in report.splits.items():
        yield from _split_alignment(split, one, report.languages)
    undecided = [split for split, value in correlations.items() if value is None]
    if undecided:
        yield Finding(
            "note",
            f"{_listed(undecided)}: lengths vary too little, or in too few pairs, to tell whether "
            "the sides belong together.",
        )


def _split_alignment(
    split: SplitName, report: SplitReport, languages: tuple[str, str]
) -> Iterator[Finding]:
    alignment, correlation = report.alignment, report.alignment.correlation
    shifted = [(one, one.shift) for one in alignment.stretches if one.shift is not None]
    unrelated = [lines for lines in alignment.stretches if lines.shift is None]
    for lines, shift in shifted[:SHOWN_STRETCHES]:
        yield Finding("problem", f"{split}: {_shifted(lines, shift)}")
    if (more := len(shifted) - SHOWN_STRETCHES) > 0:
        yield Finding("problem", f"{split}: and {more} more such stretches.")
    if unrelated:
        level: Level = "warning" if languages[0] == languages[1] != "und" else "problem"
        yield Finding(level, f"{split}: {_unrelated(unrelated, report)}")
    elif not shifted and correlation is not None and correlation < MIN_LENGTH_CORRELATION:
        yield Finding(
            "warning" if correlation < MIN_WINDOW_CORRELATION else "note",
            f"{split}: the lengths of the two sides correlate at {correlation:.2f}, which is low "
            "for translations. Look at some pairs.",
        )
    unlike = alignment.numbers_unlike / max(1, alignment.with_numbers)
    some = MIN_NUMBER_PAIRS <= alignment.with_numbers < NUMERIC_CORPUS_SHARE * report.pairs
    if some and unlike > MAX_UNLIKE_NUMBERS:
        yield Finding(
            "warning",
            f"{split}: where both sides hold numbers, {_percent(unlike)} of "
            f"{alignment.with_numbers:,} pairs hold different ones. Look at some: they may be "
            "misaligned, or freely translated.",
        )


def _shifted(lines: MisalignedLines, shift: int) -> str:
    count = counted(abs(shift), "line")
    way, more, fewer = ("down", *SIDES[::-1]) if shift > 0 else ("up", *SIDES)
    return (
        f"lines {lines.first:,} to {lines.last:,} look shifted by {shift:+d}: a source "
        f"line belongs to the target {count} further {way}. Near line {lines.first:,} the "
        f"{more} has {count} too many or the {fewer} too few: compare them there and correct it."
    )


def _unrelated(stretches: list[MisalignedLines], report: SplitReport) -> str:
    count = sum(lines.last - lines.first + 1 for lines in stretches)
    shown = _listed([f"{one.first:,} to {one.last:,}" for one in stretches[:SHOWN_STRETCHES]])
    return (
        f"{'all lines' if count == report.pairs else f'lines {shown}'} look unrelated: lengths and "
        "words of the two sides agree no better than by chance. Look for lines lost or shuffled on "
        "one side. Only where a target need not be as long as its source, as in a dialogue, is "
        "that right."
    )


def _leaks(report: CorpusReport) -> Iterator[Finding]:
    overlap = report.overlap
    yield from (_leak(leak) for leak in overlap.leaks if leak.sources or leak.targets)
    for near in overlap.near_leaks:
        if near.sources:
            yield Finding(
                "warning" if near.sources >= MANY_LEAKED * near.total else "note",
                f"{near.split}: {counted(near.sources, 'more source')} of {near.total:,} "
                f"{'is' if near.sources == 1 else 'are'} in train except for punctuation, such as "
                f"{near.example!r}. corpus.cleaning.leaks_ignore=punctuation leaves such pairs out "
                "of training.",
            )
    if overlap.leaking_pairs:
        share = overlap.leaking_pairs / max(1, report.splits["train"].pairs)
        much = share >= MANY_LEAKED
        yield Finding(
            "warning" if much else "note",
            f"Training leaves out {counted(overlap.leaking_pairs, 'pair')} ({_percent(share)}) "
            "that share a held-out sentence, ignoring case and spacing."
            + (f" That is much. {_ADVICE['in valid or test']}" if much else ""),
        )
    elif overlap.leaks:
        yield Finding("ok", "No sentence of a held-out split is in train.")


def _leak(leak: Leak) -> Finding:
    counts = {"source": leak.sources, "target": leak.targets, "whole pair": leak.pairs}
    shared = [counted(number, noun) for noun, number in counts.items() if number]
    much = max(leak.sources, leak.pairs) >= MANY_LEAKED * leak.total
    advice = " That is much: was the corpus split before its duplicates were removed?"
    if leak.within == "valid" and leak.sources:
        advice = " Weights would be chosen by their own test data: remove the pairs from one split."
    elif not much:
        advice = ""
    return Finding(
        "warning" if much else "note",
        f"{leak.split} shares {_listed(shared)} of its {leak.total:,} pairs with "
        f"{leak.within}.{advice}",
    )


def _coverage(report: CorpusReport) -> Iterator[Finding]:
    worded = [one for one in report.overlap.coverage if one.words]
    worst = max((one.new_words / one.words for one in worded), default=0.0)
    if level := _level(worst, NEW_WORDS, MANY_NEW_WORDS):
        listed = [
            f"{one.split} {one.side} {_percent(one.new_words / one.words)} "
            f"({', '.join(one.word_examples[:3])})"
            for one in worded
            if one.new_words > NEW_WORDS * one.words
        ]
        advice = "Subwords can spell them; a vocabulary of words cannot."
        if level == "warning":
            advice = "Is it from another domain, or written differently?"
        yield Finding(
            level, f"Running words that never occur in train: {_listed(listed)}. {advice}"
        )
    elif worded:
        new = f"at most {_percent(worst)} of them are new" if worst else "none of them is new"
        yield Finding("ok", f"Train covers the words of the held-out splits: {new}.")
    odd = [one for one in report.overlap.coverage if one.new_characters]
    if odd:
        share = max(one.new_characters / one.characters for one in odd)
        listed = [
            f"{' '.join(one.character_examples)} in {one.split} {one.side} "
            f"({one.new_characters:,} in all)"
            for one in odd
        ]
        yield Finding(
            "warning" if share > MANY_NEW_CHARACTERS else "note",
            f"Characters that never occur in train: {_listed(listed)}. Subwords spell them as "
            "bytes; vocabularies of words or characters cannot.",
        )


_DAMAGE: dict[str, tuple[str, tuple[float, float, float], str]] = {
    "escapes": (
        "hold escapes such as &apos; or &#39;",
        (0, 0.01, 1),
        "Unescape all splits alike, or translations will hold them too.",
    ),
    "tags": (
        "hold tags such as <b>",
        (0, 0.05, 1),
        "Remove them, unless they should be translated.",
    ),
    "subwords": (
        "were cut into subwords, or tokenised by Moses (@@, ▁, @-@)",
        (0.001, 0.01, 0.1),
        "Join them again: the tokenizer cuts words itself.",
    ),
    "garbled": (
        "are garbled, such as Ã© for é",
        (0, 0.001, 0.01),
        "The file was UTF-8, read as Latin-1 and saved again; reverse that: "
        "iconv -f UTF-8 -t LATIN1, or -t WINDOWS-1252.",
    ),
    "odd spaces": (
        "hold no-break spaces (U+00A0, U+202F) between words",
        (0.001, 0.01, 1),
        "A model treats them as letters: replace them by plain spaces in all splits.",
    ),
    "invisible": (
        "hold invisible characters (zero-width, soft hyphens, direction marks)",
        (0, 0.005, 1),
        "Remove them in all splits: words that look the same differ to a model.",
    ),
}
"""By check: what it finds, the shares above which it is a note, a warning or a problem, advice."""


def _damage(report: CorpusReport) -> Iterator[Finding]:
    for check, (text, shares, advice) in _DAMAGE.items():
        counts = {side: one for side, one in _check_counts(report, check).items() if one.showing}
        worst = max((one.share for one in counts.values()), default=0.0)
        if level := _level(worst, *shares):
            listed = ", ".join(
                f"{side} {one.showing:,} ({_percent(one.share)})" for side, one in counts.items()
            )
            yield Finding(level, f"Some lines {text}: {listed}. {advice}")


_STYLES: dict[str, tuple[str, Level, str | None]] = {
    "tokenised": (
        "tokenised already (spaces before full stops and commas)",
        "problem",
        "Translations will be tokenised too, and scores are not those of plain text.",
    ),
    "lowercase": ("in lower case", "problem", "Translations will be in lower case too."),
    "curly": ("with curly apostrophes (’)", "warning", None),
}
"""By check: a style, the level if splits differ in it, advice if train has it (None: none)."""


def _style(report: CorpusReport) -> Iterator[Finding]:
    """Styles that differ between splits, or between the sides of train."""
    for check, (style, level, advice) in _STYLES.items():
        counts = _check_counts(report, check)
        shares = {name: one.share for name, one in counts.items() if one.lines >= MIN_JUDGED_LINES}
        train = {side: shares[f"train {side}"] for side in SIDES if f"train {side}" in shares}
        unlike = [
            f"{_percent(share)} of {split} {side} (of train {side} {_percent(train[side])})"
            for side in train
            for split in HELD_OUT
            if (share := shares.get(f"{split} {side}")) is not None
            and abs(train[side] - share) > MAJORITY_SHARE
        ]
        if unlike:
            yield Finding(
                level,
                f"Splits are written differently: {style} are {_listed(unlike)}. A model does "
                "badly on text written differently from its training text: prepare all alike.",
            )
        showing = [side for side, share in train.items() if share > MAJORITY_SHARE]
        if advice is None or len(train) < len(SIDES) or not showing:
            continue
        if len(showing) == len(SIDES):
            yield Finding("note", f"Train is {style} on both sides. {advice}")
        else:
            listed = _listed([f"{_percent(share)} of the {side}" for side, share in train.items()])
            yield Finding(
                "warning",
                f"The sides of train are written differently: {style} are {listed}. Prepare both "
                "alike, unless this is intended.",
            )


def _check_counts(report: CorpusReport, check: str) -> dict[str, CheckCount]:
    """The counts of a surface check for each side of each split, such as `train source`."""
    return {
        f"{split} {side}": one.surface[check]
        for split, splits in report.splits.items()
        for side, one in zip(SIDES, (splits.source, splits.target), strict=True)
    }


_WRONG_LANGUAGE = 0.001, 0.01  # Tatoeba and Multi30k have 0.03% at most
_DROP = "--set corpus.cleaning.drop_wrong_language=true leaves such pairs out of training."
_LANGUAGE_ERRORS = {
    "swapped": "have source and target exchanged, by their letters",
    "source_language": "have a source in a different language from most",
    "target_language": "have a target in a different language from most",
}
_NOISE = {name: (text, _WRONG_LANGUAGE, _DROP) for name, text in _LANGUAGE_ERRORS.items()} | {
    "random": (
        "do not belong together: their words are translations of each other no more than by chance",
        (0.025, 0.05),  # Tatoeba, by free translations: at most 1.1%; Multi30k: 0.1%
        "Look at some, and for lines that were shuffled or aligned wrongly.",
    ),
    "truncated": (
        "have a target that is cut short: nothing in it translates the end of the source",
        (0.015, 0.03),  # Tatoeba: at most 0.4%; Multi30k: none
        "They teach a model to stop early: find out what cut the lines.",
    ),
}
"""By kind of noise: what it is, the shares above which it is a note and a warning, advice."""


def _noise(report: CorpusReport) -> Iterator[Finding]:
    noise = report.noise
    rates: dict[str, NoiseRate] = {name: getattr(noise, name) for name in _NOISE}
    for name, (text, (note, warning), advice) in _NOISE.items():
        share, _, lines = rates[name]
        # random pairs look truncated too
        if share < (max(note, noise.random.share / 2) if name == "truncated" else note):
            continue
        exact = name in _LANGUAGE_ERRORS
        sample = f"{noise.sampled:,} pairs" if exact else f"{noise.paired:,} pairs about"
        places = ", ".join(report.locate("train", line) for line in lines)
        yield Finding(
            "warning" if share >= warning else "note",
            f"train: of a sample of {sample} {share:.1%} {text}; such as {places}. {advice}",
        )
    wrong = any(rates[name].share >= _WRONG_LANGUAGE[0] for name in _LANGUAGE_ERRORS)
    if noise.languages_known and not wrong:
        yield Finding(
            "ok", f"Both sides are in one language each, in a sample of {noise.sampled:,} pairs."
        )


def _percent(share: float) -> str:
    return "under 0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def _listed(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
