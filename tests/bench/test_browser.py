"""transformers.js in Chromium writes what our greedy search writes."""

import os
from pathlib import Path

import pytest

from bench.browser import PACKAGE, check_packages, translate_in_browser
from regard.errors import SettingsError
from regard.pipelines.exchange.onnx.onnx_export import export_onnx

PACKAGES = Path(os.environ.get("REGARD_NODE_MODULES", "node_modules"))
needs_packages = pytest.mark.skipif(
    not (PACKAGES / PACKAGE).is_dir(),
    reason=f"no {PACKAGE} in {PACKAGES}: install it, or name its folder in $REGARD_NODE_MODULES",
)


def test_the_package_must_be_there(tmp_path):
    with pytest.raises(SettingsError, match="npm install --ignore-scripts @huggingface/transf"):
        check_packages(tmp_path)


@needs_packages
def test_the_browser_writes_the_same(tiny_run, translator, chromium, tmp_path):
    lines = (tiny_run / "data/train.source.txt").read_text(encoding="utf-8").splitlines()[:4]
    lines += ["Zürich, ▁ 漢字!"]
    settings = translator.search_settings(beam=1, n_best=1)
    wanted = [one.text for one in translator.translate(lines, settings, split=False)]
    folder = export_onnx(tiny_run, tmp_path / "out").folder
    limits = [settings.rules.limit(len(ids) + 1) for ids in translator.sources[0].encode(lines)]
    found = translate_in_browser(chromium, folder, PACKAGES, lines, limits)
    assert found.texts == wanted
