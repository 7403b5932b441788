"""Public corpora, known by name and verified by their checksums."""

from dataclasses import replace
from functools import partial
from typing import Literal

from regard.corpora.corpus import Corpus, ReadReport, SplitName
from regard.corpora.download import KnownFile, get_file
from regard.corpora.pairs.dialogues import DialogueSettings, dialogue_corpus
from regard.corpora.readers.dialogue_files import read_dialogues
from regard.corpora.readers.pair_files import FilesSettings, read_pairs
from regard.corpora.splits import SplitSettings
from regard.settings import Settings

DAILYDIALOG = KnownFile(
    "dialogue/data_positives.jsonl.gz",
    "36ae33206b536161816dbbb611843c0dc5172612bc94f604a8484f812ebdc0a9",
    archive="dialogue/dailydialog-plusplus.tar.xz",
    member="dailydialog-plusplus/data_positives.jsonl",
    advice="It is dataset/data_positives.json of https://github.com/iitmnlp/DailyDialog-plusplus "
    "with a context a line",
)
UPSTREAM = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"


class Multi30kSettings(Settings):
    """Which part of Multi30k: descriptions of pictures, each in three languages."""

    pair: Literal["en-de", "de-en", "en-fr", "fr-en", "de-fr", "fr-de"] = "en-de"
    """The languages of source and target."""
    form: Literal["raw", "tok"] = "raw"
    """`raw`: the original text. `tok`: lower-cased, normalised and tokenised, as in most published
    scores."""
    test: Literal["test_2016_flickr", "test_2017_flickr"] = "test_2016_flickr"
    """The test set."""


class TatoebaSettings(Settings):
    """Which part of Tatoeba: everyday sentences."""

    pair: Literal["eng-deu", "deu-eng", "eng-fra", "fra-eng"] = "eng-deu"
    """The languages of source and target."""


def multi30k(settings: Multi30kSettings) -> Corpus:
    """The corpus of task 1, found or downloaded, and checked."""
    source, target = settings.pair.split("-")
    names: dict[SplitName, str] = {"train": "train", "valid": "val", "test": settings.test}
    files = {
        split: FilesSettings(
            source=str(get_file(_multi30k_file(settings.form, name, source))),
            target=str(get_file(_multi30k_file(settings.form, name, target))),
        )
        for split, name in names.items()
    }
    return Corpus(
        f"multi30k {settings.pair}",
        (source, target),
        {split: partial(read_pairs, each, (source, target)) for split, each in files.items()},
        origin="Multi30k, task 1 (https://github.com/multi30k/dataset), for non-commercial "
        f"research and education; {settings.form} text, {settings.test}",
    )


def dailydialog(settings: DialogueSettings) -> Corpus:
    """Contexts with five answers each, found and checked, with splits of our own by dialogue."""
    file = str(get_file(DAILYDIALOG))
    read = partial(read_dialogues, file, ReadReport())
    corpus = dialogue_corpus(
        "dailydialog", "en", {"train": read}, settings, SplitSettings(valid=2000, test=3750)
    )
    origin = (
        "DailyDialog++ (https://github.com/iitmnlp/DailyDialog-plusplus; Sai et al. 2020), the "
        "contexts of its data_positives.json with five answers each; licence MIT, as stated there"
    )
    return replace(corpus, origin=origin)


def tatoeba(settings: TatoebaSettings) -> Corpus:
    """The corpus with splits of our own, found and checked; the data at its address has grown."""
    source, target = settings.pair.split("-")
    columns, other = ((0, 1), target) if source == "eng" else ((1, 0), source)
    names: tuple[SplitName, ...] = ("train", "valid", "test")
    files = {
        split: FilesSettings(data=str(get_file(_tatoeba_file(split, other))), columns=columns)
        for split in names
    }
    return Corpus(
        f"tatoeba {settings.pair}",
        (source, target),
        {split: partial(read_pairs, each, (source, target)) for split, each in files.items()},
        origin="Tatoeba (https://tatoeba.org) through https://www.manythings.org/anki, CC BY 2.0, "
        "attribution to both",
    )


def _table(text: str) -> dict[tuple[str, ...], str]:
    """Rows of words: the last is the value, those before it the key."""
    rows = (line.split() for line in text.strip().splitlines())
    return {tuple(key): value for *key, value in rows}


# The sha256 of the unzipped contents of each file.
MULTI30K = _table("""
raw train            en 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
raw train            de 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
raw train            fr 5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d
raw val              en 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
raw val              de 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
raw val              fr 5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc
raw test_2016_flickr en 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
raw test_2016_flickr de 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
raw test_2016_flickr fr cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6
raw test_2017_flickr en ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98
raw test_2017_flickr de c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081
raw test_2017_flickr fr 6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6
tok train            en 08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119
tok train            de cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505
tok train            fr 8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1
tok val              en 46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec
tok val              de 97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00
tok val              fr b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a
tok test_2016_flickr en 5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2
tok test_2016_flickr de c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4
tok test_2016_flickr fr 1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836
tok test_2017_flickr en c9d1dfd7a26add989382e534af235af9f0f658b2a30e7eb0efdaf142496ee54f
tok test_2017_flickr de 02067e4a9402786a4fcb8c1b6f4307e4a5073ced64800abead5273b54f5f31f6
tok test_2017_flickr fr c0583117a47b31e8a6c6a97cfe8de153e462074668f4e994764fcc80b21d33b4
""")

TATOEBA = _table("""
train eng-deu b1fd6f3839ef2ea942bb9f5877823ad334efea76de7497be8afbda35d561aa7a
valid eng-deu 749cb648c46bc75c3b8eecc8df7f9de13739148d48e48b01ef248b1caead1b9a
test  eng-deu f7dce3aa6922e10fb13deef3e64f72286e432045b4b84da307a444a80e75329a
train eng-fra 7b37e71594d87c706f97b4fdf563646508087213eb03b2207162172727764aa3
valid eng-fra 6511d59e317fa9a006a3e7103e8023c2db4ecf21bb399ae2004e24c6b9ae40c8
test  eng-fra b1aae03f44fe0876fa6f07aee1359132a11e5fa933adb86ce7e21ab178499fa1
""")


def _multi30k_file(form: str, name: str, language: str) -> KnownFile:
    if form == "raw":
        path, url = f"multi30k/{name}.{language}.gz", f"{UPSTREAM}/raw/{name}.{language}.gz"
    else:
        file = f"{name}.lc.norm.tok.{language}"
        path, url = f"multi30k/tok/{file}.gz", f"{UPSTREAM}/tok/{file}"
    return KnownFile(path, MULTI30K[form, name, language], url)


def _tatoeba_file(split: str, other: str) -> KnownFile:
    path = f"tatoeba/{split}.eng-{other}.tsv.gz"
    advice = (
        "These splits are our own, made from what https://www.manythings.org/anki served in 2018 "
        f"and 2019; what it serves today can be trained on as your own files: data={other}.txt, "
        "format=tsv"
    )
    return KnownFile(path, TATOEBA[split, f"eng-{other}"], advice=advice)
