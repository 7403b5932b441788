"""What chance decides in a sentence: how much is said, who, when and where."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from regard.corpora.generated.clauses import (
    ADVERBS,
    NEVER,
    NO_LONGER,
    NO_MIDDLE,
    NOT,
    Middle,
    Subject,
    Tense,
    inflect,
)
from regard.corpora.generated.lexicon import (
    CAN,
    DAYS,
    EVERY,
    GOING,
    LAST,
    MEN,
    MONTHS,
    MUST,
    NEXT,
    NUMBERS,
    PRONOUNS,
    SEASONS,
    SPANS,
    WANT,
    WOMEN,
    WOULD_LIKE,
    Adjective,
    Place,
)
from regard.corpora.generated.phrases import Phrase, arrange, join, say

T = TypeVar("T")

TENSES: tuple[Tense, ...] = ("present", "past", GOING, WANT, WOULD_LIKE, CAN, MUST)
TENSE_WEIGHTS = (44, 28, 8, 5, 5, 5, 5)
PRONOUN_WEIGHTS = tuple((2, 5, 2, 5, 4, 3)[person] for _, _, person, _ in PRONOUNS)
"""More "tu" and "nous": nothing else takes their forms of the verb."""


class Talk:
    """A source of choices, and what is to be remembered within a sentence."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.begin(0)

    def begin(self, spare: int) -> None:
        """Start a sentence with room for `spare` things that could be left out."""
        self.spare = spare
        self.timed = False  # whether it says when
        self.nested = False  # whether a relative clause has just ended
        self.named: set[str] = set()

    def one(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def room(self, probability: float) -> bool:
        """Whether to say one thing more; the room for such things is then one less."""
        if self.spare and self.chance(probability):
            self.spare -= 1
            return True
        return False

    def tense(self) -> Tense:
        return self.random.choices(TENSES, TENSE_WEIGHTS)[0]

    def middle(self, tense: Tense = "present") -> Middle:
        """A negation, an adverb or, most often, neither."""
        draw = self.random.random()
        if draw < 0.62:
            return NO_MIDDLE
        if draw < 0.76:
            return NOT
        if draw < 0.84:
            return NEVER
        if draw < 0.90 and tense != "past":
            return NO_LONGER
        return self.one(ADVERBS) if tense in ("present", "past") else NO_MIDDLE

    def name(self) -> Subject:
        """Somebody not named in this sentence before."""
        name = self.one([name for name in WOMEN + MEN if name not in self.named])
        self.named.add(name)
        return Subject(say(name, name), 2, "f" if name in WOMEN else "m")

    def pronoun(self) -> Subject:
        french, english, person, gender = self.random.choices(PRONOUNS, PRONOUN_WEIGHTS)[0]
        return Subject(say(french, english), person, gender)

    def count(self) -> Phrase:
        """A number of weeks, months or years."""
        return join(say(*self.one(NUMBERS)), say(*self.one(SPANS)))

    def time(self, tense: Tense, middle: Middle, *, leading: bool = False) -> Phrase:
        """When something happens, as it suits the tense; with "never", no single day.

        `leading` is for the beginning of a sentence, where no number should stand: each would be
        a word that is capitalised here and hardly anywhere else.
        """
        self.timed = True
        draw, past = self.random.random(), tense == "past"
        if draw < 0.3:
            return say(*self.one(MONTHS), "0-0 1-1")
        if draw < 0.42 or (tense != "present" and middle not in (NO_MIDDLE, NOT)):
            return say(*self.one(SEASONS), "0-0 1-1")
        day, english_day = self.one(DAYS)
        if tense == "present":
            if draw < 0.7 or middle.negative:
                return say(f"le {day}", f"on {english_day}s", "0?0 1-1")
            return say(*self.one(EVERY), "0-0 1-1")
        if draw < 0.54:
            return say("hier", "yesterday") if past else say("demain", "tomorrow")
        if draw < 0.7:
            french, english = ("dernier", "last") if past else ("prochain", "next")
            return say(f"{day} {french}", f"{english} {english_day}", "0-1 1-0")
        if draw < 0.82 or (past and leading):
            return say(*self.one(LAST if past else NEXT), "0?1 1-1 2-0")
        if not past:
            return join(say("dans", "in"), self.count())
        ago, count = say("il y a", "ago"), self.count()
        return arrange((ago, count), (count, ago))


def again(subject: Subject) -> Subject:
    """The pronoun for somebody spoken of already."""
    for french, english, person, gender in PRONOUNS:
        if (person, gender) == (subject.person, subject.gender):
            return Subject(say(french, english), person, gender)
    raise ValueError(f"no pronoun for {subject}")


def place_name(place: Place) -> Phrase:
    """A city or a country as French and English name it, "la France" and "France"."""
    english = place.english.removeprefix("the ")
    article = say(place.article, "the" if place.english != english else "")
    name = say(place.french, english)
    return arrange((article, name), (article, name), loose=((article, name),))


def place_phrase(preposition: str, place: Place) -> Phrase:
    """In, to or from a city or a country: "à Rome", "en France", "au Japon", "du Japon"."""
    if place.article == "la":
        place = place._replace(article="")
        french = "de" if preposition == "from" else "en"
    else:
        french = "de" if preposition == "from" else "à"
    return join(say(french, preposition), place_name(place))


def compare(adjective: Adjective, subject: Subject, than: Phrase) -> Phrase:
    """Bigger, or more famous, than something."""
    quality = inflect(adjective, subject.gender, subject.person > 2)
    degree = say("plus", "more")
    if adjective.comparative.startswith("more "):
        return join(degree, quality, say("que", "than"), than)
    (word,) = quality.french
    return join(say(f"plus {word.text}", adjective.comparative), say("que", "than"), than)
