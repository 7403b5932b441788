from ladders import made_up_ladder, made_up_standing, small_recipe
from regard.comparison.measurements import Failure
from regard.comparison.plan import Budget, entries_of, make_plan
from regard.comparison.report import format_report


def plan():
    entries = entries_of(small_recipe("plain"), "a", [1], Budget())
    return make_plan(entries, Budget(), 5, ["regard", "compare", "a b.yaml", "--steps", "9"])


def test_the_page_holds_tables_pictures_and_a_receipt():
    failed = made_up_standing("broken", [], ()).model_copy(
        update={"failures": (Failure(label="broken", seed=2, reason="no\nmemory"),)}
    )
    page = format_report(
        made_up_ladder(
            made_up_standing("rnn", [28.0, 29.0], (36, 31, 25, 17), p_value=0.001, attends=False),
            made_up_standing("top", [40.0], (42, 41, 40, 38)),
            failed,
            best="top",
            at_once=3,
        ),
        plan(),
    )
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


def test_a_page_without_any_row():
    page = format_report(made_up_ladder(made_up_standing("a", [], ())), plan())
    assert "## Receipt" in page
    assert ".png" not in page
