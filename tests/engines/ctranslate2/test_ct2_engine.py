"""The same settings give the same text, whichever engine searches."""

import shutil

import pytest

from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.constraints.rules import Constraints
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.engines.ctranslate2.ct2_engine import (
    MIN_HYPOTHESES,
    CTranslate2Engine,
    batch_by_limit,
    open_ct2_engine,
)
from regard.engines.ctranslate2.export_artifact import ExportArtifact
from regard.engines.ctranslate2.exporter import export_to
from regard.engines.engine_tuning import EngineConfig
from regard.engines.translation_request import TranslationRequest
from regard.text.preprocess import TokenizedLine, tokenize_lines
from regard.text.segmentation import Segments

pytest.importorskip("ctranslate2")

SENTENCES = [
    "Jane visite l'Afrique en septembre.",
    "Paul aime la mer.",
    "Je ne connais pas Berlin.",
    "Elle danse.",
    "Est-ce qu'elle danse en train avec Paul le jeudi?",
    "x",
]


@pytest.fixture(scope="module")
def run(translator):
    return translator.runs[0]


@pytest.fixture(scope="module")
def export(run, tmp_path_factory):
    return export_to(run, "model", "float32", tmp_path_factory.mktemp("exports") / "exact")


@pytest.fixture(scope="module")
def fast(export):
    two_workers = EngineConfig(engine="ctranslate2", precision="float32", workers=2, budget=2048)
    return CTranslate2Engine(export, two_workers)


def decoding(n_best=1, *, rules=None, **beam):
    rules = {"max_length": 40} | (rules or {})
    return DecodingSettings(n_best=n_best, beam=BeamSettings(**beam), rules=RuleSettings(**rules))


SEARCHES = {
    "greedy": decoding(size=1),
    "greedy without a penalty": decoding(size=1, length_penalty=0.0),
    "beam": decoding(size=5),
    "all of a beam": decoding(4, size=4, length_penalty=1.0),
    "beam without a penalty": decoding(3, size=3, length_penalty=0.0),
    "patient": decoding(3, size=3, patience=2.5, length_penalty=1.0),
    "patient, cut short": decoding(
        2, size=3, patience=2.0, rules={"max_length_ratio": 0.7, "max_length_offset": 1}
    ),
    "long answers": decoding(2, size=3, length_penalty=3.0),
    "at least nine tokens": decoding(2, size=3, rules={"min_length": 9}),
    "unknown words": decoding(2, size=3, rules={"allow_unknown": True}),
    "cut short": decoding(3, size=4, rules={"max_length_ratio": 0.7, "max_length_offset": 1}),
    "greedy cut short": decoding(size=1, rules={"max_length_ratio": 0.5, "max_length_offset": 0}),
    "cut at one token": decoding(2, size=2, rules={"max_length": 1}),
    "cut before the least": decoding(
        2, size=2, rules={"min_length": 6, "max_length_ratio": 0.5, "max_length_offset": 0}
    ),
    "no word twice": decoding(3, size=4, rules={"no_repeat_ngram": 1, "min_length": 6}),
    "no pair twice": decoding(size=1, rules={"no_repeat_ngram": 2, "min_length": 20}),
}


def assert_same(found, native):
    """Of all sentences the same n best, with the same scores."""
    for mine, theirs in zip(found, native, strict=True):
        assert [(h.tokens, h.finished) for h in mine] == [(h.tokens, h.finished) for h in theirs]
        for one, other in zip(mine, theirs, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.log_probability == pytest.approx(other.log_probability, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", SEARCHES)
def test_both_engines_find_the_same(name, run, fast):
    sources = run.tokenizers.source.encode(SENTENCES)
    settings = SEARCHES[name]
    assert fast.unsupported_reason(TranslationRequest(settings)) is None
    native = search_many([SearchMember(run.model, sources)], settings, budget=4096)
    found = fast.search(sources, settings)
    assert_same(found, native)


@pytest.mark.parametrize("name", ["greedy", "beam", "all of a beam", "cut short"])
def test_both_engines_leave_out_what_is_forbidden(name, run, fast):
    sources, settings = run.tokenizers.source.encode(SENTENCES), SEARCHES[name]
    free = fast.search(sources, settings)
    phrases = [list(best[0].tokens[1:3]) for best in free[:3]] + [[free[3][0].tokens[0]]]
    found = fast.search(sources, settings, forbidden=phrases)
    constraints = Constraints(forbidden=phrases)
    native = search_many(
        [SearchMember(run.model, sources)], settings, budget=4096, constraints=constraints
    )
    assert_same(found, native)
    assert [best[0].tokens for best in found[:4]] != [best[0].tokens for best in free[:4]]


@pytest.mark.parametrize("name", ["greedy", "greedy cut short", "no pair twice"])
def test_both_engines_begin_with_a_prefix(name, run, fast):
    sources, settings = run.tokenizers.source.encode(SENTENCES), SEARCHES[name]
    prefixes = [list(range(9, 9 + length)) for length in (0, 1, 2, 3, 9, 30)]
    found = fast.search(sources, settings, prefixes=prefixes)
    members = [SearchMember(run.model, sources)]
    native = search_many(members, settings, budget=4096, constraints=Constraints(prefixes))
    assert_same(found, native)


def test_words_to_begin_with_and_words_to_leave_out(run, fast):
    """Of a line in parts the first begins with the prefix."""
    line = tokenize_lines(["Elle danse. " * 3], fast.source, 12)[0]
    request = TranslationRequest(SEARCHES["greedy"], prefix="Jane", forbidden=["dances"])
    assert fast.unsupported_reason(request) is None
    [spoken] = fast.translate_lines([[line]], request)
    texts = [fast.target.decode(best[0].tokens) for best in spoken.parts]
    assert len(texts) > 1
    assert [text.startswith("Jane") for text in texts] == [True] + [False] * (len(texts) - 1)
    assert not any("dances" in text for text in texts)


def test_some_searches_are_cut_and_some_are_not(run, fast):
    sources = run.tokenizers.source.encode(SENTENCES)
    names = "beam", "cut short", "greedy cut short"
    found = {name: fast.search(sources, SEARCHES[name]) for name in names}
    ends = {name: {h.finished for hs in each for h in hs} for name, each in found.items()}
    assert True in ends["beam"]
    assert False in ends["cut short"]
    assert False in ends["greedy cut short"]


def test_other_sentences_of_a_batch_change_nothing(fast):
    sources, settings = fast.source.encode(SENTENCES), SEARCHES["beam"]
    alone = [fast.search([one], settings)[0] for one in sources]
    assert [[h.tokens for h in hs] for hs in fast.search(sources, settings)] == [
        [h.tokens for h in hs] for hs in alone
    ]


@pytest.mark.parametrize("name", ["greedy cut short", "cut short", "beam"])
def test_other_sentences_of_the_same_limit_change_nothing(name, fast):
    """As many as fill a batch by themselves, which those of other limits do not join."""
    sources, settings = fast.source.encode(SENTENCES), SEARCHES[name]
    many = [one for one in sources for _ in range(MIN_HYPOTHESES)]
    found = iter(fast.search(many, settings))
    for expected in fast.search(sources, settings):
        for _ in range(MIN_HYPOTHESES):
            mine = next(found)
            assert [(h.tokens, h.finished) for h in mine] == [
                (h.tokens, h.finished) for h in expected
            ]
            assert [h.score for h in mine] == pytest.approx([h.score for h in expected], abs=1e-4)


def test_lines_in_parts_and_blank_ones(fast):
    lines = [
        TokenizedLine([], [], [], [], Segments([])),
        tokenize_lines(["Elle danse. " * 9], fast.source, 12)[0],
    ]
    blank, long = fast.translate_lines([lines], TranslationRequest(SEARCHES["greedy"]))
    assert blank.parts == []
    assert len(long.parts) == len(lines[1].parts) > 1
    assert blank.looks == long.looks == ()
    assert fast.search([], SEARCHES["greedy"]) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"look": True}, "attention is to be recorded"),
        ({"changes": ["any"]}, "attention is to be changed"),
        ({"observers": ["any"]}, "the search is to be observed"),
        ({"unknown": {}}, "unknown words are to be replaced"),
        ({"prefix": "The"}, "a beam's answers are to begin with a prefix"),
        (
            {"settings": decoding(rules={"max_length": 5000, "max_length_offset": 5000})},
            "positions",
        ),
        ({"settings": DecodingSettings(sampling=SamplingSettings())}, "sampled"),
        ({"settings": decoding(stop="safe")}, "stop is safe"),
        ({"settings": decoding(normalise="gnmt")}, "normalise is gnmt"),
        ({"settings": decoding(coverage_penalty=0.1)}, "coverage counts"),
        ({"settings": decoding(rules={"excluded": "lost"})}, "excluded is lost"),
    ],
)
def test_requests_that_ctranslate2_does_not_support(fast, options, reason):
    assert reason in fast.unsupported_reason(
        TranslationRequest(**{"settings": SEARCHES["beam"]} | options)
    )


def test_settings_without_effect_on_ctranslate2_are_supported(fast):
    assert fast.unsupported_reason(TranslationRequest(decoding(size=1, stop="safe"))) is None
    assert (
        fast.unsupported_reason(TranslationRequest(decoding(normalise="gnmt", length_penalty=0.0)))
        is None
    )


def test_probabilities_of_what_was_found(fast):
    sources, settings = fast.source.encode(SENTENCES), SEARCHES["unknown words"]
    best = [found[0] for found in fast.search(sources, settings)]
    pairs = [(source, h.tokens) for source, h in zip(sources, best, strict=True)]
    for h, scored in zip(best, fast.log_probabilities(pairs), strict=True):
        assert len(scored) == len(h.tokens) + 1
        if h.finished:  # but for what PAD and BOS have, which an answer may not say
            assert sum(scored) == pytest.approx(h.log_probability, abs=0.05)


def test_an_export_that_cannot_be_read(export, tmp_path):
    assert open_ct2_engine(export) is not None
    (tmp_path / "model.bin").write_bytes(b"nonsense")
    for file in export.folder.iterdir():
        if file.name != "model.bin":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert open_ct2_engine(export._replace(folder=tmp_path)) is None


def test_sentences_of_one_limit_are_by_themselves():
    lengths = [5] * MIN_HYPOTHESES + [9] * MIN_HYPOTHESES + [7]
    batches = batch_by_limit(lengths, [2 * one for one in lengths], budget=1000, width=1)
    assert batches == [
        list(range(MIN_HYPOTHESES, 2 * MIN_HYPOTHESES)),
        [2 * MIN_HYPOTHESES],
        list(range(MIN_HYPOTHESES)),
    ]


def test_small_groups_of_a_limit_are_batched_by_length():
    lengths = [3, 9, 4, 8]
    assert batch_by_limit(lengths, lengths, budget=20, width=1) == [[1, 3], [2, 0]]


def test_a_beam_counts_each_hypothesis():
    lengths = [3, 3, 4, 4]
    assert batch_by_limit(lengths, lengths, budget=10_000, width=MIN_HYPOTHESES) == [[2, 3], [0, 1]]
    assert batch_by_limit(lengths, lengths, budget=10_000, width=1) == [[2, 3, 0, 1]]


def test_batches_of_one_limit_are_of_like_size():
    lengths = [10] * 50
    sizes = [len(batch) for batch in batch_by_limit(lengths, lengths, budget=480, width=1)]
    assert sizes == [25, 25]


@pytest.mark.parametrize("budget", [1, 40, 10_000])
@pytest.mark.parametrize("width", [1, 5])
def test_every_sentence_is_in_one_batch(budget, width):
    lengths = [1 + (number * 7) % 23 for number in range(200)]
    limits = [min(30, 2 * one + 4) for one in lengths]  # one for all that are long
    batches = batch_by_limit(lengths, limits, budget, width)
    assert sorted(place for batch in batches for place in batch) == list(range(200))
    firsts = [lengths[batch[0]] for batch in batches]
    assert firsts == sorted(firsts, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * width * lengths[batch[0]] <= budget


def test_no_sentences_make_no_batches():
    assert batch_by_limit([], [], budget=100, width=5) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("shared_vocabulary.json", b'["a"]'),
        ("shared_vocabulary.json", b"{}"),
        ("model.bin", None),  # zeros
        ("config.json", b"[]"),
    ],
)
def test_forged_files_are_a_damaged_export(name, content, export, tmp_path):
    folder = shutil.copytree(export.folder, tmp_path / "export")
    (folder / "manifest.json").unlink()
    zeros = bytes((folder / name).stat().st_size)
    (folder / name).write_bytes(zeros if content is None else content)
    assert open_ct2_engine(ExportArtifact(folder, export.card)) is None
