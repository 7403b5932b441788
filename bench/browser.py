"""Translate in Chromium by transformers.js what a run translates, and compare the texts.

The package is that of npm: `npm install --ignore-scripts @huggingface/transformers`. Nothing but
the loopback address is asked for.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.chromium import open_chromium
from bench.exports import test_set
from bench.report import console
from regard.errors import RunError, SettingsError
from regard.exchange.onnx_graphs import BROWSER_FOLDER
from regard.pipelines.exchange.onnx.onnx_export import export_onnx, onnx_precision
from regard.tasks.translation.pipeline import load
from regard.text.build import load_tokenizers

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PACKAGE = "@huggingface/transformers"
MINUTES = 10  # that a page may take
TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm"}
PAGE = """<!doctype html><meta charset="utf-8"><title>transformers.js</title><script type="module">
import { env, pipeline } from "/npm/@huggingface/transformers/dist/transformers.min.js";
env.allowLocalModels = true;
env.allowRemoteModels = false;
env.useBrowserCache = false;
env.useWasmCache = false;
env.localModelPath = "/models/";
env.backends.onnx.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
env.backends.onnx.wasm.numThreads = 1;
window.translateAll = async (texts, limits) => {
  const translate = await pipeline("translation", "run");
  const found = [], started = performance.now();
  for (let i = 0; i < texts.length; ++i) {
    const [answer] = await translate(texts[i], { max_new_tokens: limits[i] });
    found.push(answer.translation_text);
  }
  return { texts: found, seconds: (performance.now() - started) / 1000 };
};
window.loaded = true;
</script>
"""


class InBrowser(NamedTuple):
    """What a page wrote."""

    texts: list[str]
    seconds: float


class _Handler(SimpleHTTPRequestHandler):
    """The page, the folders by the first part of a path, and nothing else."""

    def __init__(self, *args: Any, roots: dict[str, Path], **kwargs: Any) -> None:
        self.roots, self.extensions_map = roots, {**self.extensions_map, **TYPES}
        super().__init__(*args, **kwargs)

    def do_GET(self) -> None:  # the library's name
        if self.path != "/":
            super().do_GET()
            return
        content = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def translate_path(self, path: str) -> str:
        for prefix, root in self.roots.items():
            if path.startswith(prefix) and ".." not in path:
                return str(root / path.partition("?")[0].removeprefix(prefix))
        return "/nowhere"

    def log_message(self, format: str, *args: Any) -> None:
        return


@contextmanager
def served(folder: Path, packages: Path) -> Iterator[str]:
    """The address of a page that has an exported `folder` and the packages of npm."""
    roots = {"/models/run/": folder, "/npm/": packages}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, roots=roots))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def translate_in_browser(
    browser: "Browser", folder: Path, packages: Path, texts: Sequence[str], limits: Sequence[int]
) -> InBrowser:
    """What transformers.js makes of `texts`, with at most so many tokens each."""
    with served(folder, packages) as address:
        context = browser.new_context()
        context.set_default_timeout(MINUTES * 60_000)
        context.route(
            "**/*",
            lambda route: (
                route.continue_()
                if route.request.url.startswith((address, "blob:", "data:"))
                else route.abort()
            ),
        )
        page, said = context.new_page(), list[str]()
        page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        try:
            page.goto(address)
            page.wait_for_function("window.loaded === true", timeout=60_000)
            found = page.evaluate(
                "([texts, limits]) => translateAll(texts, limits)", [list(texts), list(limits)]
            )
        except Exception as error:  # Playwright's, or what the page threw
            raise RunError(f"transformers.js: {error}; its console: {' '.join(said)}") from None
        finally:
            context.close()
    return InBrowser(**found)


def check_packages(packages: Path) -> str:
    """The version of transformers.js in a folder of npm's packages; an error if there is none."""
    file = packages / PACKAGE / "package.json"
    if not file.is_file() or not (packages / "onnxruntime-web").is_dir():
        raise SettingsError(
            f"{packages}: holds no {PACKAGE} and onnxruntime-web; install them there: npm install "
            f"--ignore-scripts {PACKAGE}"
        )
    return str(json.loads(file.read_text(encoding="utf-8"))["version"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a run's folder")
    parser.add_argument("--packages", type=Path, required=True, help="npm's folder node_modules")
    parser.add_argument("--sentences", type=int, default=50, help="of the test set (%(default)s)")
    parser.add_argument("--precision", default="float32", help="or int8 (%(default)s)")
    asked = parser.parse_args()
    version = check_packages(asked.packages)
    texts = test_set(asked.model, asked.sentences).sources
    translator = load(asked.model, device="cpu", engine="native")
    settings = translator.search_settings(beam=1, n_best=1)
    started = time.perf_counter()
    ours = [one.text for one in translator.translate(texts, settings, split=False)]
    seconds = time.perf_counter() - started
    ids = load_tokenizers(asked.model).source.encode(texts)
    limits = [settings.rules.limit(len(one) + 1) for one in ids]
    with TemporaryDirectory() as place, open_chromium() as browser:
        folder = Path(place, "model")
        exported = export_onnx(asked.model, folder, precision=onnx_precision(asked.precision))
        if not (folder / BROWSER_FOLDER).is_dir():
            raise RunError(f"{asked.model}: {exported.remark}")
        found = translate_in_browser(browser, folder, asked.packages, texts, limits)
        chromium = browser.version
    same = sum(one == other for one, other in zip(ours, found.texts, strict=True))
    console.print(
        f"transformers.js {version}, Chromium {chromium}, {asked.precision}: {same} of "
        f"{len(texts)} texts as ours by greedy search; {found.seconds:.1f} s there, one by one, "
        f"{seconds:.1f} s here, in batches"
    )
    for text, mine, theirs in zip(texts, ours, found.texts, strict=True):
        if mine != theirs:
            console.print(f"  {text}\n  ours            {mine}\n  transformers.js {theirs}")
