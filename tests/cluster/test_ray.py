"""Bulk translation by the command, which starts Ray itself, and the server's routes."""

import socket
import subprocess
import sys
from importlib import import_module

import httpx
import pytest

from regard.errors import SettingsError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
LOOPBACK = "127.0.0.1"
LINES = ["Jane visite l'Afrique en septembre.", "", "Paul aime la mer."]


@pytest.fixture(scope="module")
def ray():
    """Ray on two cores; it is imported here, as that takes seconds, and warns."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'regard[cluster]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 << 20,
        )
        yield ray
        ray.shutdown()


def test_bulk_gives_what_the_translator_gives(tiny_run, translator, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'regard[cluster]'")
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("".join(f"{line}\n" for line in LINES * 1000))  # two blocks
    args = [str(tiny_run), str(source), "--out", str(out), "--beam", "1", "--actors", "1"]
    args += ["--device", "cpu", "--engine", "native"]
    command = [sys.executable, "-m", "regard", "bulk", *args]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert shown.returncode == 0, shown.stderr
    expected = [one.text for one in translator.translate(LINES, translator.search_settings(beam=1))]
    assert (out / "in.txt").read_text().splitlines() == expected * 1000
    assert "3,000  1,000" in shown.stdout  # lines, and blank ones


def test_ray_serve_has_the_routes_and_the_page_of_the_server(ray, tiny_run, translator, tmp_path):
    serve, ours = import_module("ray.serve"), import_module("regard.cluster.ray_serve")
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    given = {"models": str(tiny_run), "device": "cpu", "engine": "native", "files": tmp_path}
    try:
        serve.start(http_options={"host": LOOPBACK, "port": port})
        serve.run(ours.app(ours.ServeArguments(**given)))
        with httpx.Client(base_url=f"http://{LOOPBACK}:{port}", timeout=60) as client:
            assert client.get("/ready").json()["models"] == ["fr-en"]
            assert "static/page/" in client.get("/").text
            asked = {"q": LINES[0], "source": "fr", "target": "en"}
            answer = client.post("/translate", json=asked).json()["translatedText"]
            sent = client.post("/translate_file", data=asked, files={"file": ("a.txt", LINES[0])})
            assert client.get(sent.json()["translatedFileUrl"]).text == answer
        assert answer == translator(LINES[0]).text
    finally:
        serve.shutdown()


def test_an_address_where_no_cluster_is_ends_at_once():
    module = pytest.importorskip("regard.cluster.ray_bulk", reason="Ray is not installed")
    for address, message in {
        "127.0.0.1:1": "no Ray cluster answers",
        "ray://a:1": "HOST:PORT",
    }.items():
        with pytest.raises(SettingsError, match=message):
            module._check_address(address)
