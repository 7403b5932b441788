"""Random choices of a sentence: tenses, names, pronouns, times."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from regard.corpora.generated.travel import clauses, lexicon
from regard.corpora.generated.travel.clauses import NO_MODIFIER, NOT, Subject, Tense, VerbModifier
from regard.corpora.generated.travel.phrases import Phrase, aligned, arrange, join

T = TypeVar("T")

TENSES: tuple[Tense, ...] = ("present", "past", *lexicon.TENSE_AUXILIARIES)
TENSE_WEIGHTS = (44, 28, 8, 5, 5, 5, 5)
PRONOUN_WEIGHTS = tuple((2, 5, 2, 5, 4, 3)[person] for _, _, person, _ in lexicon.PRONOUNS)
"""Higher for "tu" and "nous", the only subjects of their verb forms."""


class SentenceSampler:
    """Draws words, and keeps the state of a sentence."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.start_sentence(0)

    def start_sentence(self, optional_budget: int) -> None:
        """Start a sentence with at most `optional_budget` optional phrases."""
        self.optional_budget = optional_budget
        self.has_time = False
        self.after_relative_clause = False
        self.used_names: set[str] = set()

    def choose(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def bernoulli(self, probability: float) -> bool:
        return self.random.random() < probability

    def draw_optional(self, probability: float) -> bool:
        """Whether to add an optional phrase, which uses up the budget."""
        if self.optional_budget and self.bernoulli(probability):
            self.optional_budget -= 1
            return True
        return False

    def tense(self) -> Tense:
        return self.random.choices(TENSES, TENSE_WEIGHTS)[0]

    def modifier(self, tense: Tense = "present") -> VerbModifier:
        """A negation, an adverb or, most often, neither."""
        draw = self.random.random()
        if draw < 0.84:
            return NO_MODIFIER if draw < 0.62 else NOT if draw < 0.76 else clauses.NEVER
        if draw < 0.90 and tense != "past":
            return clauses.NO_LONGER
        return self.choose(clauses.ADVERBS) if tense in ("present", "past") else NO_MODIFIER

    def name(self) -> Subject:
        """A name that is new in this sentence."""
        names = lexicon.WOMEN + lexicon.MEN
        name = self.choose([name for name in names if name not in self.used_names])
        self.used_names.add(name)
        return Subject(aligned(name, name), 2, "f" if name in lexicon.WOMEN else "m")

    def pronoun(self) -> Subject:
        french, english, person, gender = self.random.choices(lexicon.PRONOUNS, PRONOUN_WEIGHTS)[0]
        return Subject(aligned(french, english), person, gender)

    def count(self) -> Phrase:
        """A number of weeks, months or years."""
        return join(*(aligned(*self.choose(x)) for x in (lexicon.NUMBERS, lexicon.TIME_UNITS)))

    def time(self, tense: Tense, modifier: VerbModifier, *, leading: bool = False) -> Phrase:
        """A time that fits the tense; with "never", not a single day."""
        self.has_time = True
        draw, past = self.random.random(), tense == "past"
        if draw < 0.3:
            return aligned(*self.choose(lexicon.MONTHS), "0-0 1-1")
        if draw < 0.42 or (tense != "present" and modifier not in (NO_MODIFIER, NOT)):
            return aligned(*self.choose(lexicon.SEASONS), "0-0 1-1")
        day, english_day = self.choose(lexicon.DAYS)
        if tense == "present":
            if draw < 0.7 or modifier.negative:
                return aligned(f"le {day}", f"on {english_day}s", "0?0 1-1")
            return aligned(*self.choose(lexicon.RECURRING_TIMES), "0-0 1-1")
        if draw < 0.54:
            return aligned("hier", "yesterday") if past else aligned("demain", "tomorrow")
        if draw < 0.7:
            french, english = ("dernier", "last") if past else ("prochain", "next")
            return aligned(f"{day} {french}", f"{english} {english_day}", "0-1 1-0")
        if draw < 0.82 or (past and leading):  # capitalised numbers would be rare words
            return aligned(*self.choose(lexicon.LAST if past else lexicon.NEXT), "0?1 1-1 2-0")
        if not past:
            return join(aligned("dans", "in"), self.count())
        ago, count = aligned("il y a", "ago"), self.count()
        return arrange((ago, count), (count, ago))
