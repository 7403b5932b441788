"""What chance decides in a sentence: how much is said, who, when and where."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from regard.corpora.generated.travel.clauses import (
    ADVERBS,
    NEVER,
    NO_LONGER,
    NO_MODIFIER,
    NOT,
    Subject,
    Tense,
    VerbModifier,
    inflect,
)
from regard.corpora.generated.travel.lexicon import (
    CAN,
    DAYS,
    GOING,
    LAST,
    MEN,
    MONTHS,
    MUST,
    NEXT,
    NUMBERS,
    PRONOUNS,
    RECURRING_TIMES,
    SEASONS,
    TIME_UNITS,
    WANT,
    WOMEN,
    WOULD_LIKE,
    Adjective,
    Place,
)
from regard.corpora.generated.travel.phrases import Phrase, aligned, arrange, join

T = TypeVar("T")

TENSES: tuple[Tense, ...] = ("present", "past", GOING, WANT, WOULD_LIKE, CAN, MUST)
TENSE_WEIGHTS = (44, 28, 8, 5, 5, 5, 5)
PRONOUN_WEIGHTS = tuple((2, 5, 2, 5, 4, 3)[person] for _, _, person, _ in PRONOUNS)
"""More "tu" and "nous": nothing else takes their forms of the verb."""


class SentenceSampler:
    """A source of choices, and what is to be remembered within a sentence."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.start_sentence(0)

    def start_sentence(self, optional_budget: int) -> None:
        """Start a sentence with room for `spare` things that could be left out."""
        self.optional_budget = optional_budget
        self.has_time = False  # whether it says when
        self.after_relative_clause = False  # whether a relative clause has just ended
        self.used_names: set[str] = set()

    def choose(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def bernoulli(self, probability: float) -> bool:
        return self.random.random() < probability

    def draw_optional(self, probability: float) -> bool:
        """Whether to say one thing more; the room for such things is then one less."""
        if self.optional_budget and self.bernoulli(probability):
            self.optional_budget -= 1
            return True
        return False

    def tense(self) -> Tense:
        return self.random.choices(TENSES, TENSE_WEIGHTS)[0]

    def modifier(self, tense: Tense = "present") -> VerbModifier:
        """A negation, an adverb or, most often, neither."""
        draw = self.random.random()
        if draw < 0.62:
            return NO_MODIFIER
        if draw < 0.76:
            return NOT
        if draw < 0.84:
            return NEVER
        if draw < 0.90 and tense != "past":
            return NO_LONGER
        return self.choose(ADVERBS) if tense in ("present", "past") else NO_MODIFIER

    def name(self) -> Subject:
        """Somebody not named in this sentence before."""
        name = self.choose([name for name in WOMEN + MEN if name not in self.used_names])
        self.used_names.add(name)
        return Subject(aligned(name, name), 2, "f" if name in WOMEN else "m")

    def pronoun(self) -> Subject:
        french, english, person, gender = self.random.choices(PRONOUNS, PRONOUN_WEIGHTS)[0]
        return Subject(aligned(french, english), person, gender)

    def count(self) -> Phrase:
        """A number of weeks, months or years."""
        return join(aligned(*self.choose(NUMBERS)), aligned(*self.choose(TIME_UNITS)))

    def time(self, tense: Tense, modifier: VerbModifier, *, leading: bool = False) -> Phrase:
        """When something happens, as it suits the tense; with "never", no single day.

        `leading` is for the beginning of a sentence, where no number should stand: each would be
        a word that is capitalised here and hardly anywhere else.
        """
        self.has_time = True
        draw, past = self.random.random(), tense == "past"
        if draw < 0.3:
            return aligned(*self.choose(MONTHS), "0-0 1-1")
        if draw < 0.42 or (tense != "present" and modifier not in (NO_MODIFIER, NOT)):
            return aligned(*self.choose(SEASONS), "0-0 1-1")
        day, english_day = self.choose(DAYS)
        if tense == "present":
            if draw < 0.7 or modifier.negative:
                return aligned(f"le {day}", f"on {english_day}s", "0?0 1-1")
            return aligned(*self.choose(RECURRING_TIMES), "0-0 1-1")
        if draw < 0.54:
            return aligned("hier", "yesterday") if past else aligned("demain", "tomorrow")
        if draw < 0.7:
            french, english = ("dernier", "last") if past else ("prochain", "next")
            return aligned(f"{day} {french}", f"{english} {english_day}", "0-1 1-0")
        if draw < 0.82 or (past and leading):
            return aligned(*self.choose(LAST if past else NEXT), "0?1 1-1 2-0")
        if not past:
            return join(aligned("dans", "in"), self.count())
        ago, count = aligned("il y a", "ago"), self.count()
        return arrange((ago, count), (count, ago))


def pronoun_for(subject: Subject) -> Subject:
    """The pronoun for somebody spoken of already."""
    for french, english, person, gender in PRONOUNS:
        if (person, gender) == (subject.person, subject.gender):
            return Subject(aligned(french, english), person, gender)
    raise ValueError(f"no pronoun for {subject}")


def place_name(place: Place) -> Phrase:
    """A city or a country as French and English name it, "la France" and "France"."""
    english = place.english.removeprefix("the ")
    article = aligned(place.article, "the" if place.english != english else "")
    name = aligned(place.french, english)
    return arrange((article, name), (article, name), possible=((article, name),))


def place_phrase(preposition: str, place: Place) -> Phrase:
    """In, to or from a city or a country: "à Rome", "en France", "au Japon", "du Japon"."""
    if place.article == "la":
        place = place._replace(article="")
        french = "de" if preposition == "from" else "en"
    else:
        french = "de" if preposition == "from" else "à"
    return join(aligned(french, preposition), place_name(place))


def compare(adjective: Adjective, subject: Subject, than: Phrase) -> Phrase:
    """Bigger, or more famous, than something."""
    quality = inflect(adjective, subject.gender, subject.person > 2)
    degree = aligned("plus", "more")
    if adjective.comparative.startswith("more "):
        return join(degree, quality, aligned("que", "than"), than)
    (word,) = quality.french
    return join(aligned(f"plus {word.text}", adjective.comparative), aligned("que", "than"), than)
