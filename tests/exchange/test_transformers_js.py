"""What transformers.js needs: names of graphs and tensors, and a tokenizer that gives our ids."""

import onnxruntime
import pytest
import tokenizers as library
import torch

from exchange.test_onnx_graphs import check_steps, texts
from hostile_lines import hostile_lines
from regard.engines.onnx.onnx_model import open_decoder
from regard.errors import RunError
from regard.exchange.onnx_graphs import write_graphs
from regard.exchange.transformers_js import require_browser_kind, tokenizer_json
from regard.json_files import dump_json
from regard.text.build import Tokenizers, train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import EOS
from variants import V_SOURCE, V_TARGET
from variants import tiny as tiny_translator

KV = ("key", "value")
OTHER_INPUTS = ("input_ids", "encoder_attention_mask", "encoder_hidden_states", "use_cache_branch")


def names_and_shapes(values):
    return {one.name: one.shape for one in values}


@pytest.mark.parametrize("name", ["transformer", "transformer window rotary"])
def test_graphs_have_the_names_and_take_the_same_steps(name, tmp_path):
    torch.manual_seed(1)
    model, *_ = tiny_translator(name, dtype=torch.float32)
    make_inputs = texts(min(V_SOURCE, V_TARGET))
    write_graphs(model, make_inputs, tmp_path, browser=True)
    files = {"encoder_model.onnx", "decoder_model_merged.onnx"}
    assert {path.name for path in (tmp_path / "onnx").iterdir()} == files
    encoder, decoder = (
        onnxruntime.InferenceSession(tmp_path / "onnx" / f"{file}_model{end}.onnx")
        for file, end in (("encoder", ""), ("decoder", "_merged"))
    )
    assert {*names_and_shapes(encoder.get_inputs())} == {"input_ids", "attention_mask"}
    assert [*names_and_shapes(encoder.get_outputs())] == ["last_hidden_state"]
    layers = range(len(model.decoder))
    ends = [f"{n}.{part}.{kv}" for n in layers for part in ("encoder", "decoder") for kv in KV]
    given = names_and_shapes(decoder.get_inputs())
    assert given.keys() == {*OTHER_INPUTS, *(f"past_key_values.{end}" for end in ends)}
    assert given["use_cache_branch"] == [1]
    for name, shape in given.items():  # it makes unknown axes empty, except those of this name
        assert shape[0] == "batch_size" or name == "use_cache_branch"
    answered = names_and_shapes(decoder.get_outputs())
    assert answered.keys() == {"logits", *(f"present.{end}" for end in ends)}
    with torch.no_grad():
        check_steps(model, open_decoder(tmp_path, threads=1), make_inputs(4, 9), 4)


def small_bpe(**settings):
    some = [line for line in hostile_lines(300) if "\0" not in line]
    return train_tokenizer(some, TokenizerSettings(kind="bpe", size=3400, **settings))


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_the_tokenizer_gives_the_same_ids_and_texts(form):
    tokenizer = small_bpe(form=form)
    other = library.Tokenizer.from_str(dump_json(tokenizer_json(tokenizer)))
    special = other.get_added_tokens_decoder().values()
    lines = [line for line in hostile_lines(600) if not any(str(one) in line for one in special)]
    mine = [[*ids, EOS] for ids in tokenizer.encode(lines)]
    found = [other.encode(line).ids for line in lines]
    unlike = [line for line, a, b in zip(lines, mine, found, strict=True) if a != b]
    assert len(unlike) <= 3  # marks that two versions of Unicode compose differently
    assert [other.decode(ids) for ids in mine] == [tokenizer.decode(ids) for ids in mine]


def test_what_it_cannot_run_is_refused_by_name():
    tokenizer = train_tokenizer(["a b c"], TokenizerSettings(kind="bpe", size=300))
    both = Tokenizers(tokenizer, tokenizer)
    with pytest.raises(RunError, match="task: chat: "):
        require_browser_kind("transformer", "chat", both)
    with pytest.raises(RunError, match="family: rnnsearch: "):
        require_browser_kind("rnnsearch", "translation", both)
    words = train_tokenizer(["a b"], TokenizerSettings(kind="words"))
    with pytest.raises(RunError, match="joint: false: "):
        require_browser_kind("transformer", "translation", Tokenizers(tokenizer, words))
    with pytest.raises(RunError, match="kind: words: "):
        require_browser_kind("transformer", "translation", Tokenizers(words, words))
