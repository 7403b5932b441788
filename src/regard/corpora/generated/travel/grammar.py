"""French sentences about travel and their English translations, sampled from a small grammar.

"Jane visite l'Afrique en septembre." is "Jane visits Africa in September." Each French sentence
has one translation and one gold alignment, far from the diagonal. Ambiguous French words are
resolved by the clause: "sa" is "her" or "his" by the subject; "le" and "la" are "him" and "her"
with verbs whose object is a person, and "it" with others.
"""

from collections.abc import Sequence
from typing import NamedTuple

from regard.corpora.corpus import AlignedPair, Corpus
from regard.corpora.generated.generator import GeneratedSettings, generated_corpus
from regard.corpora.generated.travel import clauses, lexicon
from regard.corpora.generated.travel.clauses import NO_MODIFIER, NOT, THE, THIS, A, Subject, clause
from regard.corpora.generated.travel.phrases import (
    EMPTY,
    FRENCH_VOWELS,
    Phrase,
    aligned,
    arrange,
    join,
    spell_phrase,
)
from regard.corpora.generated.travel.sampler import SentenceSampler


class QuestionWord(NamedTuple):
    """The word that a question begins with, or none."""

    french: str
    english: str
    weight: int
    gap: tuple[str, ...] = ()  # the kinds of verbs whose complement it asks for


QUESTION_WORDS = (
    QuestionWord("", "", 6),
    QuestionWord("quand", "when", 3),
    QuestionWord("où", "where", 2, ("goal", "spot")),
    QuestionWord("pourquoi", "why", 3),
    QuestionWord("que", "what", 2, ("sight", "thing", "any")),
    QuestionWord("qui", "who", 2),
)
AND, BUT = ("et", "and"), ("mais", "but")
BECAUSE = "parce que", "because", "0-0 1?0"
WHEN, IF, WHILE = ("quand", "when"), ("si", "if"), ("pendant que", "while", "0-0 1?0")
FIRST_PERSON = clauses.Clitic("me", "me"), clauses.Clitic("nous", "us")
SECOND_PERSON = clauses.Clitic("te", "you"), clauses.Clitic("vous", "you")
THEM = clauses.Clitic("les", "them")
IT = clauses.Clitic("le", "it"), clauses.Clitic("la", "it", "e")
HIM_OR_HER = clauses.Clitic("le", "him"), clauses.Clitic("la", "her", "e")

CLITIC_CHANCES = {"sight": 0.3, "thing": 0.35, "person": 0.5, "any": 0.25}
VERB_WEIGHTS = [
    8 if verb.with_etre else 7 if verb.kind == "person" else 6 for verb in lexicon.VERBS
]
"""Higher for verbs with more forms, so that no form is rare."""
DIRECTION_PREPOSITIONS = {"goal": "to", "origin": "from", "spot": "in", "arrival": "in"}
POSITION_PREPOSITIONS = {
    "près de": ("près de", "near", "0-0 1?0"),
    "dans": ("dans", "in"),
    "devant": ("devant", "in front of"),
}
OPTIONAL_WEIGHTS = (4, 5, 5, 4, 3, 3, 3, 3, 2, 2)  # of 0, 1, 2 … optional phrases in a sentence
MIN_WORDS, MAX_WORDS = 3, 30
COMMA, STOP, QUESTION_MARK = (aligned(sign, sign, "") for sign in ",.?")


def travel(settings: GeneratedSettings) -> Corpus:
    """The corpus of travel sentences, French to English, with gold alignments."""
    return generated_corpus(
        "travel", ("fr", "en"), lambda random: TravelGrammar(random).sentence(), settings
    )


class TravelGrammar(SentenceSampler):
    """Samples sentences, top down; each method draws one kind of phrase."""

    def sentence(self) -> AlignedPair:
        """A sentence of 3 to 30 French words, its translation and its alignment."""
        weights = {
            self.statement: 49,
            self.compound: 16,
            self.conditional: 10,
            self.question: 13,
            self.request: 9,
            self.there_is: 3,
        }
        while True:
            [budget] = self.random.choices(range(len(OPTIONAL_WEIGHTS)), OPTIONAL_WEIGHTS)
            self.start_sentence(budget)
            [draw] = self.random.choices(list(weights), list(weights.values()))
            example = spell_phrase(draw())
            if MIN_WORDS <= len(example.pair.source.split()) <= MAX_WORDS:
                return example

    # Whole sentences

    def statement(self) -> Phrase:
        """One clause: an action, a mood, a description, or the weather."""
        draw = self.random.random()
        if draw < 0.11:
            return join(self.mood(), STOP)
        if draw < 0.22:
            return join(self.description(), STOP)
        if draw < 0.26:
            return join(self.weather(), STOP)
        tense = self.tense()
        modifier = self.modifier(tense)
        time = EMPTY
        if self.draw_optional(0.35):
            time = join(self.time(tense, modifier, leading=True), COMMA)
        return join(time, self.action(self.subject(), tense, modifier), STOP)

    def compound(self) -> Phrase:
        """Two clauses with "and", "but" or "because"; the second may share the subject."""
        tense, subject = self.tense(), self.subject()
        first = self.action(subject, tense, self.modifier(tense))
        link = self.choose((AND, BUT, BECAUSE))
        if link != BECAUSE and not self.after_relative_clause and self.bernoulli(0.4):
            other = subject._replace(phrase=EMPTY)
        else:
            other = self.same_or_other(subject)
        second = self.action(other, tense, self.modifier(tense))
        return join(first, COMMA if link == BUT else EMPTY, aligned(*link), second, STOP)

    def conditional(self) -> Phrase:
        """Two clauses in the present, of which the one with "when", "if" or "while" may lead."""
        link = self.choose((WHEN, IF, WHILE))
        subject = self.subject()
        verb = self.verb(("spot",)) if link == WHILE else self.verb()
        modifier = NOT if link != WHILE and self.bernoulli(0.25) else NO_MODIFIER
        if self.bernoulli(0.4):
            condition = join(aligned(*link), self.action(subject, "present", modifier, verb=verb))
            other = self.same_or_other(subject)
            return join(condition, COMMA, self.action(other, "present", self.modifier()), STOP)
        main = self.action(subject, "present", self.modifier())
        other = self.same_or_other(subject)
        return join(main, aligned(*link), self.action(other, "present", modifier, verb=verb), STOP)

    def question(self) -> Phrase:
        """A yes-no question, or one with when, where, why, what or who."""
        [word] = self.random.choices(QUESTION_WORDS, [word.weight for word in QUESTION_WORDS])
        opening, tense = aligned(word.french, word.english), self.tense()
        if word.french == "qui":
            return join(self.action(Subject(opening, 2, None), tense, NO_MODIFIER), QUESTION_MARK)
        subject = self.subject()
        order: clauses.ClauseType = "asking"
        if opening is not EMPTY and subject.person in (1, 4) and self.bernoulli(0.6):
            pronoun = "-tu" if subject.person == 1 else "-vous"
            subject, order = subject._replace(phrase=aligned(pronoun, "you")), "inverted"
        modifier = NOT if word.french == "pourquoi" and self.bernoulli(0.4) else NO_MODIFIER
        self.has_time = word.french == "quand"
        verb, gap = self.verb(word.gap or None), bool(word.gap)
        asked = self.action(
            subject, tense, modifier, verb=verb, gap=gap, order=order, opening=opening
        )
        return join(asked, QUESTION_MARK)

    def request(self) -> Phrase:
        """An imperative; where it is polite, French asks at the end and English at the start."""
        addressee = Subject(EMPTY, 4, "m")
        modifier = self.choose((NO_MODIFIER, NO_MODIFIER, NO_MODIFIER, NOT, clauses.NEVER))
        asked = self.action(addressee, "present", modifier, order="commanding")
        if self.bernoulli(0.5):
            return join(asked, STOP)
        comma, please = aligned(",", "", ""), aligned("si il vous plaît", "please")
        return join(arrange((asked, comma, please), (please, asked)), STOP)

    def there_is(self) -> Phrase:
        """What there is to see somewhere."""
        plural = self.bernoulli(0.5)
        opening = aligned("il y a", "there " + ("are" if plural else "is"), "0?0 1-0 2-1")
        where = clauses.place_phrase("in", self.choose(lexicon.COUNTRIES))
        sight = self.modified_noun(lexicon.SIGHTS, A, plural)
        return join(opening, sight, where, STOP)

    # Clauses

    def action(
        self,
        subject: Subject,
        tense: clauses.Tense,
        modifier: clauses.VerbModifier,
        *,
        verb: lexicon.Verb | None = None,
        gap: bool = False,
        order: clauses.ClauseType = "telling",
        opening: Phrase = EMPTY,
    ) -> Phrase:
        """A clause about an action; with `gap`, without the complement that is asked for."""
        verb = verb or self.verb()
        self.after_relative_clause = False
        clitic = None
        if verb.reflexive:
            clitic = clauses.Clitic(lexicon.REFLEXIVES[subject.person], "")  # untranslated
        elif verb.kind in CLITIC_CHANCES and not gap and self.bernoulli(CLITIC_CHANCES[verb.kind]):
            clitic = self.clitic(verb, subject, tense)
        rest = EMPTY
        if not gap and not (clitic and clitic.english):
            rest = self.complement(subject, verb, negated=modifier.negative)
        rest = join(rest, self.circumstances(subject, verb, tense, modifier))
        return clause(subject, verb, tense, rest, modifier, clitic, order, opening)

    def circumstances(
        self,
        subject: Subject,
        verb: lexicon.Verb,
        tense: clauses.Tense,
        modifier: clauses.VerbModifier,
    ) -> Phrase:
        """How long, how, with whom, when and what for something is done."""
        phrases = []
        if verb.kind == "spot" and self.draw_circumstance(0.25):
            phrases.append(join(aligned("pendant", "for"), self.count()))
            self.has_time = True
        if verb.kind in ("goal", "origin", "alone") and self.draw_circumstance(0.4):
            phrases.append(aligned(*self.choose(lexicon.TRANSPORT), "0-0 1-1"))
        if verb.kind not in ("person", "any") and self.draw_circumstance(0.25):
            phrases.append(join(aligned("avec", "with"), self.companion(subject)))
        if not self.has_time and self.draw_circumstance(0.55):
            phrases.append(self.time(tense, modifier))
        if verb.kind == "goal" and self.draw_circumstance(0.4):
            aim = self.verb(("sight", "person", "thing"))
            do = aligned(aim.infinitive, f"{aim.english[0]} {aim.particle}")
            phrases.append(join(aligned("pour", "to"), do, self.complement(subject, aim)))
        return join(*phrases)

    def draw_circumstance(self, probability: float) -> bool:
        """Whether to add a circumstance; after a relative clause it would seem a part of it."""
        return not self.after_relative_clause and self.draw_optional(probability)

    def mood(self) -> Phrase:
        """How someone feels."""
        subject = self.pronoun() if self.bernoulli(0.5) else self.subject()
        tense = self.choose((lexicon.BE, lexicon.WERE))
        modifier = self.choose(
            (NO_MODIFIER, NO_MODIFIER, NO_MODIFIER, NOT, clauses.NO_LONGER, *clauses.ADVERBS)
        )
        adjective = self.choose(lexicon.MOODS)
        how = clauses.inflect(adjective, subject.gender, subject.person > 2)
        if modifier == NO_MODIFIER and self.bernoulli(0.5):
            how = clauses.compare(adjective, subject, self.name().phrase)
        elif self.bernoulli(0.4):
            how = join(aligned("très", "very"), how)
        return clause(subject, None, tense, rest=how, modifier=modifier)

    def description(self) -> Phrase:
        """How a place or a thing is."""
        tense, plural = self.choose((lexicon.BE, lexicon.BE, lexicon.WERE)), self.bernoulli(0.4)
        nouns = self.choose((lexicon.SIGHTS, lexicon.THINGS))
        noun, other = self.random.sample(nouns, 2)
        subject = clauses.noun_subject(self.choose((THE, THIS)), noun, plural)
        adjective = self.choose(lexicon.SMALL_ADJECTIVES + lexicon.LONG_ADJECTIVES)
        modifier = self.choose((NO_MODIFIER, NO_MODIFIER, NO_MODIFIER, NOT, clauses.NO_LONGER))
        how = clauses.inflect(adjective, noun.gender, plural)
        if adjective.comparative and modifier == NO_MODIFIER and self.bernoulli(0.8):
            than = self.modified_noun((other,), self.choose((THE, THIS)), self.bernoulli(0.4))
            how = clauses.compare(adjective, subject, than)
        elif adjective.comparative and self.bernoulli(0.4):
            how = join(aligned("très", "very"), how)
        return clause(subject, None, tense, rest=how, modifier=modifier)

    def weather(self) -> Phrase:
        """It rains, or it is hot or cold, somewhere."""
        it = Subject(aligned("il", "it"), 2, "m")
        where = clauses.place_phrase("in", self.choose(lexicon.PLACES))
        if self.bernoulli(0.5):
            tense: clauses.Tense = self.choose(("present", "past", lexicon.GOING))
            modifier = self.modifier(tense)
            rest = join(where, self.time(tense, modifier))
            return clause(it, lexicon.RAIN, tense, rest=rest, modifier=modifier)
        modifier = self.modifier("present")
        how = aligned(*self.choose((("chaud", "hot"), ("froid", "cold"))))
        rest = join(how, where, self.time("present", modifier))
        return clause(it, None, lexicon.FEEL, rest=rest, modifier=modifier)

    def verb(self, kinds: Sequence[str] | None = None) -> lexicon.Verb:
        while True:
            verb = self.random.choices(lexicon.VERBS, VERB_WEIGHTS)[0]
            if kinds is None or verb.kind in kinds:
                return verb

    def clitic(
        self, verb: lexicon.Verb, subject: Subject, tense: clauses.Tense
    ) -> clauses.Clitic | None:
        """A pronoun for the object, if the French one has a single translation."""
        if verb.kind in ("sight", "thing"):
            return self.choose(IT if tense == "past" else (*IT, THEM))
        if tense == "past":  # "l'" may be "him" or "her", but "l'a attendue" agrees
            return self.choose(HIM_OR_HER) if verb.kind == "person" else None
        options = [THEM]
        if verb.kind == "person" and not verb.infinitive.startswith(FRENCH_VOWELS):
            options += HIM_OR_HER
        if subject.person not in (0, 3):
            options += FIRST_PERSON
        if subject.person not in (1, 4):
            options += SECOND_PERSON
        return self.choose(options)

    # Who, what, where, when

    def subject(self) -> Subject:
        """A name, a pronoun, a person, or two people."""
        draw = self.random.random()
        if draw < 0.22:
            return self.name()
        if draw < 0.69:
            return self.pronoun()
        if draw < 0.80:
            return self.person_subject(lexicon.ROLES, THE)
        if draw < 0.90:
            return self.relative(Subject(EMPTY, self.choose((0, 1, 3, 4)), None))
        first = self.name()
        other_name = self.bernoulli(0.5)
        second = self.name() if other_name else self.relative(first)
        both: lexicon.Gender = "f" if first.gender == second.gender == "f" else "m"
        return Subject(join(first.phrase, aligned("et", "and"), second.phrase), 5, both)

    def same_or_other(self, subject: Subject) -> Subject:
        return clauses.pronoun_for(subject) if self.bernoulli(0.6) else self.subject()

    def relative(self, owner: Subject) -> Subject:
        return self.person_subject(lexicon.KIN, clauses.possessive(owner))

    def person_subject(
        self, nouns: Sequence[lexicon.Noun], determiner: clauses.Determiner
    ) -> Subject:
        """One person or several, perhaps with a relative clause."""
        noun, plural = self.choose(nouns), self.bernoulli(0.4)
        subject = clauses.noun_subject(determiner, noun, plural)
        if nouns is not lexicon.ROLES or not self.draw_optional(0.3):
            return subject
        implicit = subject._replace(phrase=EMPTY)
        which = self.action(implicit, self.choose(("present", "past")), NO_MODIFIER)
        self.after_relative_clause = True
        return subject._replace(phrase=join(subject.phrase, aligned("qui", "who"), which))

    def person(self, subject: Subject, *, negated: bool = False) -> Phrase:
        """Somebody to meet."""
        draw = self.random.random()
        if draw < 0.35:
            return self.name().phrase
        if draw < 0.7:
            return self.relative(subject if subject.gender else Subject(EMPTY, 0, None)).phrase
        determiner = self.choose((THE, THIS) if negated else (THE, THIS, A))
        return self.person_subject(lexicon.ROLES, determiner).phrase

    def companion(self, subject: Subject) -> Phrase:
        """Somebody to do something with, other than the subject."""
        if self.bernoulli(0.25):
            ours = "moi" if subject.person in (0, 3) else "toi" if subject.person in (1, 4) else ""
            return aligned(*self.choose([pair for pair in lexicon.STRESSED if pair[0] != ours]))
        return self.person(subject, negated=True)

    def complement(self, subject: Subject, verb: lexicon.Verb, *, negated: bool = False) -> Phrase:
        """What the verb requires: an object, a place, or nothing."""
        # French has "de" for "un" in the object of a negated verb, so there is no such object.
        kind = self.choose(("sight", "person", "thing")) if verb.kind == "any" else verb.kind
        if kind == "person":
            return self.person(subject, negated=negated)
        if kind == "thing":
            owned = (clauses.possessive(subject),) if subject.gender else ()
            determiner = self.choose((THE, THIS, *owned) if negated else (THE, THIS, A, A, *owned))
            return self.modified_noun(lexicon.THINGS, determiner, self.bernoulli(0.35))
        if kind == "sight":
            if self.bernoulli(0.5):
                return clauses.place_name(self.choose(lexicon.PLACES))
            determiner = self.choose((THE, THIS) if negated else (THE, THIS, A))
            return self.modified_noun(lexicon.SIGHTS, determiner, self.bernoulli(0.35))
        preposition = DIRECTION_PREPOSITIONS.get(kind)
        return self.location(preposition) if preposition else EMPTY

    def location(self, preposition: str) -> Phrase:
        """Where someone is, goes to or comes from."""
        if self.bernoulli(0.6):
            return clauses.place_phrase(preposition, self.choose(lexicon.PLACES))
        if preposition != "in":
            sights = [sight for sight in lexicon.SIGHTS if "à" in sight.prepositions]
            french = "à" if preposition == "to" else "de"
            return join(aligned(french, preposition), self.modified_noun(sights, THE, plural=False))
        sight = self.choose(lexicon.SIGHTS)
        french = self.choose(("près de", *(word for word in sight.prepositions if word != "à")))
        what = self.modified_noun((sight,), self.choose((THE, THIS)), plural=False)
        return join(aligned(*POSITION_PREPOSITIONS[french]), what)

    def modified_noun(
        self, nouns: Sequence[lexicon.Noun], determiner: clauses.Determiner, plural: bool
    ) -> Phrase:
        """A noun with adjectives, a city or a relative clause."""
        noun = self.choose(nouns)
        if plural and determiner == A and self.bernoulli(0.5):
            french, english = self.choose(lexicon.NUMBERS)
            determiner = clauses.Determiner(("", "", french), ("", english))
        small = self.choose(lexicon.SMALL_ADJECTIVES) if self.draw_optional(0.4) else None
        long = self.choose(lexicon.LONG_ADJECTIVES) if self.draw_optional(0.35) else None
        phrase = clauses.noun_phrase(determiner, noun, plural, small=small, long=long)
        if determiner == THE and "à" in noun.prepositions and self.draw_optional(0.25):
            city = clauses.place_name(self.choose(lexicon.CITIES))
            return join(phrase, aligned("de", "of"), city)
        if determiner in (THE, THIS, A) and self.draw_optional(0.3):
            self.after_relative_clause = True
            kind = "thing" if noun in lexicon.THINGS else "sight"
            return join(phrase, self.relative_clause(noun, plural, kind))
        return phrase

    def relative_clause(self, noun: lexicon.Noun, plural: bool, kind: str) -> Phrase:
        """A clause whose object is the noun; the participle agrees with it."""
        verb = self.verb((kind, "any"))
        tense: clauses.Tense = "present" if plural else self.choose(("present", "past", "past"))
        subject = self.name() if self.bernoulli(0.6) else self.pronoun()
        agreement = clauses.Clitic("", "", clauses.agreement_suffix(noun.gender, False))
        modifier = NOT if self.bernoulli(0.15) else NO_MODIFIER
        which = clause(subject, verb, tense, modifier=modifier, clitic=agreement)
        return join(aligned("que", "that"), which)
