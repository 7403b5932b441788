import os
import re
import shutil
from pathlib import Path

import pytest
import torch

import regard
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.errors import RunError, SearchError, SettingsError
from regard.inspection.interventions import ForcedWords, Silenced, resolve_requests
from regard.recipes.open_run import open_run
from regard.tasks.families.answer import Candidate
from regard.tasks.translation.auto_settings import AUTO_INPUT
from regard.tasks.translation.pipeline import Translator, load
from regard.text.build import Tokenizers, train_tokenizer
from regard.text.segmentation import InputSettings
from regard.text.settings import TokenizerSettings
from task_runs import untrained_translator
from tiny import tiny_recipe

CPU = torch.device("cpu")
SENTENCE = "Jane visite l'Afrique en septembre."
SENTENCES = [SENTENCE, "Paul aime la mer.", "Je ne connais pas Berlin.", "Elle danse."]
ODD = [
    "",
    "   ",
    "\t",
    "\x00",
    "Jane\x00visite",
    "Jane\tvisite\tla mer",
    "Jane\u2028visite\u2029la mer",
    "Jane\nvisite\r\nla mer",
    "😀 👩‍👩‍👧 visite",
    "\ud83d visite \udcff",
    "\ufffd",
    "日本へ行きます。",
    "x" * 3000,
    SENTENCE,
]
GREEDY = DecodingSettings(beam=BeamSettings(size=1), rules=RuleSettings(max_length=40))
SHORT = DecodingSettings(beam=BeamSettings(size=1), rules=RuleSettings(max_length=4))


def texts(answers):
    return [answer.text for answer in answers]


def untrained(*overrides, tokenizers, path="untrained"):
    recipe = tiny_recipe(*overrides)
    torch.manual_seed(3)
    return untrained_translator(recipe, tokenizers, Path(path))


@pytest.fixture(scope="module")
def ensemble(tiny_run, other_run):
    return load(tiny_run, other_run, device="cpu")


def test_a_translator_is_a_function_of_text(translator):
    answer = translator(SENTENCE)
    assert answer.text == str(answer) == answer.candidates[0].text
    assert answer.score == answer.candidates[0].score
    assert answer.text.strip()
    assert answer.source == SENTENCE
    assert answer.notes == ()
    assert answer.attention is None


def test_the_package_shows_its_interface():
    assert {"load", "Translator", "Answer", "RegardError"} <= set(dir(regard))
    assert all(getattr(regard, name) is not None for name in dir(regard))


def test_the_package_exports_its_api(tiny_run, translator):
    assert regard.load(tiny_run, device="cpu")(SENTENCE).text == translator(SENTENCE).text
    assert regard.Silenced("cross", 0, 1) == Silenced("cross", 0, 1)
    assert all(getattr(regard, name) for name in regard.__all__)
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'laod'"):
        regard.laod  # noqa: B018


def test_answers_come_in_order_whatever_their_lengths(translator):
    alone = [translator(text).text for text in SENTENCES]
    assert len(set(alone)) > 1
    assert texts(translator.translate(SENTENCES)) == alone
    assert texts(translator.translate(SENTENCES[::-1])) == alone[::-1]


def test_texts_tokenized_before_are_translated_alike(ensemble, monkeypatch):
    monkeypatch.setattr(ensemble, "input", InputSettings())
    lines = [*SENTENCES, "Écris à a@b.org !", "", "- 2026"]
    prepared = ensemble.tokenize(lines)
    found = ensemble.translate_tokenized(prepared, GREEDY)
    assert [one.candidates for one in found] == [
        one.candidates for one in ensemble.translate(lines, GREEDY)
    ]
    assert [one.protected for one in prepared] == [False] * 4 + [True, False, False]
    assert [one.num_tokens > 0 for one in prepared] == [True] * 5 + [False] * 2
    assert all(len(one.lines) == 2 for one in prepared)
    assert not any(one.protected for one in ensemble.tokenize(lines, split=False))


def test_no_lines_give_no_answers(translator):
    assert translator.translate([]) == []


def test_as_many_answers_as_lines_whatever_the_lines_hold(translator):
    answers = translator.translate(ODD, SHORT, look=True, split=False)
    assert len(answers) == len(ODD)
    for answer in answers:
        assert len(answer.text.splitlines()) <= 1
        assert "\t" not in answer.text
        answer.source.encode()
    notes = dict(zip(ODD, (answer.notes for answer in answers), strict=True))
    assert notes["   "] == notes["\t"] == ()
    assert "control characters (1)" in notes["\x00"][0]
    assert "U+FFFD (2)" in notes["\ud83d visite \udcff"][0]
    assert "not in the model's vocabulary" in notes["😀 👩‍👩‍👧 visite"][0]
    assert re.search("more than the model was trained for .* parts", notes["x" * 3000][0])


@pytest.mark.parametrize("text", ["", "  ", "\t", "\x00"])
def test_a_blank_line_has_a_blank_answer(translator, text):
    answer = translator(text, look=True)
    assert answer.candidates == (Candidate(text, 0.0, 0.0),)
    assert answer.attention is None
    assert translator(text, split=False).text == ""


def test_ten_thousand_words(translator):
    long = "Paul aime la mer. " * 2500
    answer, after = translator.translate([long, SENTENCES[3]], SHORT, split=False)
    assert "translated in" in answer.notes[0]
    assert answer.text
    assert after.text == translator(SENTENCES[3], settings=SHORT).text


def test_a_long_line_is_translated_part_by_part(translator):
    long = " ".join(["Paul aime la mer."] * 10)
    answer = translator(long, settings=GREEDY, split=False)
    parts = int(re.search(r"in (\d+) parts", answer.notes[0])[1])
    assert parts > 1
    assert len(answer.text) >= parts * 2


def test_a_short_limit_is_told(translator):
    answer = translator(SENTENCE, settings=SHORT)
    assert answer.notes == ("its translation reached the length limit and may be cut short",)


def test_the_beam_may_be_given(translator):
    assert translator(SENTENCE, beam=1).text == translator(SENTENCE, settings=GREEDY).text
    wide = DecodingSettings(beam=BeamSettings(size=7), rules=RuleSettings(max_length=40))
    assert translator(SENTENCE, beam=7).score == translator(SENTENCE, settings=wide).score


def test_the_n_best_are_ranked_and_unlike(translator):
    settings = DecodingSettings(n_best=3, beam=BeamSettings(size=4))
    [answer] = translator.translate([SENTENCE], settings)
    scores = [candidate.score for candidate in answer.candidates]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert all(candidate.log_probability < 0 for candidate in answer.candidates)


def test_samples_follow_their_seed_and_number_alone(translator):
    settings = DecodingSettings(sampling=SamplingSettings(seed=5), rules=RuleSettings(max_length=9))
    whole = texts(translator.translate([SENTENCE] * 4, settings))
    assert len(set(whole)) > 1
    halves = [translator.translate([SENTENCE] * 2, settings, first=first) for first in (0, 2)]
    assert texts(halves[0]) + texts(halves[1]) == whole


@pytest.mark.parametrize("prefix", ["Paul", "Paul loves the"])
def test_answers_begin_with_a_prefix(translator, prefix):
    for answer in translator.translate(SENTENCES, prefix=prefix):
        assert answer.text.startswith(prefix)


def test_a_prefix_begins_a_line_not_each_of_its_parts(translator):
    long = " ".join(["Paul aime la mer."] * 10)
    [answer] = translator.translate([long], GREEDY, prefix="Paul loves")
    assert answer.text.startswith("Paul loves")
    assert answer.text.count("Paul loves") == 1


def test_forbidden_words_are_not_said(translator):
    first, *_ = translator(SENTENCE).text.split()
    answers = translator.translate([SENTENCE], forbidden=[first, ""])
    assert first not in answers[0].text.split()


def test_looking_changes_no_answer(translator):
    plain, looked = translator(SENTENCE), translator(SENTENCE, look=True)
    assert plain.candidates == looked.candidates
    attention = looked.attention.attention()
    assert attention.columns.words == tuple(SENTENCE.split())
    assert attention.rows.words == tuple(looked.text.split())
    assert set(looked.attention.parts) == {"encoder", "decoder", "cross"}


@pytest.mark.parametrize(
    "silenced",
    [
        Silenced("encoder", 2, 3),
        Silenced("encoder", 0),
        Silenced("decoder", 1, 0),
        Silenced("cross", 0),
        Silenced("cross", 1, 3),
    ],
)
def test_silencing_a_head_changes_the_answer_and_the_look(translator, silenced):
    [plain] = translator.translate([SENTENCE], look=True)
    [changed] = translator.translate([SENTENCE], look=True, changes=[silenced])
    assert changed.candidates[0].log_probability != plain.candidates[0].log_probability
    weights = changed.attention.parts[silenced.part].weights[silenced.layer]
    silent = weights if silenced.head is None else weights[silenced.head]
    assert not silent.any()
    others = weights.any(-1).any(-1)
    assert others.sum() == (0 if silenced.head is None else 3)
    assert translator(SENTENCE).candidates == plain.candidates  # nothing stays silenced


def test_a_look_with_changes_has_the_answer_before_them(translator):
    plain = translator(SENTENCE, look=True)
    assert plain.before is None
    assert plain.changes == ()
    silenced = Silenced("cross", 1, 3)
    for changed in (
        translator.look(SENTENCE, changes=[silenced]),
        translator(SENTENCE, changes=[silenced]),
    ):
        assert changed.changes == (silenced,)
        assert changed.before.candidates == plain.candidates
        [same] = translator.translate([SENTENCE], changes=[silenced])
        assert changed.candidates == same.candidates


def test_a_forced_word_attends_as_forced(translator):
    first, *_ = translator(SENTENCE).text.split()
    changed = translator.look(SENTENCE, changes=[ForcedWords(0, "septembre")])
    assert changed.changes == (ForcedWords(0, 4),)
    assert changed.before.text.split()[0] == first
    cross = changed.attention.parts["cross"]
    columns = [place for place, word in enumerate(cross.columns.word_of) if word == 4]
    assert cross.columns.pieces[columns[-1]] == "."
    aimed = cross.weights[:, :, 0, columns[:-1]].sum(-1)  # (L, H): the full stop is not the word
    torch.testing.assert_close(aimed, torch.ones_like(aimed))


def test_a_link_may_be_forced_from_python(translator):
    plain = translator(SENTENCE, look=True)
    cross = plain.attention.parts["cross"]
    _, interventions = resolve_requests([ForcedWords(0, "septembre")], cross)
    [changed] = translator.translate([SENTENCE], changes=interventions)
    wished = translator(SENTENCE, changes=[ForcedWords(0, 4)])
    assert changed.candidates == wished.candidates != plain.candidates


def test_a_blank_sentence_has_nothing_to_change(translator):
    with pytest.raises(
        SettingsError, match="there is no sentence in it whose attention could change"
    ):
        translator.look("  ", changes=[ForcedWords(0, 0)])
    assert translator.look("  ", tree=True).attention is None


def test_the_tree_is_that_of_the_changed_search(translator):
    changed = translator.look(SENTENCE, changes=[Silenced("cross", 0)], tree=True)
    assert changed.before.attention.tree is None
    best = changed.attention.tree.nodes[changed.attention.tree.answers[0]]
    assert best.log_probability == pytest.approx(changed.candidates[0].log_probability)


def test_models_of_different_families_form_an_ensemble(ensemble, translator, other_run):
    other = load(other_run, device="cpu")
    answers = ensemble.translate([*SENTENCES, ""], GREEDY)
    assert len(answers) == 5
    log_probability = answers[0].candidates[0].log_probability
    assert log_probability != translator(SENTENCE, settings=GREEDY).candidates[0].log_probability
    assert log_probability != other(SENTENCE, settings=GREEDY).candidates[0].log_probability


def test_a_run_counts_once_in_an_ensemble(tiny_run, other_run):
    for runs in ((tiny_run, tiny_run), (tiny_run, other_run, other_run)):
        with pytest.raises(SettingsError, match="named twice; name each run once"):
            load(*runs, device="cpu")


def test_an_ensemble_of_a_model_with_its_copy_is_that_model(tiny_run, translator, tmp_path):
    twice = load(tiny_run, shutil.copytree(tiny_run, tmp_path / "copy"), device="cpu")
    alone, both = (each(SENTENCE, beam=2) for each in (translator, twice))
    assert both.text == alone.text
    assert both.score == pytest.approx(alone.score, rel=1e-4)


def test_an_ensemble_shows_what_its_first_model_attends_to(ensemble):
    look = ensemble(SENTENCE, look=True).attention
    assert look.parts["cross"].weights.shape[:2] == (2, 4)


def test_an_ensemble_needs_one_target_vocabulary(tiny_run):
    run = open_run(tiny_run, device=CPU)
    tokenizer = train_tokenizer(["other words"], TokenizerSettings(kind="words"))
    other = untrained(tokenizers=Tokenizers(tokenizer, tokenizer), path="runs/other")
    with pytest.raises(
        SearchError,
        match=f"must share one target vocabulary; these do not: {tiny_run}, runs/other",
    ):
        Translator([run, other])


def test_models_that_split_a_long_line_differently_are_an_error(tiny_run):
    run = open_run(tiny_run, device=CPU)
    letters = train_tokenizer([*SENTENCES], TokenizerSettings(kind="characters"))
    other = untrained(
        "model.embeddings=target", tokenizers=Tokenizers(letters, run.tokenizers.target)
    )
    pair = Translator([run, other])
    assert len(pair.translate(["Elle danse."], SHORT)) == 1
    with pytest.raises(SearchError, match="too long for models with different source vocabularies"):
        pair.translate(["Elle danse. " * 9], SHORT, split=False)


def test_learned_positions_bound_source_and_answer(tiny_run):
    tokenizers = open_run(tiny_run, device=CPU).tokenizers
    run = untrained("model.positions=learned", "model.max_positions=12", tokenizers=tokenizers)
    short = Translator([run])
    assert short.limit == 11
    answers = short.translate([*SENTENCES, "x" * 40])
    assert len(answers) == 5
    assert max(map(len, tokenizers.target.encode(texts(answers)))) > 0


def test_a_translator_needs_a_run():
    with pytest.raises(ValueError, match="at least one run"):
        Translator([])


def test_loading_tells_what_is_wrong(tmp_path, tiny_run):
    with pytest.raises(RunError, match="no such folder"):
        load(tmp_path / "none")
    with pytest.raises(RunError, match="cannot be used here"):
        load(tiny_run, device="nonsense")
    with pytest.raises(RunError, match="no such file of weights"):
        load(tiny_run, weights="wrong")


def test_other_weights_may_answer_otherwise(tiny_run, translator):
    others = [load(tiny_run, device="cpu", weights=name) for name in ("last", "average")]
    assert {one(SENTENCE).score for one in others} != {translator(SENTENCE).score}


def test_a_model_without_attention_answers_and_shows_its_text(tiny_run):
    tokenizers = open_run(tiny_run, device=CPU).tokenizers
    blind = Translator([untrained("model={family: rnn, width: 8}", tokenizers=tokenizers)])
    answer = blind(SENTENCE, look=True)
    assert dict(answer.attention.parts) == {}
    assert answer._repr_html_() == f"<p>{answer.text}</p>"
    with pytest.raises(SettingsError, match="force 0=1: the model does not attend to the source"):
        blind.look(SENTENCE, changes=[ForcedWords(0, 1)])
    with pytest.raises(SettingsError, match=r"family rnn has no cross attention .* it has: none"):
        blind.look(SENTENCE, changes=[Silenced("cross", 0)])


@pytest.mark.parametrize("beam", [0, -1, 5000])
def test_a_beam_that_cannot_be_is_an_error_of_ours(translator, beam):
    with pytest.raises(SettingsError, match=r"beam\.size"):
        translator("Jane part.", beam=beam)


NO_SENTENCES = ["2026", "...", "😀", "https://example.com", "a@b.org", "- ", "1. ", "   ", "\t"]


def test_segments_without_words_are_copied(translator):
    assert texts(translator.translate(NO_SENTENCES)) == NO_SENTENCES
    assert all(texts(translator.translate(NO_SENTENCES[:5], SHORT, split=False)))


def test_all_sentences_of_a_line_are_translated(translator):
    one, two = (translator(text, settings=GREEDY) for text in ("Elle danse.", "Paul aime la mer."))
    answer = translator(" - Elle danse.  Paul aime la mer.\n2026", settings=GREEDY)
    assert answer.text == f" - {one.text}  {two.text}\n2026"
    assert answer.score == pytest.approx(one.score + two.score)
    row = translator("| Elle danse. | 12 |", settings=GREEDY)
    assert row.text == f"| {one.text} | 12 |"


def test_links_are_counted_over_all_of_a_line(translator):
    one, two = (translator(text, look=True) for text in ("Elle danse.", "Paul aime la mer."))
    line = translator("2026 | Elle danse. Paul aime la mer.", look=True)
    shown = {(0, 0), (1, 1)} | {(2 + s, 2 + t) for s, t in one.alignment()}
    target = 2 + len(one.text.split())
    assert line.alignment() == shown | {(4 + s, target + t) for s, t in two.alignment()}
    assert line.attention.parts["cross"].columns == one.attention.parts["cross"].columns


def test_a_run_has_input_settings(translator):
    assert translator.input == translator.runs[0].recipe.input == InputSettings(language="fr")
    assert not set(AUTO_INPUT) & set(translator.runs[0].recipe.auto)  # chosen when it was trained


def test_one_text_is_no_list_of_texts(translator):
    with pytest.raises(TypeError, match=r"texts must be a list of texts .* got str; .* \[text\]"):
        translator.translate(SENTENCE)
    with pytest.raises(TypeError, match="got bytes"):
        translator.translate([SENTENCE.encode()])
    with pytest.raises(TypeError, match="forbidden must be a list"):
        translator(SENTENCE, forbidden="Jane")


def test_all_calls_take_the_same_search_options(translator):
    for answer in (
        translator(SENTENCE, n_best=2, prefix="Paul", forbidden=["sea"]),
        translator.look(SENTENCE, n_best=2, prefix="Paul", forbidden=["sea"]),
        translator.translate([SENTENCE], n_best=2, prefix="Paul", forbidden=["sea"])[0],
    ):
        assert len(answer.candidates) == 2
        assert all(one.text.startswith("Paul") for one in answer.candidates)


def test_a_fork_of_the_process_gets_an_error(translator):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            translator(SENTENCE)
        except RunError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    told = os.read(read, 1000).decode()
    os.close(read)
    assert f"was loaded by process {os.getpid()}" in told
    assert "spawn" in told


def test_it_is_shown_in_one_line(translator):
    answer = translator(SENTENCE, look=True)
    for one in (translator, answer, answer.attention, *translator.runs):
        assert len(repr(one)) < 250
    assert repr(translator).startswith("<Translator ")
    assert repr(answer).startswith(f"<Answer {answer.text[:20]!r}"[:-1])
