import pytest

from regard.engines.native.intervention_checks import check_interventions
from regard.errors import SettingsError
from regard.inspection.interventions import Flattened, ForcedPositions, Silenced
from regard.recipes.run_folder import load_run, pick_device
from regard.text.build import Tokenizers, train_tokenizer
from regard.text.preprocess import TokenizedLine, tokenize_lines
from regard.text.segmentation import Segment, Segments
from regard.text.settings import TokenizerSettings

LINK = ForcedPositions((0,), (0,))


@pytest.fixture(scope="module")
def run(tiny_run):
    return load_run(tiny_run, device=pick_device("cpu"))


@pytest.fixture(scope="module")
def other(other_run):
    return load_run(other_run, device=pick_device("cpu"))


@pytest.fixture(scope="module")
def line(run):
    return tokenize_lines(["Elle danse."], run.tokenizers.source, 50)[0]


def test_what_is_there_can_be_changed(run, other, line):
    check_interventions([run], [Silenced("encoder", 2, 3), Flattened("cross", 1), LINK], [line])
    check_interventions([run, other], [Silenced("cross", 0), LINK], [line])
    check_interventions([run], [Silenced("cross", 0)], [line, line])
    check_interventions([run], [], [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Silenced("encoder", 3), "layer: encoder attention of .*tiny has 3, .* 0; got 3"),
        (Flattened("cross", 2, 0), "layer: cross attention of .*tiny has 2, .* 0; got 2"),
        (Silenced("cross", 1, 4), "head: cross attention of .*tiny has 4, .* 0; got 4"),
        (
            ForcedPositions((0,), (0,), layer=2),
            "layer: cross attention of .*tiny has 2, .* 0; got 2",
        ),
        (ForcedPositions((0,), (0,), head=4), "head: cross attention of .*tiny has 4, .* 0; got 4"),
        (ForcedPositions((0,), (99,)), r"the sentence has \d+ positions, counted from 0; got 99"),
    ],
)
def test_what_is_not_there_cannot(run, line, change, message):
    with pytest.raises(SettingsError, match=message):
        check_interventions([run], [change], [line])


def test_the_end_of_the_sentence_is_a_position_too(run, line):
    positions = len(line.parts[0]) + 1
    check_interventions([run], [ForcedPositions((0,), (positions - 1,))], [line])
    with pytest.raises(SettingsError, match=f"has {positions} positions"):
        check_interventions([run], [ForcedPositions((0,), (positions,))], [line])


def test_each_model_must_have_it(run, other, line):
    message = "other: a model of the family rnnsearch has no encoder attention .* it has: cross"
    with pytest.raises(SettingsError, match=message):
        check_interventions([run, other], [Silenced("encoder", 0)], [line])


def line_of(*parts):
    return TokenizedLine(list(parts), [], ["a"], [len(parts)], Segments([Segment("a", says=True)]))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line_of([5])] * 4, "between words of one sentence, and there are 4; force them"),
        ([], "one sentence, and there are 0"),
        ([line_of()], "force: the line is not translated, so that there is no one map"),
        ([line_of([5], [6])], "the line is translated in 2 parts"),
    ],
)
def test_a_link_is_forced_in_one_sentence(run, lines, message):
    with pytest.raises(SettingsError, match=message):
        check_interventions([run], [LINK], lines)


def test_positions_must_mean_the_same_to_all(run, line):
    letters = train_tokenizer(["Elle danse."], TokenizerSettings(kind="characters"))
    unlike = run._replace(tokenizers=Tokenizers(letters, run.tokenizers.target))
    with pytest.raises(SettingsError, match="cut the sentence into unlike tokens"):
        check_interventions([run, unlike], [LINK], [line])
    check_interventions([run, unlike], [Silenced("cross", 0)], [line])
