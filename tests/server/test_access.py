import pytest

from regard.errors import SettingsError
from regard.server.access import (
    KEYS_VARIABLE,
    MAX_CLIENTS,
    Access,
    RateLimit,
    client_address,
    read_keys,
)
from regard.server.errors import RequestError
from servers import client

FIRST, SECOND = "k" * 20, "ключ" * 5
PAYLOAD = {"q": "Il part."}


@pytest.fixture(autouse=True)
def _no_keys_around(monkeypatch):
    monkeypatch.delenv(KEYS_VARIABLE, raising=False)


def test_only_known_keys_are_accepted():
    access = Access([FIRST, SECOND], None)
    assert access.needs_key
    assert access.is_known(FIRST)
    assert access.is_known(SECOND)
    for wrong in ("", FIRST[:-1], FIRST + "k", FIRST.upper(), "\ud800"):
        assert not access.is_known(wrong)


def test_without_keys_none_is_accepted():
    access = Access(read_keys(None), None)
    assert not access.needs_key
    assert not access.is_known("")


def test_keys_are_read_from_a_file_and_from_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "keys"
    file.write_text(f"# ours\n\n{FIRST}  # the office\n")
    monkeypatch.setenv(KEYS_VARIABLE, f"{SECOND}, {'z' * 16}")
    assert read_keys(file) == [SECOND, "z" * 16, FIRST]


def test_a_file_without_keys_is_an_error(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# none yet\n")
    with pytest.raises(SettingsError, match="has no keys: write one on each line"):
        read_keys(file)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(SettingsError, match="nowhere: cannot be read"):
        read_keys(tmp_path / "nowhere")


def test_a_key_that_is_too_short_is_an_error(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"{FIRST}\nsecret\n")
    with pytest.raises(SettingsError, match="key 2 has 6 characters, but 16 are needed"):
        read_keys(file)


def test_a_short_key_is_named_by_where_it_is(tmp_path, monkeypatch):
    file = tmp_path / "keys"
    file.write_text(f"{FIRST}\nsecret\n")
    monkeypatch.setenv(KEYS_VARIABLE, SECOND)
    with pytest.raises(SettingsError, match=r"keys: key 2 has 6 characters"):
        read_keys(file)
    monkeypatch.setenv(KEYS_VARIABLE, "short")
    with pytest.raises(SettingsError, match=f"{KEYS_VARIABLE}: key 1 has 5 characters"):
        read_keys(file)


def test_a_client_may_send_the_limit_at_once_and_again_over_a_minute():
    now = 0.0
    rates = RateLimit(3, lambda: now)
    for _ in range(3):
        rates.consume("a")
    with pytest.raises(RequestError, match="3 requests a minute") as refused:
        rates.consume("a")
    assert (refused.value.status_code, refused.value.headers) == (429, {"Retry-After": "20"})
    rates.consume("b")
    now = 20.0
    rates.consume("a")
    with pytest.raises(RequestError):
        rates.consume("a")


@pytest.mark.parametrize("limit", [1, 3, 7, 60, 1000])
def test_exactly_the_limit_is_allowed_at_once(limit):
    rates = RateLimit(limit, lambda: 12345.678)
    for _ in range(limit):
        rates.consume("a")
    with pytest.raises(RequestError):
        rates.consume("a")


def test_the_number_of_counted_clients_is_limited():
    rates = RateLimit(1)
    for number in range(MAX_CLIENTS + 5):
        rates.consume(str(number))
    assert len(rates) == MAX_CLIENTS


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("x" * 99, "x" * 64),
    ],
)
def test_clients_are_identified_by_address_or_ipv6_network(address, name):
    assert client_address(address) == name


def test_without_a_limit_no_client_is_counted():
    rates = RateLimit(None)
    rates.consume("a")
    assert not len(rates)


def test_an_address_that_exceeds_the_limit_gets_429(tiny_run):
    with client(tiny_run, rate_limit=1) as server:
        assert server.post("/detect", json=PAYLOAD).status_code == 200
        answer = server.post("/detect", json=PAYLOAD)
        assert answer.status_code == 429
        assert answer.json() == {"error": "Slowdown: 1 requests a minute are allowed"}
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert server.get("/languages").status_code == 200  # what costs nothing is not counted


def test_requests_are_counted_by_key_and_without_a_valid_one_by_address(tiny_run):
    with client(tiny_run, rate_limit=1, keys=[FIRST, SECOND]) as server:
        sent = [FIRST, SECOND, FIRST, "wrong", "other"]
        answers = [server.post("/detect", json={**PAYLOAD, "api_key": key}) for key in sent]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 403, 429]
