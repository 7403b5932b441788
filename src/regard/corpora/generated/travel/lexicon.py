"""The words of the travel corpus: French, then English. Regular forms are derived."""

from typing import Literal, NamedTuple

Gender = Literal["m", "f"]
GENDERS: tuple[Gender, Gender] = ("m", "f")
Forms = tuple[str, ...]  # six forms of a verb: I, you, he or she, we, you, they


class Noun(NamedTuple):
    gender: Gender
    french: tuple[str, str]  # singular, plural
    english: tuple[str, str]
    prepositions: Forms = ()  # French ones that may precede it


class Adjective(NamedTuple):
    french: tuple[str, str, str, str]  # masculine, feminine, and both in the plural
    before_vowel: str  # the masculine singular, where a noun with a vowel follows
    english: str
    comparative: str


class Place(NamedTuple):
    article: str  # "" for a city
    french: str
    english: str


class Verb(NamedTuple):
    kind: str
    infinitive: str
    present: Forms
    participle: str
    english: tuple[str, str, str]  # bare, he or she, past
    particle: str
    with_etre: bool
    reflexive: bool


class Auxiliary(NamedTuple):
    """A verb that precedes an infinitive, a participle or an adjective."""

    french: Forms
    english_aux: Forms  # the English auxiliary, which precedes the subject in a question
    head: tuple[str, str] = ("", "")  # before "to visit", as in "is going to": plain, third person


def _words(row: str) -> tuple[str, ...]:
    return tuple(row.split())


def _pairs(entries: str) -> tuple[tuple[str, str], ...]:
    """Pairs of "French = English", separated by commas."""
    pairs = (entry.split(" = ") for entry in entries.split(", "))
    return tuple((french, english) for french, english in pairs)


def _numbers(noun: str) -> tuple[str, str]:
    """Singular and plural of "city/cities", or of a regular noun."""
    one, _, many = noun.partition("/")
    return one, many or f"{one}s"


def _nouns(entries: str) -> tuple[Noun, ...]:
    """Nouns of "gender French English prepositions", separated by commas."""
    rows = (entry.split() for entry in entries.split(", "))
    return tuple(
        Noun("f" if gender == "f" else "m", _numbers(french), _numbers(english), tuple(rest))
        for gender, french, english, *rest in rows
    )


def _adjectives(entries: str) -> tuple[Adjective, ...]:
    """Adjectives of "masculine [feminine plural [before a vowel]] = English [= comparative]"."""
    rows = []
    for french, english, *comparative in (entry.split(" = ") for entry in entries.split(", ")):
        one, *forms = french.split()
        feminine, many, *before_vowel = forms or (one.removesuffix("e") + "e", f"{one}s")
        agreeing = one, feminine, many, f"{feminine}s"
        rows.append(
            Adjective(agreeing, "".join(before_vowel) or one, english, "".join(comparative))
        )
    return tuple(rows)


def _places(entries: str) -> tuple[Place, ...]:
    rows = ((*french.split(), english) for french, english in _pairs(entries))
    return tuple(Place(*row) if len(row) == 3 else Place("", *row) for row in rows)


def _verbs(table: str) -> tuple[Verb, ...]:
    """Verbs of "kind [être or se, if the past needs it] infinitive [present participle] | English".

    The forms of a regular verb in -er are left out. In English: bare form, past, particle.
    """
    rows = []
    for french, english in (line.split(" | ") for line in table.strip().splitlines()):
        kind, *words = french.split()
        auxiliary = words.pop(0) if words[0] in ("être", "se") else ""
        stem = words[0].removesuffix("er")
        regular = (stem + ending for ending in ("e", "es", "e", "ons", "ez", "ent", "é"))
        *present, participle = words[1:] or regular
        bare, past, *rest = english.split()
        forms, particle = (bare, bare + ("es" if bare == "go" else "s"), past), " ".join(rest)
        french_forms = words[0], tuple(present), participle
        rows.append(Verb(kind, *french_forms, forms, particle, auxiliary != "", auxiliary == "se"))
    return tuple(rows)


WOMEN = _words("Jane Marie Anna Sophie Claire Emma")
MEN = _words("Paul Pierre Thomas Marc Louis Antoine")

# Behind the English: prepositions of location, and "à" if it can be a destination.
SIGHTS = _nouns(
    "f ville city/cities dans, m village village dans, f île island, f plage beach/beaches à, "
    "f forêt forest dans, m lac lake devant à, m parc park dans à, m jardin garden dans à, "
    "m musée museum dans devant à, m château/châteaux castle dans devant à, "
    "f cathédrale cathedral dans devant à, m hôtel hotel dans devant à, m marché market devant à, "
    "m aéroport airport dans devant à"
)
THINGS = _nouns(
    "m livre book, f carte map, f valise suitcase, m billet ticket, m cadeau/cadeaux present, "
    "m chapeau/chapeaux hat, f photo picture"
)
KIN = _nouns(
    "f sœur sister, m frère brother, m ami friend, f amie friend, m fils/fils son, f fille daughter"
)
ROLES = _nouns(
    "m touriste tourist, f touriste tourist, m voyageur traveller, f voyageuse traveller, "
    "m homme man/men, f femme woman/women, m enfant child/children, f étudiante student, "
    "m étudiant student"
)

SMALL_ADJECTIVES = _adjectives(
    "grand = big = bigger, petit = small = smaller, "
    "beau belle beaux bel = beautiful = more beautiful, vieux vieille vieux vieil = old = older, "
    "nouveau nouvelle nouveaux nouvel = new, joli = pretty = prettier"
)
"""Those that precede the French noun."""
LONG_ADJECTIVES = _adjectives(
    "magnifique = magnificent, célèbre = famous = more famous, "
    "moderne = modern = more modern, étrange = strange = stranger, "
    "charmant = charming = more charming, intéressant = interesting = more interesting, "
    "blanc blanche blancs = white"
)
MOODS = _adjectives(
    "content = happy = happier, fatigué = tired = more tired, malade = sick = sicker, "
    "triste = sad = sadder"
)

CITIES = _places(
    "Paris = Paris, Rome = Rome, Berlin = Berlin, Londres = London, Lisbonne = Lisbon, "
    "Athènes = Athens, Bruxelles = Brussels, Genève = Geneva, Vienne = Vienna, Tokyo = Tokyo"
)
COUNTRIES = _places(
    "la France = France, la Italie = Italy, la Espagne = Spain, la Allemagne = Germany, "
    "la Grèce = Greece, la Suisse = Switzerland, la Chine = China, la Inde = India, "
    "la Égypte = Egypt, la Afrique = Africa, la Asie = Asia, le Japon = Japan, "
    "le Maroc = Morocco, le Brésil = Brazil, le Canada = Canada, le Mexique = Mexico, "
    "le Pérou = Peru, les États-Unis = the United States, les Pays-Bas = the Netherlands"
)
PLACES = CITIES + COUNTRIES

VERBS = _verbs("""
sight visiter | visit visited
sight quitter | leave left
sight découvrir découvre découvres découvre découvrons découvrez découvrent découvert \
    | discover discovered
person attendre attends attends attend attendons attendez attendent attendu | wait waited for
person inviter | invite invited
person rencontrer | meet met
thing acheter achète achètes achète achetons achetez achètent acheté | buy bought
thing oublier | forget forgot
thing perdre perds perds perd perdons perdez perdent perdu | lose lost
thing choisir choisis choisis choisit choisissons choisissez choisissent choisi | choose chose
any aimer | love loved
any chercher | look looked for
any regarder | look looked at
any voir vois vois voit voyons voyez voient vu | see saw
goal être aller vais vas va allons allez vont allé | go went
origin être revenir reviens reviens revient revenons revenez reviennent revenu | come came back
arrival être arriver | arrive arrived
spot être rester | stay stayed
spot habiter | live lived
spot travailler | work worked
spot dormir dors dors dort dormons dormez dorment dormi | sleep slept
spot se promener promène promènes promène promenons promenez promènent promené | walk walked
spot se reposer | rest rested
alone être partir pars pars part partons partez partent parti | leave left
alone voyager voyage voyages voyage voyageons voyagez voyagent voyagé | travel travelled
""")
[RAIN] = _verbs("weather pleuvoir pleus pleus pleut pleuvons pleuvez pleuvent plu | rain rained")

AVOIR = _words("ai as a avons avez ont")
ETRE = _words("suis es est sommes êtes sont")

BE = Auxiliary(ETRE, _words("am are is are are are"))
WERE = Auxiliary(
    _words("étais étais était étions étiez étaient"), _words("was were was were were were")
)
FEEL = Auxiliary(_words("fais fais fait faisons faites font"), BE.english_aux)
"""As in "il fait froid", it is cold."""
GOING = Auxiliary(_words("vais vas va allons allez vont"), BE.english_aux, ("going", "going"))
WANT = Auxiliary(_words("veux veux veut voulons voulez veulent"), ("",) * 6, ("want", "wants"))
WOULD_LIKE = Auxiliary(
    _words("voudrais voudrais voudrait voudrions voudriez voudraient"),
    ("would",) * 6,
    ("like", "like"),
)
CAN = Auxiliary(_words("peux peux peut pouvons pouvez peuvent"), ("can",) * 6)
MUST = Auxiliary(_words("dois dois doit devons devez doivent"), ("must",) * 6)
TENSE_AUXILIARIES = (GOING, WANT, WOULD_LIKE, CAN, MUST)

PRONOUNS: tuple[tuple[str, str, int, Gender], ...] = tuple(
    (french, english, place // 2, GENDERS[place % 2])
    for place, (french, english) in enumerate(
        _pairs(
            "je = I, je = I, tu = you, tu = you, il = he, elle = she, nous = we, nous = we, "
            "vous = you, vous = you, ils = they, elles = they"
        )
    )
)
"""French, English, person and gender."""
REFLEXIVES = _words("me te se nous vous se")
STRESSED = ("moi", "me"), ("toi", "you"), ("lui", "him"), ("elle", "her"), ("eux", "them")
POSSESSIVES = _pairs(
    "mon ma mes = my, ton ta tes = your, son sa ses = his, notre notre nos = our, "
    "votre votre vos = your, leur leur leurs = their"
)

NUMBERS = _pairs("deux = two, trois = three, quatre = four, cinq = five, six = six, sept = seven")
MONTHS = _pairs(
    "en janvier = in January, en février = in February, en mars = in March, en avril = in April, "
    "en mai = in May, en juin = in June, en juillet = in July, en août = in August, "
    "en septembre = in September, en octobre = in October, en novembre = in November, "
    "en décembre = in December"
)
SEASONS = _pairs(
    "au printemps = in spring, en été = in summer, en automne = in autumn, en hiver = in winter"
)
DAYS = _pairs(
    "lundi = Monday, mardi = Tuesday, mercredi = Wednesday, jeudi = Thursday, vendredi = Friday, "
    "samedi = Saturday, dimanche = Sunday"
)
RECURRING_TIMES = _pairs(
    "chaque semaine = every week, chaque mois = every month, chaque année = every year, "
    "chaque été = every summer"
)
NEXT = _pairs(
    "la semaine prochaine = next week, le mois prochain = next month, "
    "la année prochaine = next year"
)
LAST = _pairs(
    "la semaine dernière = last week, le mois dernier = last month, la année dernière = last year"
)
TIME_UNITS = _pairs("semaines = weeks, mois = months, ans = years")
TRANSPORT = _pairs(
    "en train = by train, en avion = by plane, en voiture = by car, en bateau = by boat, "
    "à pied = on foot"
)
