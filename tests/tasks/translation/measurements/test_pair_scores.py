import json
import math
import shutil

import pytest
import torch

from regard.errors import CorpusError
from regard.recipes.finish_run import finish_run
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.verification import accept
from regard.tasks.families.answer import TRUNCATED_NOTE, Answer, Candidate
from regard.tasks.translation.chat import evaluation as chat_evaluation
from regard.tasks.translation.measurements import evaluation
from regard.tasks.translation.measurements.evaluation import score_held_out, translator_perplexity
from regard.text.build import load_tokenizers
from regard.training.checkpoints import Progress

CPU = torch.device("cpu")


class Oracle:
    """Knows the right answer to every sentence but the first."""

    def __init__(self, pairs, run, **rules):
        self.known = dict(pairs)
        tokenizers, decoding = load_tokenizers(run), RunFolder(run).load_recipe().decoding
        self.sources, self.target = (tokenizers.source,), tokenizers.target
        changed = decoding.rules.model_copy(update=rules)
        self.settings = decoding.model_copy(update={"rules": changed})

    def source_ids(self, texts):
        return self.sources[0].encode(texts)

    def translate(self, texts, *, split):
        answers = [self.known[text] for text in texts]
        return [
            Answer(text, (Candidate(said, 0.0, 0.0),), (TRUNCATED_NOTE,) if said == "?" else ())
            for text, said in zip(texts, ["?", *answers[1:]], strict=True)
        ]


@pytest.fixture
def copied(tiny_run, tmp_path):
    return RunFolder(shutil.copytree(tiny_run, tmp_path / "run"))


def test_scores_are_those_of_the_answers(tiny_run):
    data = load_data(RunFolder(tiny_run))
    scores = score_held_out(Oracle(data.read("test"), tiny_run), data)
    assert (scores.split, scores.sentences) == ("test", 20)
    assert [table.title for table in scores.tables("")] == ["20 held-out sentences (test)"]
    assert [one.name for one in scores.scores] == ["BLEU", "chrF2", "TER", "exact"]
    assert scores.scores[3].value == 95.0
    said = json.loads(json.dumps(scores.to_json()))
    assert said["split"] == "test"
    assert said["exact"]["value"] == 95.0
    assert "nrefs:1" in said["BLEU"]["signature"]
    assert (said["references_beyond_limit"], said["answers_cut"]) == (0, 1)


def test_references_that_no_answer_can_be_are_counted(tiny_run):
    data = load_data(RunFolder(tiny_run))
    oracle = Oracle(data.read("test"), tiny_run, max_length_ratio=0.0, max_length_offset=9)
    scores = score_held_out(oracle, data)
    lengths = [len(ids) for ids in oracle.target.encode([p.target for p in data.read("test")])]
    beyond = sum(length + 1 > 9 for length in lengths)
    assert 0 < beyond == scores.cut.references < 20
    told = f"{beyond} of 20 references ({beyond / 20:.1%}) are longer than answers may be"
    assert str(scores.cut).startswith(told)


def test_a_finished_run_has_scores_and_a_card(copied):
    for name in ("scores.json", "card.md"):
        (copied.path / name).unlink()
    scores = finish_run(copied, Progress(step=60, best=((1.0, 60),)), CPU)
    assert json.loads((copied.path / "scores.json").read_text()) == scores.to_json()
    assert f"| exact | {scores.scores[3].value:.2f} |" in copied.card.read_text()


def test_without_test_pairs_the_scores_are_on_valid(copied):
    known = copied.data / "prepared.json"
    saved = json.loads(known.read_text())
    saved["pairs"]["test"] = 0
    known.write_text(json.dumps(saved))
    accept(copied.path)
    scores = finish_run(copied, Progress(step=60, best=((1.0, 60),)), CPU)
    assert [table.title for table in scores.tables("")] == ["30 held-out sentences (valid)"]


def test_perplexity_is_that_of_the_model(translator, tiny_run, monkeypatch):
    data = load_data(RunFolder(tiny_run))
    pairs = list(data.read("test"))
    sources, references = ([f" {pair[side]} " for pair in pairs] for side in (0, 1))
    whole = translator_perplexity(translator, sources, references)
    run = open_run(tiny_run, device=CPU)
    assert whole.num_tokens == sum(
        len(ids) + 1 for ids in run.tokenizers.target.encode([p.target for p in pairs])
    )
    assert 1 < whole.value < run.tokenizers.target.size
    monkeypatch.setattr(evaluation, "PERPLEXITY_BATCH", 3)
    again = translator_perplexity(translator, sources, references)
    assert math.isclose(again.value, whole.value, rel_tol=1e-5)
    lines = (tiny_run / "metrics.jsonl").read_text().splitlines()
    valid = [json.loads(line) for line in lines if '"valid"' in line]
    assert whole.value == pytest.approx(valid[-1]["perplexity"], rel=0.5)


def test_perplexity_of_nothing_is_an_error(translator):
    with pytest.raises(CorpusError, match="at least one token"):
        translator_perplexity(translator, [], [])


def test_references_of_a_chatbot_are_peoples_answers(chat_run, monkeypatch):
    compared = []

    def count(chatbot, answers, references):
        compared.extend(zip(answers, references, strict=True))
        return evaluation.count_truncated_answers(chatbot, answers, references)

    monkeypatch.setattr(chat_evaluation, "count_truncated_answers", count)
    run, data = open_run(chat_run, device=CPU), load_data(RunFolder(chat_run))
    scores = chat_evaluation.ChatEvaluator.score_run(run, data)
    pairs = {(pair.source, pair.target) for pair in data.read(scores.split)}
    assert len(compared) == scores.sentences
    assert {(answer.source, text) for answer, text in compared} <= pairs
