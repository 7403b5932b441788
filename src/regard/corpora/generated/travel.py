"""French sentences about travel and their English translations, from a small grammar of our own.

"Jane visite l'Afrique en septembre." is "Jane visits Africa in September." Each French sentence
has one translation, and the grammar knows which words belong together, so that attention can be
scored against gold alignments. What keeps them off the diagonal: adjectives behind the noun,
negation around the verb, pronouns before it, questions, auxiliaries, adverbs.

Where French alone would not decide, the grammar does: "sa" is "her" or "his" after the subject of
its own clause; "le" and "la" are "him" and "her" with verbs done to people, "it" with others.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from regard.corpora.generated.clauses import (
    ADVERBS,
    NEVER,
    NO_LONGER,
    NO_MIDDLE,
    NOT,
    THE,
    THIS,
    A,
    Clitic,
    Determiner,
    Middle,
    Order,
    Subject,
    Tense,
    clause,
    ending,
    inflect,
    noun_phrase,
    own,
    reflexive,
)
from regard.corpora.generated.drawing import Example, GeneratedSettings, generated_corpus
from regard.corpora.generated.lexicon import (
    BE,
    CITIES,
    COUNTRIES,
    FEEL,
    GOING,
    KIN,
    LONG_ADJECTIVES,
    MOODS,
    NUMBERS,
    RAIN,
    ROLES,
    SIGHTS,
    SMALL_ADJECTIVES,
    STRESSED,
    THINGS,
    TRANSPORT,
    VERBS,
    WERE,
    Gender,
    Noun,
    Verb,
)
from regard.corpora.generated.phrases import NOTHING, Phrase, arrange, join, say
from regard.corpora.generated.spelling import FRENCH_VOWELS, write
from regard.corpora.generated.talk import (
    Talk,
    again,
    compare,
    place_name,
    place_phrase,
)
from regard.corpora.pairs import Corpus


class Opening(NamedTuple):
    """A word to begin a question with, or none."""

    french: str
    english: str
    weight: int
    gap: tuple[str, ...] = ()
    """The kinds of verbs whose complement it asks for."""


OPENINGS = (
    Opening("", "", 6),
    Opening("quand", "when", 3),
    Opening("où", "where", 2, ("goal", "spot")),
    Opening("pourquoi", "why", 3),
    Opening("que", "what", 2, ("sight", "thing", "any")),
    Opening("qui", "who", 2),
)
AND, BUT = ("et", "and"), ("mais", "but")
BECAUSE = "parce que", "because", "0-0 1?0"
WHEN, IF, WHILE = ("quand", "when"), ("si", "if"), ("pendant que", "while", "0-0 1?0")
NEAR_SPEAKER = Clitic("me", "me"), Clitic("nous", "us")
NEAR_HEARER = Clitic("te", "you"), Clitic("vous", "you")
THEM = Clitic("les", "them")
IT = Clitic("le", "it"), Clitic("la", "it", "e")
HIM_OR_HER = Clitic("le", "him"), Clitic("la", "her", "e")

CLITIC_CHANCES = {"sight": 0.3, "thing": 0.35, "person": 0.5, "any": 0.25}
VERB_WEIGHTS = tuple(8 if verb.with_etre else 7 if verb.kind == "person" else 6 for verb in VERBS)
"""More of those with more forms, so that no form is rare."""
MOVES = {"goal": "to", "origin": "from", "spot": "in", "arrival": "in", "alone": ""}
STANDS = {
    "près de": ("près de", "near", "0-0 1?0"),
    "dans": ("dans", "in"),
    "devant": ("devant", "in front of"),
}
SPARE_WEIGHTS = (4, 5, 5, 4, 3, 3, 3, 3, 2, 2)
"""How often a sentence has room for 0, 1, 2 ... things that could be left out."""
WORD_LIMITS = 3, 30
COMMA, STOP, MARK = (say(sign, sign, "") for sign in ",.?")


def travel(settings: GeneratedSettings) -> Corpus:
    """The corpus of travel sentences, French to English, with gold alignments."""
    return generated_corpus("travel", ("fr", "en"), _draw, settings)


def _draw(random: Random) -> Example:
    return Speaker(random).sentence()


class Speaker(Talk):
    """Says one sentence after another, as its random numbers decide."""

    def sentence(self) -> Example:
        """A sentence of 3 to 30 French words, its translation and its alignment."""
        kinds = (
            self.statement,
            self.joined,
            self.conditional,
            self.question,
            self.request,
            self.there_is,
        )
        shortest, longest = WORD_LIMITS
        while True:
            self.begin(self.random.choices(range(len(SPARE_WEIGHTS)), SPARE_WEIGHTS)[0])
            said = write(self.random.choices(kinds, (49, 16, 10, 13, 9, 3))[0]())
            if shortest <= len(said.pair.source.split()) <= longest:
                return said

    # Whole sentences

    def statement(self) -> Phrase:
        """One thing said: what someone does, how someone or something is, the weather."""
        draw = self.random.random()
        if draw < 0.11:
            return join(self.mood(), STOP)
        if draw < 0.22:
            return join(self.look(), STOP)
        if draw < 0.26:
            return join(self.weather(), STOP)
        tense = self.tense()
        middle = self.middle(tense)
        if self.room(0.35):
            time = self.time(tense, middle, leading=True)
            return join(time, COMMA, self.action(self.subject(), tense, middle), STOP)
        return join(self.action(self.subject(), tense, middle), STOP)

    def joined(self) -> Phrase:
        """Two clauses with "and", "but" or "because"; the second may share the subject."""
        tense, subject = self.tense(), self.subject()
        first = self.action(subject, tense, self.middle(tense))
        link = self.one((AND, BUT, BECAUSE))
        if link != BECAUSE and not self.nested and self.chance(0.4):
            other = subject._replace(phrase=NOTHING)
        else:
            other = self.same_or_other(subject)
        second = self.action(other, tense, self.middle(tense))
        return join(first, COMMA if link == BUT else NOTHING, say(*link), second, STOP)

    def conditional(self) -> Phrase:
        """Two clauses in the present, of which the one with "when", "if" or "while" may lead."""
        link = self.one((WHEN, IF, WHILE))
        subject = self.subject()
        verb = self.verb(("spot",)) if link == WHILE else self.verb()
        middle = NOT if link != WHILE and self.chance(0.25) else NO_MIDDLE
        if self.chance(0.4):
            condition = join(say(*link), self.action(subject, "present", middle, verb=verb))
            other = self.same_or_other(subject)
            return join(condition, COMMA, self.action(other, "present", self.middle()), STOP)
        main = self.action(subject, "present", self.middle())
        other = self.same_or_other(subject)
        return join(main, say(*link), self.action(other, "present", middle, verb=verb), STOP)

    def question(self) -> Phrase:
        """A question for yes or no, or with when, where, why, what or who."""
        word = self.random.choices(OPENINGS, [opening.weight for opening in OPENINGS])[0]
        opening, tense = say(word.french, word.english), self.tense()
        if word.french == "qui":
            return join(self.action(Subject(opening, 2, None), tense, NO_MIDDLE), MARK)
        subject = self.subject()
        order: Order = "asking"
        if opening is not NOTHING and subject.person in (1, 4) and self.chance(0.6):
            subject = subject._replace(phrase=say("-tu" if subject.person == 1 else "-vous", "you"))
            order = "inverted"
        middle = NOT if word.french == "pourquoi" and self.chance(0.4) else NO_MIDDLE
        self.timed = word.french == "quand"
        verb, gap = self.verb(word.gap or None), bool(word.gap)
        asked = self.action(
            subject, tense, middle, verb=verb, gap=gap, order=order, opening=opening
        )
        return join(asked, MARK)

    def request(self) -> Phrase:
        """An imperative; where it is polite, French asks at the end and English at the start."""
        hearer = Subject(NOTHING, 4, "m")
        middle = self.one((NO_MIDDLE, NO_MIDDLE, NO_MIDDLE, NOT, NEVER))
        asked = self.action(hearer, "present", middle, order="commanding")
        if self.chance(0.5):
            return join(asked, STOP)
        comma, please = say(",", "", ""), say("si il vous plaît", "please")
        return join(arrange((asked, comma, please), (please, asked)), STOP)

    def there_is(self) -> Phrase:
        """What there is to see somewhere."""
        plural = self.chance(0.5)
        opening = say("il y a", "there " + ("are" if plural else "is"), "0?0 1-0 2-1")
        where = place_phrase("in", self.one(COUNTRIES))
        sight = self.common(SIGHTS, A, plural)
        return join(opening, sight, where, STOP)

    # Clauses

    def action(
        self,
        subject: Subject,
        tense: Tense,
        middle: Middle,
        *,
        verb: Verb | None = None,
        gap: bool = False,
        order: Order = "telling",
        opening: Phrase = NOTHING,
    ) -> Phrase:
        """Someone does something; with `gap`, what or where it is done is not said again."""
        verb = verb or self.verb()
        self.nested = False
        clitic = None
        if verb.reflexive:
            clitic = reflexive(subject.person)
        elif verb.kind in CLITIC_CHANCES and not gap and self.chance(CLITIC_CHANCES[verb.kind]):
            clitic = self.clitic(verb, subject, tense)
        rest = []
        if not gap and not (clitic and clitic.english):
            rest.append(self.complement(subject, verb, negated=middle.negative))
        rest.append(self.circumstances(subject, verb, tense, middle))
        return clause(
            subject,
            verb,
            tense,
            rest=join(*rest),
            middle=middle,
            clitic=clitic,
            order=order,
            opening=opening,
        )

    def circumstances(self, subject: Subject, verb: Verb, tense: Tense, middle: Middle) -> Phrase:
        """How long, how, with whom, when and what for something is done."""
        said = []
        if verb.kind == "spot" and self.more(0.25):
            said.append(join(say("pendant", "for"), self.count()))
            self.timed = True
        if verb.kind in ("goal", "origin", "alone") and self.more(0.4):
            said.append(say(*self.one(TRANSPORT), "0-0 1-1"))
        if verb.kind not in ("person", "any") and self.more(0.25):
            said.append(join(say("avec", "with"), self.companion(subject)))
        if not self.timed and self.more(0.55):
            said.append(self.time(tense, middle))
        if verb.kind == "goal" and self.more(0.4):
            aim = self.verb(("sight", "person", "thing"))
            do = say(aim.infinitive, f"{aim.english[0]} {aim.particle}")
            said.append(join(say("pour", "to"), do, self.complement(subject, aim)))
        return join(*said)

    def more(self, probability: float) -> bool:
        """Whether to say more of what is done: not behind a relative clause.

        In "Paul attend la femme qui part avec sa sœur" it would be read as a part of that.
        """
        return not self.nested and self.room(probability)

    def mood(self) -> Phrase:
        """How someone feels."""
        subject = self.pronoun() if self.chance(0.5) else self.subject()
        tense = self.one((BE, WERE))
        middle = self.one((NO_MIDDLE, NO_MIDDLE, NO_MIDDLE, NOT, NO_LONGER, *ADVERBS))
        adjective = self.one(MOODS)
        how = inflect(adjective, subject.gender, subject.person > 2)
        if middle == NO_MIDDLE and self.chance(0.5):
            than = self.name().phrase
            how = compare(adjective, subject, than)
        elif self.chance(0.4):
            how = join(say("très", "very"), how)
        return clause(subject, None, tense, rest=how, middle=middle)

    def look(self) -> Phrase:
        """How a place or a thing is."""
        tense, plural = self.one((BE, BE, WERE)), self.chance(0.4)
        nouns = self.one((SIGHTS, THINGS))
        noun, other = self.random.sample(nouns, 2)
        determiner = self.one((THE, THIS))
        subject = Subject(noun_phrase(determiner, noun, plural), 5 if plural else 2, noun.gender)
        adjective = self.one(SMALL_ADJECTIVES + LONG_ADJECTIVES)
        middle = self.one((NO_MIDDLE, NO_MIDDLE, NO_MIDDLE, NOT, NO_LONGER))
        how = inflect(adjective, noun.gender, plural)
        if adjective.comparative and middle == NO_MIDDLE and self.chance(0.8):
            than = self.common((other,), self.one((THE, THIS)), self.chance(0.4))
            how = compare(adjective, subject, than)
        elif adjective.comparative and self.chance(0.4):
            how = join(say("très", "very"), how)
        return clause(subject, None, tense, rest=how, middle=middle)

    def weather(self) -> Phrase:
        """It rains, or it is hot or cold, somewhere."""
        it = Subject(say("il", "it"), 2, "m")
        where = place_phrase("in", self.one(CITIES + COUNTRIES))
        if self.chance(0.5):
            tense: Tense = self.one(("present", "past", GOING))
            middle = self.middle(tense)
            rest = join(where, self.time(tense, middle))
            return clause(it, RAIN, tense, rest=rest, middle=middle)
        middle = self.middle("present")
        how = say(*self.one((("chaud", "hot"), ("froid", "cold"))))
        rest = join(how, where, self.time("present", middle))
        return clause(it, None, FEEL, rest=rest, middle=middle)

    def verb(self, kinds: Sequence[str] | None = None) -> Verb:
        while True:
            verb = self.random.choices(VERBS, VERB_WEIGHTS)[0]
            if kinds is None or verb.kind in kinds:
                return verb

    def clitic(self, verb: Verb, subject: Subject, tense: Tense) -> Clitic | None:
        """A pronoun for the object, where French leaves no doubt about the English one.

        Before a vowel "l'" may be "him" or "her"; but "l'a attendue" is clear again.
        """
        if verb.kind in ("sight", "thing"):
            return self.one(IT if tense == "past" else (*IT, THEM))
        if tense == "past":
            return self.one(HIM_OR_HER) if verb.kind == "person" else None
        options = [THEM]
        if verb.kind == "person" and not verb.infinitive.startswith(FRENCH_VOWELS):
            options += HIM_OR_HER
        if subject.person not in (0, 3):
            options += NEAR_SPEAKER
        if subject.person not in (1, 4):
            options += NEAR_HEARER
        return self.one(options)

    # Who, what, where, when

    def subject(self) -> Subject:
        """A name, a pronoun, a person, or two people."""
        draw = self.random.random()
        if draw < 0.22:
            return self.name()
        if draw < 0.69:
            return self.pronoun()
        if draw < 0.80:
            return self.somebody(ROLES, THE)
        if draw < 0.90:
            return self.somebody(KIN, own(Subject(NOTHING, self.one((0, 1, 3, 4)), None)))
        first = self.name()
        second = self.name() if self.chance(0.5) else self.somebody(KIN, own(first))
        both: Gender = "f" if first.gender == second.gender == "f" else "m"
        return Subject(join(first.phrase, say("et", "and"), second.phrase), 5, both)

    def same_or_other(self, subject: Subject) -> Subject:
        return again(subject) if self.chance(0.6) else self.subject()

    def somebody(self, nouns: Sequence[Noun], determiner: Determiner) -> Subject:
        """One person or several, perhaps with a clause that says who they are."""
        noun, plural = self.one(nouns), self.chance(0.4)
        subject = Subject(noun_phrase(determiner, noun, plural), 5 if plural else 2, noun.gender)
        if nouns is not ROLES or not self.room(0.3):
            return subject
        silent = subject._replace(phrase=NOTHING)
        which = self.action(silent, self.one(("present", "past")), NO_MIDDLE)
        self.nested = True
        return subject._replace(phrase=join(subject.phrase, say("qui", "who"), which))

    def person(self, subject: Subject, *, negated: bool = False) -> Phrase:
        """Somebody to meet."""
        draw = self.random.random()
        if draw < 0.35:
            return self.name().phrase
        if draw < 0.7:
            owner = subject if subject.gender else Subject(NOTHING, 0, None)
            return self.somebody(KIN, own(owner)).phrase
        return self.somebody(ROLES, self.one((THE, THIS) if negated else (THE, THIS, A))).phrase

    def companion(self, subject: Subject) -> Phrase:
        """Somebody to do something with, other than the subject."""
        if self.chance(0.25):
            ours = "moi" if subject.person in (0, 3) else "toi" if subject.person in (1, 4) else ""
            return say(*self.one([pair for pair in STRESSED if pair[0] != ours]))
        return self.person(subject, negated=True)

    def complement(self, subject: Subject, verb: Verb, *, negated: bool = False) -> Phrase:
        """What the verb asks for: an object, a place, or nothing.

        French has "de" for "un" in the object of a negated verb, so there is no such object.
        """
        kind = self.one(("sight", "person", "thing")) if verb.kind == "any" else verb.kind
        if kind == "person":
            return self.person(subject, negated=negated)
        if kind == "thing":
            owned = (own(subject),) if subject.gender else ()
            determiner = self.one((THE, THIS, *owned) if negated else (THE, THIS, A, A, *owned))
            return self.common(THINGS, determiner, self.chance(0.35))
        if kind == "sight":
            if self.chance(0.5):
                return place_name(self.one(CITIES + COUNTRIES))
            determiner = self.one((THE, THIS) if negated else (THE, THIS, A))
            return self.common(SIGHTS, determiner, self.chance(0.35))
        return self.whereabouts(MOVES[kind]) if MOVES[kind] else NOTHING

    def whereabouts(self, preposition: str) -> Phrase:
        """Where someone is, goes to or comes from."""
        if self.chance(0.6):
            return place_phrase(preposition, self.one(CITIES + COUNTRIES))
        if preposition != "in":
            sights = [sight for sight in SIGHTS if "à" in sight.stands]
            french = "à" if preposition == "to" else "de"
            return join(say(french, preposition), self.common(sights, THE, plural=False))
        sight = self.one(SIGHTS)
        french = self.one(("près de", *(word for word in sight.stands if word != "à")))
        what = self.common((sight,), self.one((THE, THIS)), plural=False)
        return join(say(*STANDS[french]), what)

    def common(self, nouns: Sequence[Noun], determiner: Determiner, plural: bool) -> Phrase:
        """A thing or a place with what is said of it."""
        noun = self.one(nouns)
        if plural and determiner == A and self.chance(0.5):
            french, english = self.one(NUMBERS)
            determiner = Determiner(("", "", french), ("", english))
        small = self.one(SMALL_ADJECTIVES) if self.room(0.4) else None
        long = self.one(LONG_ADJECTIVES) if self.room(0.35) else None
        phrase = noun_phrase(determiner, noun, plural, small=small, long=long)
        if determiner == THE and "à" in noun.stands and self.room(0.25):
            return join(phrase, say("de", "of"), place_name(self.one(CITIES)))
        if determiner in (THE, THIS, A) and self.room(0.3):
            self.nested = True
            kind = "thing" if noun in THINGS else "sight"
            return join(phrase, self.that(noun, plural, kind))
        return phrase

    def that(self, noun: Noun, plural: bool, kind: str) -> Phrase:
        """A clause that says who does what to the noun; a participle agrees with it."""
        verb = self.verb((kind, "any"))
        tense: Tense = "present" if plural else self.one(("present", "past", "past"))
        subject = self.name() if self.chance(0.6) else self.pronoun()
        agreement = Clitic("", "", ending(noun.gender, False))
        middle = NOT if self.chance(0.15) else NO_MIDDLE
        return join(
            say("que", "that"), clause(subject, verb, tense, middle=middle, clitic=agreement)
        )
