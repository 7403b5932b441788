import pytest

from regard.errors import SettingsError
from regard.serving.server.keys import VARIABLE, Keys, read_keys

FIRST, SECOND = "k" * 20, "ключ" * 5


@pytest.fixture(autouse=True)
def _no_keys_around(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def test_only_known_keys_are_admitted():
    keys = Keys([FIRST, SECOND])
    assert keys.admit(FIRST)
    assert keys.admit(SECOND)
    for wrong in ("", FIRST[:-1], FIRST + "k", FIRST.upper(), "\ud800"):
        assert not keys.admit(wrong)


def test_without_keys_there_is_nothing_to_admit():
    assert not Keys()
    assert not read_keys(None)
    assert not Keys().admit("")


def test_all_digests_are_compared_whichever_fits(monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr("regard.serving.server.keys.hmac.compare_digest", compare)
    keys = Keys([FIRST, SECOND, "x" * 40])
    for given in (FIRST, SECOND, "y"):
        compared.clear()
        keys.admit(given)
        assert compared == [(32, 32)] * 3


def test_keys_from_a_file_and_from_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "keys"
    file.write_text(f"# ours\n\n{FIRST}  # the office\n")
    monkeypatch.setenv(VARIABLE, f"{SECOND}, {'z' * 16}")
    keys = read_keys(file)
    assert all(map(keys.admit, (FIRST, SECOND, "z" * 16)))
    assert not keys.admit("the office")


def test_a_file_without_keys(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# none yet\n")
    with pytest.raises(SettingsError, match="holds no keys: write one on each line"):
        read_keys(file)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(SettingsError, match="nowhere: cannot be read"):
        read_keys(tmp_path / "nowhere")


def test_a_key_that_could_be_guessed(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"{FIRST}\nsecret\n")
    with pytest.raises(SettingsError, match="key 2 has 6 characters, but 16 are needed"):
        read_keys(file)
