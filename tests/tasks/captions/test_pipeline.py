import base64
import io
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from caption_runs import TRANSFORMER, save_picture, train_captioner
from regard.decoding.settings import search_settings
from regard.errors import PictureError, SettingsError
from regard.images.picture_files import crop_square
from regard.tasks.captions import pipeline as captioner_module
from regard.types import Hypothesis


@pytest.fixture(scope="module")
def captioner(caption_run):
    return regard.load(caption_run, device="cpu")


@pytest.fixture
def picture(tmp_path):
    return save_picture(tmp_path / "shapes.png")


def test_a_picture_has_a_caption_of_known_words(captioner, picture):
    answer = captioner(picture)
    assert answer.text
    assert set(answer.text.split()) <= {
        *["a", "left", "right", "of", "square", "ring", "red", "green", "blue", "yellow"]
    }
    assert str(answer) == answer.text
    assert answer.score == answer.candidates[0].score < 0
    assert answer.to_json()["picture"] == str(picture)
    json.dumps(answer.to_json())


def test_every_picture_gives_one_answer_whatever_it_is(captioner, tmp_path, picture):
    (tmp_path / "text.jpg").write_text("no picture")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (60, 40)).save(tmp_path / "turned.jpg", exif=exif)
    Image.new("CMYK", (40, 40)).save(tmp_path / "print.jpg")
    Image.fromarray(np.full((40, 40), 40_000, np.uint16)).save(tmp_path / "deep.png")
    Image.new("RGB", (1, 1)).save(tmp_path / "dot.png")
    Image.new("1", (10_000, 10_000)).save(tmp_path / "large.png")
    (tmp_path / "cut.png").write_bytes(picture.read_bytes()[:-900])
    names = "shapes.png text.jpg turned.jpg print.jpg deep.png dot.png large.png cut.png none.png"
    paths = [tmp_path / name for name in names.split()]
    answers = captioner.caption(paths)
    assert [answer.picture for answer in answers] == [str(path) for path in paths]
    failed = [path.name for path, answer in zip(paths, answers, strict=True) if answer.error]
    assert failed == ["text.jpg", "large.png", "cut.png", "none.png"]
    assert all(bool(answer.text) != bool(answer.error) for answer in answers)
    notes = {path.name: answer.notes for path, answer in zip(paths, answers, strict=True)}
    assert notes["shapes.png"] == ()
    assert notes["turned.jpg"][0] == "rotated according to its EXIF data"
    assert notes["print.jpg"][0] == "converted from CMYK, without a colour profile"
    assert notes["deep.png"][0] == "16 bits a pixel, reduced to 8"
    assert notes["dot.png"][0] == "only 1 × 1 pixels, enlarged"
    assert "error" in answers[1].to_json()
    with pytest.raises(PictureError, match="not a picture"):
        captioner(paths[1])


def test_answers_do_not_depend_on_the_other_pictures(captioner, tmp_path, picture):
    others = [save_picture(tmp_path / f"{seed}.png", seed) for seed in range(5)]
    together = captioner.caption([*others, picture])
    assert [one.text for one in together] == [captioner(one).text for one in [*others, picture]]


def test_the_n_best_and_samples(captioner, picture):
    best = captioner(picture, search_settings(captioner.settings, beam=3, n_best=3))
    scores = [one.score for one in best.candidates]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    drawn = search_settings(captioner.settings, n_best=4, sampling={"seed": 3})
    texts = [[one.text for one in captioner(picture, drawn).candidates] for _ in range(2)]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 1


def test_a_caption_that_is_cut_is_noted(captioner, picture):
    settings = captioner.settings.model_copy(
        update={"rules": captioner.settings.rules.model_copy(update={"max_length": 2})}
    )
    assert "cut at the length limit" in captioner(picture, settings).notes[0]


def test_each_word_has_its_weights_over_the_regions(captioner, picture):
    answer = captioner.look(picture)
    attention = answer.attention
    assert attention.words == tuple(answer.text.split())
    assert attention.grid == (6, 6)
    weights = attention.weights()
    assert weights.shape == (len(attention.words), 6, 6)
    torch.testing.assert_close(weights.sum((1, 2)), torch.ones(len(weights)))
    assert answer.text == captioner(picture).text
    assert captioner(picture).attention is None
    with pytest.raises(SettingsError, match="was not recorded"):
        captioner(picture).plot()
    with pytest.raises(SettingsError, match=r"give one PICTURE .* got 2"):
        captioner.look(["a.png", "b.png"])


def test_a_transformer_has_weights_of_every_layer_and_head(tmp_path, monkeypatch, picture):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    run = train_captioner(tmp_path / "run", TRANSFORMER, "training.steps=5")
    attention = regard.load(run, device="cpu").look(picture).attention
    assert attention.maps.weights.shape[:2] == (2, 2)
    assert attention.weights(1, 0).shape[1:] == (6, 6)


def test_the_page_holds_the_picture_and_the_weights(captioner, picture):
    answer = captioner.look(picture)
    held = re.search(r'id="look">(.*?)</script>', answer.page("run"), re.DOTALL)[1]
    document = json.loads(held)
    kind, _, content = document["picture"].partition(",")
    assert kind == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(content))) as image:
        shown = np.asarray(image).astype(int)
    with Image.open(picture) as image:
        original = crop_square(np.asarray(image), 48)
    assert np.abs(shown - original).mean() < 8
    [layer], weights = document["layers"], answer.attention.maps.weights[0]  # (H, T, S)
    assert layer["shape"] == list(weights.shape)
    assert layer["grid"] == document["grid"]
    levels = np.frombuffer(base64.b64decode(layer["weights"]), np.uint8).reshape(weights.shape)
    peaks = np.frombuffer(base64.b64decode(layer["peaks"]), np.float32).reshape(
        *levels.shape[:2], 1
    )
    np.testing.assert_allclose(levels * peaks / 255, weights, atol=1 / 400)
    assert document["words"] == answer.text.split()
    assert answer.page("run").count("data:image/jpeg;base64") == 1


def test_an_empty_caption_has_a_note_and_a_page(captioner, picture, monkeypatch):
    empty = [[Hypothesis((), 0.0, 0.0, finished=True)]]
    monkeypatch.setattr(captioner_module, "caption_inputs", lambda *_, **__: empty)
    answer = captioner.look(picture)
    assert answer.notes == ("the caption is empty: the model ends before the first word",)
    assert answer.attention.words == ()
    assert picture.name in answer.page("tiny")
