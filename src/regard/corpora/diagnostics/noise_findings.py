"""Suspicious pairs of a sample -> what they mean for training, and what to do about them."""

from collections.abc import Iterator

from regard.corpora.diagnostics.corpus_report import CorpusReport
from regard.corpora.diagnostics.findings import Finding, Level
from regard.corpora.diagnostics.noise_report import NoiseRate

WRONG_LANGUAGE, MANY_WRONG_LANGUAGE = 0.001, 0.01
"""Shares from which a note is made, and a warning. Among 20,000 pairs of Tatoeba or Multi30k as
they are, 0.03% at most are taken to be in a wrong language."""
RANDOM, MANY_RANDOM = 0.025, 0.05
"""Of pairs that look paired by chance. In Tatoeba these are 1.1% at most, which are free
translations; in Multi30k 0.1%."""
TRUNCATED, MANY_TRUNCATED = 0.015, 0.03
"""Of targets that look cut short: in Tatoeba 0.4% at most, in Multi30k none."""

_DROP = "--set corpus.cleaning.drop_wrong_language=true leaves such pairs out of training."


def interpret_noise(found: CorpusReport) -> list[Finding]:
    """What the sample of training pairs shows."""
    return list(_findings(found))


def _findings(found: CorpusReport) -> Iterator[Finding]:
    noise = found.noise
    languages = (
        (noise.swapped, "have source and target exchanged, by their letters"),
        (noise.source_language, "have a source in another language than most"),
        (noise.target_language, "have a target in another language than most"),
    )
    for suspicion, what in languages:
        if suspicion.share >= WRONG_LANGUAGE:
            level: Level = "warning" if suspicion.share >= MANY_WRONG_LANGUAGE else "note"
            yield _finding(found, level, suspicion, what, noise.sampled, _DROP)
    if noise.random.share >= RANDOM:
        yield _finding(
            found,
            "warning" if noise.random.share >= MANY_RANDOM else "note",
            noise.random,
            "do not belong together: their words are translations of each other no more than "
            "by chance",
            noise.paired,
            "Look at some, and for lines that were shuffled or aligned wrongly.",
            about="about ",
        )
    if noise.truncated.share >= max(TRUNCATED, noise.random.share / 2):
        yield _finding(
            found,
            "warning" if noise.truncated.share >= MANY_TRUNCATED else "note",
            noise.truncated,
            "have a target that is cut short: nothing in it translates the end of the source",
            noise.paired,
            "A model learns to stop early from them: look for what cut lines.",
            about="about ",
        )
    if noise.languages_known and all(one.share < WRONG_LANGUAGE for one, _ in languages):
        yield Finding(
            "ok", f"Both sides are in one language each, in a sample of {noise.sampled:,} pairs."
        )


def _finding(
    found: CorpusReport,
    level: Level,
    suspicion: NoiseRate,
    what: str,
    of: int,
    advice: str,
    *,
    about: str = "",
) -> Finding:
    lines = ", ".join(found.place("train", line) for line in suspicion.lines)
    return Finding(
        level,
        f"train: of a sample of {of:,} pairs {about}{suspicion.share:.1%} {what}; such as {lines}. "
        f"{advice}",
    )
