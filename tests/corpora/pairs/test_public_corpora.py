import gzip
import hashlib
import re

import pytest
from pydantic import ValidationError

from regard.corpora.download import data_folder
from regard.corpora.pairs import public_corpora
from regard.corpora.pairs.public_corpora import (
    MULTI30K,
    TATOEBA,
    Multi30kSettings,
    TatoebaSettings,
    multi30k,
    tatoeba,
)
from regard.errors import CorpusError


def needs(corpus):
    """Skips where the real files are not at hand."""
    folder = data_folder()
    missing = folder is None or not (folder / corpus).is_dir()
    return pytest.mark.skipif(missing, reason=f"$REGARD_DATA holds no {corpus}")


def count(corpus):
    return {split: sum(1 for _ in read()) for split, read in corpus.splits.items()}


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A data folder with files of two or three lines, which pass for the real ones."""

    def put(path, table, key, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(gzip.compress(text.encode()))
        monkeypatch.setitem(table, key, hashlib.sha256(text.encode()).hexdigest())

    for form, split, language in MULTI30K:
        part = "" if form == "raw" else "tok/"
        middle = "" if form == "raw" else ".lc.norm.tok"
        lines = "".join(f"{form} {split} {language} {n}\n" for n in range(3))
        path = f"multi30k/{part}{split}{middle}.{language}.gz"
        put(path, MULTI30K, (form, split, language), lines)
    for split, pair in TATOEBA:
        lines = "".join(f"{split} English {n}\t{split} {pair[4:]} {n}\n" for n in range(2))
        put(f"tatoeba/{split}.{pair}.tsv.gz", TATOEBA, (split, pair), lines)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "none"))
    return tmp_path


def test_every_file_has_a_checksum():
    assert len(MULTI30K) == 2 * 4 * 3
    assert len(TATOEBA) == 3 * 2
    checksums = [*MULTI30K.values(), *TATOEBA.values()]
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in checksums)
    assert len(set(checksums)) == len(checksums)


@pytest.mark.parametrize("pair", ["en-de", "de-en", "en-fr", "fr-en", "de-fr", "fr-de"])
def test_multi30k_reads_both_languages(small, pair):
    corpus = multi30k(Multi30kSettings(pair=pair))
    source, target = pair.split("-")
    assert corpus.languages == (source, target)
    assert count(corpus) == {"train": 3, "valid": 3, "test": 3}
    assert list(corpus.splits["valid"]())[1] == (f"raw val {source} 1", f"raw val {target} 1")
    assert "non-commercial" in corpus.origin


def test_multi30k_has_another_form_and_another_test(small):
    corpus = multi30k(Multi30kSettings(form="tok", test="test_2017_flickr"))
    assert next(corpus.splits["test"]()) == (
        "tok test_2017_flickr en 0",
        "tok test_2017_flickr de 0",
    )
    assert next(corpus.splits["train"]()).source == "tok train en 0"
    assert "tok" in corpus.origin
    assert "test_2017_flickr" in corpus.origin


@pytest.mark.parametrize("pair", ["eng-deu", "deu-eng", "eng-fra", "fra-eng"])
def test_tatoeba_reads_both_directions(small, pair):
    corpus = tatoeba(TatoebaSettings(pair=pair))
    source, target = pair.split("-")
    assert corpus.languages == (source, target)
    texts = {"eng": "valid English 0", "deu": "valid deu 0", "fra": "valid fra 0"}
    assert next(corpus.splits["valid"]()) == (texts[source], texts[target])
    assert count(corpus) == {"train": 2, "valid": 2, "test": 2}
    assert "CC BY" in corpus.origin


def test_a_changed_file_is_refused(small):
    path = small / "multi30k" / "val.de.gz"
    path.write_bytes(gzip.compress(b"Ein anderer Satz.\n"))
    with pytest.raises(CorpusError, match=re.escape(f"{path}: not the file that is known")):
        multi30k(Multi30kSettings())


def test_tatoeba_says_what_to_do_where_it_is_missing(small):
    (small / "tatoeba" / "valid.eng-fra.tsv.gz").unlink()
    with pytest.raises(CorpusError, match=r"valid\.eng-fra\.tsv\.gz: found neither .*fra\.txt"):
        tatoeba(TatoebaSettings(pair="fra-eng"))


def test_multi30k_knows_where_to_fetch_from():
    raw = public_corpora._multi30k_file("raw", "val", "fr")
    tok = public_corpora._multi30k_file("tok", "test_2016_flickr", "de")
    assert raw.url == f"{public_corpora.UPSTREAM}/raw/val.fr.gz"
    assert tok.url == f"{public_corpora.UPSTREAM}/tok/test_2016_flickr.lc.norm.tok.de"


def test_an_unknown_pair_is_refused():
    with pytest.raises(ValidationError, match="'en-de', 'de-en'"):
        Multi30kSettings(pair="en-cs")


@needs("multi30k")
@pytest.mark.parametrize("form", ["raw", "tok"])
@pytest.mark.parametrize("pair", ["en-de", "fr-en"])
def test_real_multi30k(pair, form):
    corpus = multi30k(Multi30kSettings(pair=pair, form=form))
    assert count(corpus) == {"train": 29_000, "valid": 1_014, "test": 1_000}


@needs("tatoeba")
@pytest.mark.parametrize(("pair", "train"), [("eng-deu", 164_146), ("fra-eng", 160_819)])
def test_real_tatoeba(pair, train):
    assert count(tatoeba(TatoebaSettings(pair=pair))) == {
        "train": train,
        "valid": 1_500,
        "test": 1_500,
    }
