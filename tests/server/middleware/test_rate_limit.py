import pytest

from regard.server.errors import RequestError
from regard.server.middleware.rate_limit import MAX_CLIENTS, RateLimit, client_address
from servers import client

KEYS = ["0123456789abcdef", "fedcba9876543210"]
ASKED = {"q": "Il part."}


def test_so_many_at_once_and_again_over_a_minute():
    now = 0.0
    rates = RateLimit(3, lambda: now)
    for _ in range(3):
        rates.consume("a")
    with pytest.raises(RequestError, match="3 requests a minute") as refused:
        rates.consume("a")
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "20"})
    rates.consume("b")
    now = 20.0
    rates.consume("a")
    with pytest.raises(RequestError):
        rates.consume("a")


def test_no_more_clients_are_remembered_than_there_is_room_for():
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
def test_what_clients_are_told_apart_by(address, name):
    assert client_address(address) == name


def test_by_default_nothing_is_limited():
    rates = RateLimit(None)
    rates.consume("a")
    assert not len(rates)


def test_an_address_that_asks_too_often(tiny_run):
    with client(tiny_run, rate_limit=1) as server:
        assert server.post("/detect", json=ASKED).status_code == 200
        answer = server.post("/detect", json=ASKED)
        assert answer.status_code == 429
        assert answer.json() == {"error": "Slowdown: 1 requests a minute are allowed"}
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert server.get("/languages").status_code == 200  # what costs nothing is not counted


def test_each_key_is_counted_by_itself_and_who_has_none_by_the_address(tiny_run):
    with client(tiny_run, rate_limit=1, keys=KEYS) as server:
        sent = [*KEYS, KEYS[0], "wrong", "other"]
        answers = [server.post("/detect", json={**ASKED, "api_key": key}) for key in sent]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 403, 429]
