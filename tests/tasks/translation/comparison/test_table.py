import pytest

from ladders import MACHINE, made_up_ladder, made_up_row, made_up_standing, small_recipe
from regard.comparison.measurements import Failure
from regard.comparison.plan import Budget, entries_of, make_plan
from regard.comparison.table import format_si, markdown_table
from regard.tasks.translation.comparison.results import SystemCosts


@pytest.fixture
def results():
    return made_up_ladder(
        made_up_standing("rnn", [28.0], (36, 31, 25, 17), p_value=0.001, attends=False, flops=3e14),
        made_up_standing("near", [39.5, 40.1], (41, 40, 39, 38), p_value=0.31),
        made_up_standing("best", [40.0], (42, 41, 39.8, 38.2)),
        made_up_standing("lost", [], ()),
        best="best",
    )


def cells(sheet):
    titles = ["system", *sheet.columns]
    return {line[0]: dict(zip(titles, line, strict=True)) for line in sheet.lines}


def test_quality_and_cost(results):
    sheet, _ = results.sheets()
    assert sheet.title == "Quality and cost (1,000 sentences of test, beam 5)"
    found = cells(sheet)
    assert found["rnn"] == {
        "system": "rnn",
        "param.": "12.3M",
        "FLOPs": "300T",
        "tok/s": "45.7k",
        "ppl": "8.12",
        "BLEU": "28.00",
        "95%": "26.5…29.2",
        "p": "0.001*",
        "chrF": "48.00",
        "AER": "–",
        "sent/s": "234",
    }
    assert found["near"]["BLEU"] == "39.80"
    assert found["near"]["p"] == "0.310 "
    assert found["near"]["95%"] == "38.3…41.0"  # of the mean
    assert found["near"]["AER"] == "12.5%"
    assert found["best"]["p"] == "best"
    assert set(found["lost"].values()) == {"lost", "–"}


def test_by_length_seeds_and_budget(results):
    found = cells([*results.sheets()][1])
    assert found["near"] == {
        "system": "near",
        **{"4–9": "41.00", "10–11": "40.00", "12–14": "39.00", "15–34": "38.00"},
        **{"seeds": "2", "lowest…highest": "39.50…40.10"},
        **{"steps": "5,000", "tokens": "9.88M", "seconds": "1,234"},
    }
    assert found["best"]["lowest…highest"] == "–"


def test_remarks_say_what_the_marks_mean(results):
    said = list(results.notes())
    assert len(said) == 2
    assert said[0].startswith("best: best, by BLEU. *: below it by more than chance explains at p")
    assert list(made_up_ladder(made_up_standing("lost", [], ())).notes()) == []


def test_costs_are_medians_over_seeds():
    taken = ((300, 7.0, 50.0), (100, 9.0, 70.0), (200, 8.0, 950.0))
    rows = tuple(
        made_up_row("a", 30.0, seed=seed, steps=steps, sentences_per_second=speed, seconds=seconds)
        for seed, (steps, speed, seconds) in enumerate(taken, 1)
    )
    one = made_up_standing("a", [30.0] * 3, (30,) * 4)
    results = made_up_ladder(one.model_copy(update={"rows": rows, "costs": SystemCosts.of(rows)}))
    cost, budget = (cells(sheet)["a"] for sheet in results.sheets())
    assert (cost["sent/s"], budget["steps"], budget["seconds"]) == ("8", "200", "70")


def test_rows_trained_at_once_are_told(results):
    shared = results.model_copy(update={"at_once": 19})
    told = {*shared.notes()} - {*results.notes()}
    assert told == {
        "Up to 19 rows were trained at a time, so seconds are of a shared machine; "
        "tok/s and sent/s were timed with nothing else running."
    }
    waiting = made_up_ladder(made_up_standing("lost", [], ()), at_once=19)
    assert list(waiting.notes()) == []


def test_unlike_machines_are_told():
    other = MACHINE.model_copy(update={"device": "a GPU"})
    one = made_up_standing("a", [30.0], (30,) * 4)
    two = one.model_copy(update={"label": "b", "rows": (made_up_row("b", 30.0, machine=other),)})
    said = [*made_up_ladder(one, two, best="a").notes()][-1]
    assert said.startswith("Rows were measured on different machines, so their speeds cannot")
    assert "a GPU" in said


def test_failed_and_unfinished_rows_are_noted(results):
    assert list(results.troubles()) == []
    failed = made_up_standing("b", [], ()).model_copy(
        update={"failures": (Failure(label="b", seed=2, reason="no memory"),), "waiting": 1}
    )
    assert list(made_up_ladder(failed).troubles()) == [
        "b, seed 2, failed: no memory",
        "b: 1 of its rows not finished yet",
    ]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"),
        (3.14159, "3.14"),
        (234.4, "234"),
        (999.4, "999"),
        (999.6, "1k"),
        (1_234, "1.23k"),
        (514_735, "515k"),
        (63_082_496, "63.1M"),
        (3.2e15, "3.2P"),
        (5e21, "5000E"),
    ],
)
def test_numbers_have_three_digits_and_a_letter(number, said):
    assert format_si(number) == said


def test_markdown():
    assert list(markdown_table(["a", "b", "c"], [["x|y", " 1 ", "2"]])) == [
        "| a | b | c |",
        "|---|---:|---:|",
        "| x\\|y | 1 | 2 |",
    ]


def plan():
    entries = entries_of(small_recipe("plain"), "a", [1], Budget())
    return make_plan(entries, Budget(), 5, ["regard", "compare", "a b.yaml", "--steps", "9"])


def test_the_page_holds_tables_pictures_and_a_receipt():
    failed = made_up_standing("broken", [], ()).model_copy(
        update={"failures": (Failure(label="broken", seed=2, reason="no\nmemory"),)}
    )
    page = made_up_ladder(
        made_up_standing("rnn", [28.0, 29.0], (36, 31, 25, 17), p_value=0.001, attends=False),
        made_up_standing("top", [40.0], (42, 41, 40, 38)),
        failed,
        best="top",
        at_once=3,
    ).report(plan(), {"by-length": "BLEU by the length of the source"})
    for line in (
        "# The ladder",
        "| system | param. | FLOPs | tok/s | ppl | BLEU | 95% | p | chrF | AER | sent/s |",
        "| rnn | 12.3M | 2P | 45.7k | 8.12 | 28.50 | 27.0…29.8 | 0.001* | 48.50 | – | 234 |",
        "| **top** | 12.3M | 2P | 45.7k | 8.12 | 40.00 | 38.5…41.2 | best | 60.00 | 12.5% | 234 |",
        "| broken | – | – | – | – | – | – | – | – | – | – |",
        "- broken, seed 2, failed: no memory",
        "![BLEU by the length of the source](by-length.png)",
        "- command: `regard compare 'a b.yaml' --steps 9`",
        "- seeds: rnn 1, 2; top 1",
        "- trained up to 3 at a time, measured one by one",
        "- data, SHA-256 of the cleaned texts: `0123abc`",
        "- BLEU: `b|1`",
        "- measured on cpu, 1 thread (a processor), Linux, all",
        "- measured 2026-11-15",
        "- alignment of top: layer 1, chosen on validation pairs",
    ):
        assert line in page.splitlines()
    assert "alignment of rnn" not in page
