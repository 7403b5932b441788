"""Letters to phonemes: an `.npz` of arrays becomes a run, by the equations of its package."""

import os
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.errors import RunError
from regard.exchange import g2p_en
from regard.exchange.g2p_en import LETTERS, PHONEMES, read_g2p
from regard.pipelines.exchange import from_g2p_en
from regard.pipelines.exchange.exchange_report import REPORT
from regard.pipelines.exchange.import_run import import_folder
from tests.pipelines.exchange.test_from_ctranslate2 import refused

DATA = Path(os.environ.get("REGARD_DATA", "/nowhere")) / "models" / "g2p_en"
D, E = 6, 5


def arrays(rng=None):
    rng = rng or np.random.default_rng(0)
    shapes = {"fc_w": (len(PHONEMES) + 4, D), "fc_b": (len(PHONEMES) + 4,)}
    for side, rows in (("enc", len(LETTERS) + 3), ("dec", len(PHONEMES) + 4)):
        shapes |= {f"{side}_emb": (rows, E), f"{side}_w_ih": (3 * D, E), f"{side}_w_hh": (3 * D, D)}
        shapes |= {f"{side}_b_ih": (3 * D,), f"{side}_b_hh": (3 * D,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "g2p"
    place.mkdir()
    np.savez(place / "checkpoint20.npz", **arrays())
    return place


def test_arrays_become_a_run_that_computes_the_same(folder, tmp_path):
    gate = import_folder(folder, tmp_path / "run").report.gate
    assert gate.refused is None
    assert gate.float64 < 1e-12
    assert gate.float32 < 1e-4
    assert gate.same_answers == gate.answers >= 10


@pytest.mark.parametrize(
    "pair", [("enc_w_ih", "dec_w_ih"), ("enc_b_ih", "enc_b_hh"), ("enc_w_hh", "dec_w_hh")]
)
def test_a_swapped_pair_is_refused(pair, folder, tmp_path, monkeypatch):
    one, two = pair
    turned = g2p_en.NAMES | {one: g2p_en.NAMES[two], two: g2p_en.NAMES[one]}
    monkeypatch.setattr(g2p_en, "NAMES", turned)
    refused(folder, tmp_path / "run", "would give other outputs")


def test_a_shifted_vocabulary_is_refused(folder, tmp_path, monkeypatch):
    read = g2p_en.read_g2p

    def shifted(path):
        model = read(path)
        rows = model.weights["target.weight"].roll(1, 0)
        return model._replace(weights=model.weights | {"target.weight": rows})

    monkeypatch.setattr(from_g2p_en, "read_g2p", shifted)
    refused(folder, tmp_path / "run", "would give other outputs")


def zipped(**files):
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{name}.npy", data)
    return content.getvalue()


def npy(array, **options):
    content = BytesIO()
    np.save(content, array, **options)
    return content.getvalue()


HUGE_HEADER = npy(np.zeros(1, np.float32)).replace(b"(1,), }", b"(999999999999,), }")
NO_END = npy(np.zeros(1, np.float32)).replace(b"(1,), }", b"(1,), (")
HOSTILE = {
    "no archive": (b"PK\x03\x04 nothing", "no arrays can be read"),
    "a pickle": (zipped(a=npy(np.array([{}], object), allow_pickle=True)), "not an array of"),
    "a bomb": (zipped(a=bytes(65 << 20)), "more than 67,108,864 bytes"),
    "a huge shape": (zipped(a=HUGE_HEADER), "no arrays can be read"),
    "a header without an end": (zipped(a=NO_END), "no arrays can be read"),
    "another model": (zipped(a=npy(np.zeros(3, np.float32))), "not the weights of g2p_en"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives_are_refused(kind, tmp_path):
    content, reason = HOSTILE[kind]
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(RunError, match=reason):
        read_g2p(path)


def test_a_wrong_shape_is_named(tmp_path):
    wrong = arrays() | {"fc_b": np.zeros(3, np.float32)}
    np.savez(tmp_path / "x.npz", **wrong)
    with pytest.raises(RunError, match=r"fc_b has shape \(3,\), g2p_en's \(74,\)"):
        read_g2p(tmp_path / "x.npz")


def test_a_damaged_archive_and_an_array_without_axes_are_refused(tmp_path):
    path, content = tmp_path / "x.npz", bytearray(zipped(a=npy(np.arange(999, dtype=np.float32))))
    content[60:90] = bytes(30)  # inside the compressed bytes
    path.write_bytes(content)
    with pytest.raises(RunError, match="no arrays can be read"):
        read_g2p(path)
    np.savez(path, **arrays() | {"enc_w_hh": np.zeros((), np.float32)})
    with pytest.raises(RunError, match=r" has shape \("):
        read_g2p(path)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs models/ in $REGARD_DATA")
def test_published_weights_pronounce_attention(tmp_path):
    run = import_folder(DATA, tmp_path / "run")
    assert "stored answers" in run.report.gate.reference
    assert str(regard.load(run.folder)("attention")) == "AH0 T EH1 N SH AH0 N"
    assert (run.folder / REPORT).exists()
    assert torch.isfinite(torch.tensor(run.report.gate.float32))
