"""The words of the travel corpus, as tables: French forms, then English ones."""

from typing import Literal, NamedTuple

Gender = Literal["m", "f"]
GENDERS: tuple[Gender, Gender] = ("m", "f")
Forms = tuple[str, ...]
"""Six forms of a verb: I, you, he or she, we, you, they."""


class Noun(NamedTuple):
    gender: Gender
    french: tuple[str, str]  # singular, plural
    english: tuple[str, str]
    prepositions: Forms = ()
    """French prepositions that may precede it."""


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
    english_aux: Forms
    """The English auxiliary, which precedes the subject in a question."""
    head: tuple[str, str] = ("", "")
    """The English word before "to visit", as in "is going to": plain, and third person."""


def _words(row: str) -> tuple[str, ...]:
    return tuple(row.split())


def _rows(table: str, separator: str | None = None) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(separator)] for line in table.strip().splitlines()]


def _pairs(entries: str) -> tuple[tuple[str, str], ...]:
    """Pairs of "French = English", separated by commas."""
    pairs = (entry.split(" = ") for entry in entries.split(", "))
    return tuple((french, english) for french, english in pairs)


def _nouns(table: str) -> tuple[Noun, ...]:
    return tuple(
        Noun("f" if gender == "f" else "m", (one, many), (english, plural), tuple(prepositions))
        for gender, one, many, english, plural, *prepositions in _rows(table)
    )


def _adjectives(table: str) -> tuple[Adjective, ...]:
    rows = []
    for french, english, comparative in _rows(table, "|"):
        one, feminine, many, feminine_many, *before_vowel = french.split()
        forms = one, feminine, many, feminine_many
        rows.append(Adjective(forms, (before_vowel or [one])[0], english, comparative))
    return tuple(rows)


def _places(entries: str) -> tuple[Place, ...]:
    rows = ((*french.split(), english) for french, english in _pairs(entries))
    return tuple(Place(*row) if len(row) == 3 else Place("", *row) for row in rows)


def _verbs(table: str) -> tuple[Verb, ...]:
    rows = []
    for french, english in _rows(table, "|"):
        kind, *auxiliary, infinitive, je, tu, il, nous, vous, ils, participle = french.split()
        bare, third, past, *particle = english.split()
        present, forms = (je, tu, il, nous, vous, ils), (bare, third, past)
        etre, reflexive = auxiliary in (["être"], ["se"]), auxiliary == ["se"]
        rows.append(
            Verb(kind, infinitive, present, participle, forms, " ".join(particle), etre, reflexive)
        )
    return tuple(rows)


WOMEN = _words("Jane Marie Anna Sophie Claire Emma")
MEN = _words("Paul Pierre Thomas Marc Louis Antoine")

# Behind the English: prepositions of location, and "à" if it can be a destination.
SIGHTS = _nouns("""
f ville      villes      city      cities     dans
m village    villages    village   villages   dans
f île        îles        island    islands
f plage      plages      beach     beaches    à
f forêt      forêts      forest    forests    dans
m lac        lacs        lake      lakes      devant à
m parc       parcs       park      parks      dans à
m jardin     jardins     garden    gardens    dans à
m musée      musées      museum    museums    dans devant à
m château    châteaux    castle    castles    dans devant à
f cathédrale cathédrales cathedral cathedrals dans devant à
m hôtel      hôtels      hotel     hotels     dans devant à
m marché     marchés     market    markets    devant à
m aéroport   aéroports   airport   airports   dans devant à
""")

THINGS = _nouns("""
m livre   livres   book     books
f carte   cartes   map      maps
f valise  valises  suitcase suitcases
m billet  billets  ticket   tickets
m cadeau  cadeaux  present  presents
m chapeau chapeaux hat      hats
f photo   photos   picture  pictures
""")

KIN = _nouns("""
f sœur  sœurs  sister   sisters
m frère frères brother  brothers
m ami   amis   friend   friends
f amie  amies  friend   friends
m fils  fils   son      sons
f fille filles daughter daughters
""")

ROLES = _nouns("""
m touriste   touristes   tourist   tourists
f touriste   touristes   tourist   tourists
m voyageur   voyageurs   traveller travellers
f voyageuse  voyageuses  traveller travellers
m homme      hommes      man       men
f femme      femmes      woman     women
m enfant     enfants     child     children
f étudiante  étudiantes  student   students
m étudiant   étudiants   student   students
""")

SMALL_ADJECTIVES = _adjectives("""
grand   grande   grands   grandes                  | big       | bigger
petit   petite   petits   petites                  | small     | smaller
beau    belle    beaux    belles    bel            | beautiful | more beautiful
vieux   vieille  vieux    vieilles  vieil          | old       | older
nouveau nouvelle nouveaux nouvelles nouvel         | new       |
joli    jolie    jolis    jolies                   | pretty    | prettier
""")
"""Those that precede the French noun."""

LONG_ADJECTIVES = _adjectives("""
magnifique  magnifique   magnifiques  magnifiques   | magnificent |
célèbre     célèbre      célèbres     célèbres      | famous      | more famous
moderne     moderne      modernes     modernes      | modern      | more modern
étrange     étrange      étranges     étranges      | strange     | stranger
charmant    charmante    charmants    charmantes    | charming    | more charming
intéressant intéressante intéressants intéressantes | interesting | more interesting
blanc       blanche      blancs       blanches      | white       |
""")

MOODS = _adjectives("""
content contente contents contentes | happy | happier
fatigué fatiguée fatigués fatiguées | tired | more tired
malade  malade   malades  malades   | sick  | sicker
triste  triste   tristes  tristes   | sad   | sadder
""")

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

# Kind; "être" or "se" if the past needs it; infinitive; present; participle | English
VERBS = _verbs("""
sight visiter visite visites visite visitons visitez visitent visité | visit visits visited
sight quitter quitte quittes quitte quittons quittez quittent quitté | leave leaves left
sight découvrir découvre découvres découvre découvrons découvrez découvrent découvert \
    | discover discovers discovered
person attendre attends attends attend attendons attendez attendent attendu \
    | wait waits waited for
person inviter invite invites invite invitons invitez invitent invité | invite invites invited
person rencontrer rencontre rencontres rencontre rencontrons rencontrez rencontrent rencontré \
    | meet meets met
thing acheter achète achètes achète achetons achetez achètent acheté | buy buys bought
thing oublier oublie oublies oublie oublions oubliez oublient oublié | forget forgets forgot
thing perdre perds perds perd perdons perdez perdent perdu | lose loses lost
thing choisir choisis choisis choisit choisissons choisissez choisissent choisi \
    | choose chooses chose
any aimer aime aimes aime aimons aimez aiment aimé | love loves loved
any chercher cherche cherches cherche cherchons cherchez cherchent cherché \
    | look looks looked for
any regarder regarde regardes regarde regardons regardez regardent regardé \
    | look looks looked at
any voir vois vois voit voyons voyez voient vu | see sees saw
goal être aller vais vas va allons allez vont allé | go goes went
origin être revenir reviens reviens revient revenons revenez reviennent revenu \
    | come comes came back
arrival être arriver arrive arrives arrive arrivons arrivez arrivent arrivé | arrive arrives arrived
spot être rester reste restes reste restons restez restent resté | stay stays stayed
spot habiter habite habites habite habitons habitez habitent habité | live lives lived
spot travailler travaille travailles travaille travaillons travaillez travaillent travaillé \
    | work works worked
spot dormir dors dors dort dormons dormez dorment dormi | sleep sleeps slept
spot se promener promène promènes promène promenons promenez promènent promené | walk walks walked
spot se reposer repose reposes repose reposons reposez reposent reposé | rest rests rested
alone être partir pars pars part partons partez partent parti | leave leaves left
alone voyager voyage voyages voyage voyageons voyagez voyagent voyagé | travel travels travelled
""")
RAIN = Verb(
    "weather",
    "pleuvoir",
    ("", "", "pleut", "", "", ""),
    "plu",
    ("rain", "rains", "rained"),
    "",
    with_etre=False,
    reflexive=False,
)

AVOIR = _words("ai as a avons avez ont")
ETRE = _words("suis es est sommes êtes sont")

BE = Auxiliary(ETRE, _words("am are is are are are"))
WERE = Auxiliary(
    _words("étais étais était étions étiez étaient"), _words("was were was were were were")
)
FEEL = Auxiliary(("", "", "fait", "", "", ""), ("", "", "is", "", "", ""))
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

PRONOUNS: tuple[tuple[str, str, int, Gender], ...] = (
    *(("je", "I", 0, gender) for gender in GENDERS),
    *(("tu", "you", 1, gender) for gender in GENDERS),
    ("il", "he", 2, "m"),
    ("elle", "she", 2, "f"),
    *(("nous", "we", 3, gender) for gender in GENDERS),
    *(("vous", "you", 4, gender) for gender in GENDERS),
    ("ils", "they", 5, "m"),
    ("elles", "they", 5, "f"),
)
REFLEXIVES = _words("me te se nous vous se")
STRESSED = ("moi", "me"), ("toi", "you"), ("lui", "him"), ("elle", "her"), ("eux", "them")
POSSESSIVES = (
    ("mon", "ma", "mes", "my"),
    ("ton", "ta", "tes", "your"),
    ("son", "sa", "ses", "his"),  # or her: English agrees with the owner, French with what is owned
    ("notre", "notre", "nos", "our"),
    ("votre", "votre", "vos", "your"),
    ("leur", "leur", "leurs", "their"),
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
