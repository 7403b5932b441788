import pytest

from regard.errors import SettingsError
from regard.server.middleware.api_keys import KEYS_VARIABLE, ApiKeys, read_keys

FIRST, SECOND = "k" * 20, "ключ" * 5


@pytest.fixture(autouse=True)
def _no_keys_around(monkeypatch):
    monkeypatch.delenv(KEYS_VARIABLE, raising=False)


def test_only_known_keys_are_admitted():
    keys = ApiKeys([FIRST, SECOND])
    assert keys.authorize(FIRST)
    assert keys.authorize(SECOND)
    for wrong in ("", FIRST[:-1], FIRST + "k", FIRST.upper(), "\ud800"):
        assert not keys.authorize(wrong)


def test_without_keys_there_is_nothing_to_admit():
    assert not ApiKeys()
    assert not read_keys(None)
    assert not ApiKeys().authorize("")


def test_all_digests_are_compared_whichever_fits(monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr("regard.server.middleware.api_keys.hmac.compare_digest", compare)
    keys = ApiKeys([FIRST, SECOND, "x" * 40])
    for given in (FIRST, SECOND, "y"):
        compared.clear()
        keys.authorize(given)
        assert compared == [(32, 32)] * 3


def test_keys_from_a_file_and_from_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "keys"
    file.write_text(f"# ours\n\n{FIRST}  # the office\n")
    monkeypatch.setenv(KEYS_VARIABLE, f"{SECOND}, {'z' * 16}")
    keys = read_keys(file)
    assert all(map(keys.authorize, (FIRST, SECOND, "z" * 16)))
    assert not keys.authorize("the office")


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
