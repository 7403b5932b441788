"""The faults that `python -m bench planted_faults` plants, each with the tests that notice it.

A row states what a user or a model loses (its behaviour); the edit is one way to lose it in the
code as it is. Where that code has changed, the edit is written again from the behaviour. `core` is
a formula or a contract; `edge` is a value that is not handed on: an option lost on one of two ways,
at the second step or in the second chunk.
"""

from typing import Literal, NamedTuple


class Fault(NamedTuple):
    """A fault, planted by replacing a text that occurs once in a file."""

    kind: Literal["core", "edge"]
    behaviour: str  # what no longer holds
    file: str  # in src/regard
    old: str
    new: str
    tests: str  # what pytest runs, separated by spaces


FAULTS = (
    Fault(
        "core",
        "stochastic depth keeps the scale: what is not dropped is divided by 1 - p",
        "layers/transformer_parts.py",
        "return (kept / (1 - p)).expand(shape)",
        "return kept.float().expand(shape)",
        "tests/layers tests/models/vision tests/models/test_predictors.py",
    ),
    Fault(
        "core",
        "a counted text is left out of its own n-gram counts while a classifier trains",
        "models/classification/text_classifier.py",
        "batch.labels if self.training else None",
        "None",
        "tests/models tests/tasks/test_text_classification.py",
    ),
    Fault(
        "core",
        "a constant dimension of pooled vectors is standardized to finite numbers",
        "models/classification/text_classifier.py",
        ".clamp(min=LEAST_DEVIATION)",
        "",
        "tests/models/test_text_classifiers.py tests/tasks/test_text_classification.py",
    ),
    Fault(
        "core",
        "a tokenizer's fingerprint depends on whether it ignores case",
        "text/tokenizer.py",
        'include={"kind", "form", "lowercase", "sampling"}',
        'include={"kind", "form", "sampling"}',
        "tests/text",
    ),
    Fault(
        "core",
        "an import is refused if any answer of the sample differs",
        "pipelines/exchange/gate.py",
        "    if same < answers:",
        "    if answers and not same:",
        "tests/pipelines/exchange tests/pipelines/test_seq2seq_exchange.py",
    ),
    Fault(
        "core",
        "an export is refused if any translation of the sample differs",
        "engines/ctranslate2/parity_check.py",
        "    if mismatched:",
        "    if mismatched == len(native):",
        "tests/engines",
    ),
    Fault(
        "edge",
        "pairs of corpus.mix that share a sentence with held-out pairs are dropped",
        "tasks/translation/prepared_data.py",
        "        held_out = _read_held_out(corpus)\n        kept",
        "        held_out = iter(())\n        kept",
        "tests/tasks/translation tests/corpora",
    ),
    Fault(
        "edge",
        "each batch of an epoch has its own segmentation samples",
        "batching/sampler.py",
        "default_rng([seed, epoch, number])",
        "default_rng([seed, epoch])",
        "tests/batching tests/text",
    ),
    Fault(
        "edge",
        "forbidden words are in no translation with markup, nor in documents",
        "cli/inference/translate.py",
        "split=split, forbidden=forbid or (), unknown=dictionary\n        )\n        _translate_m",
        "split=split, unknown=dictionary\n        )\n        _translate_m",
        "tests/cli/inference tests/pipelines/markup",
    ),
    Fault(
        "edge",
        "forbidden words are in no translation that is looked into",
        "pipelines/translator.py",
        "request = self._request(search, n_best, prefix, forbidden, unknown)\n        return look_at",
        "request = self._request(search, n_best, prefix, (), unknown)\n        return look_at",
        "tests/pipelines tests/cli/commands/test_look.py",
    ),
    Fault(
        "edge",
        "changes of attention act on every step of a forecast",
        "pipelines/forecaster.py",
        "[*changes, *([recorder] if recorder else [])]",
        "[*(changes if step == 0 else ()), *([recorder] if recorder else [])]",
        "tests/pipelines/test_forecaster.py tests/cli/inference/test_forecast.py",
    ),
    Fault(
        "edge",
        "tags do not count when the language of HTML is detected",
        "server/routes/translation.py",
        '[strip_tags(text) for text in texts] if payload.format == "html" else texts',
        "texts",
        "tests/server/routes tests/server/test_language_detection.py",
    ),
    Fault(
        "edge",
        "tags do not count when the language of a file is detected",
        "server/routes/files.py",
        'strip_tags(text) if kind == "html" else text',
        "text",
        "tests/server/routes tests/server/test_language_detection.py",
    ),
    Fault(
        "edge",
        "a look into a caption shows the changed attention",
        "pipelines/captioner.py",
        "hook = compose_hooks(*self._changes, recorder)",
        "hook = recorder",
        "tests/pipelines/test_captioner.py tests/cli/inference/test_caption.py",
    ),
    Fault(
        "edge",
        "sampled captions of one picture differ from chunk to chunk",
        "pipelines/captioner.py",
        "            first += len(names)\n",
        "",
        "tests/pipelines/test_captioner.py tests/cli/inference/test_caption.py",
    ),
    Fault(
        "edge",
        "JSON has the notes of a translation",
        "cli/inference/translate.py",
        '"notes": list(answer.notes),',
        '"notes": [],',
        "tests/cli/inference",
    ),
    Fault(
        "edge",
        "JSON has the notes of a caption",
        "pipelines/captioner.py",
        '"notes": list(self.notes)}',
        '"notes": []}',
        "tests/pipelines/test_captioner.py tests/cli/inference/test_caption.py",
    ),
    Fault(
        "edge",
        "JSON has the notes of a continuation",
        "pipelines/language/completion.py",
        '"notes": list(self.notes),',
        '"notes": [],',
        "tests/pipelines/language tests/cli/inference",
    ),
    Fault(
        "edge",
        "JSON has the notes of a filled text",
        "pipelines/language/filling.py",
        '"notes": list(self.notes),',
        '"notes": [],',
        "tests/pipelines/language tests/cli/inference",
    ),
    Fault(
        "edge",
        "JSON has the notes of a classified text",
        "pipelines/classification/label_pipeline.py",
        '"notes": list(self.notes)}',
        '"notes": []}',
        "tests/pipelines/classification tests/cli/inference",
    ),
    Fault(
        "edge",
        "JSON has the notes of a forecast",
        "pipelines/forecaster.py",
        'document["notes"] = list(self.notes)',
        'document["notes"] = []',
        "tests/pipelines/test_forecaster.py tests/cli/inference",
    ),
    Fault(
        "edge",
        "JSON has the notes of an answer in a conversation",
        "cli/inference/chat.py",
        '"notes": list(answer.notes),',
        '"notes": [],',
        "tests/cli/inference tests/pipelines/chat",
    ),
)
