from regard.server.settings import ServerSettings


def allowed_hosts(**settings):
    return ServerSettings(**settings).allowed_hosts


def test_a_loopback_server_accepts_loopback_names_alone():
    assert set(allowed_hosts()) == {"localhost", "127.0.0.1", "::1"}
    assert "box.local" in allowed_hosts(hosts=("box.local",))
    assert "127.0.0.9" in allowed_hosts(host="127.0.0.9")


def test_a_server_in_the_network_accepts_all_names_by_default():
    assert allowed_hosts(host="0.0.0.0") == ()
    assert allowed_hosts(host="0.0.0.0", hosts=("a",)) == ("a",)
