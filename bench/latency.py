"""Milliseconds for one sentence at a time with a beam of 5, beside the peers."""

from bench.contenders import alternate_rounds, choose
from bench.engines import add_model, check_model, engines, one_thread, quality, signature
from bench.exports import test_set
from bench.machine_state import measure_machine_state
from bench.report import Table, begin, console, options, rows_of, save, show, show_progress
from bench.statistics import percentile, summarise


def main() -> None:
    parser = options(__doc__)
    add_model(parser)
    parser.add_argument("--sentences", type=int, default=None, help="of the test set (100)")
    parser.add_argument("--beam", type=int, default=5, help="(%(default)s)")
    asked = parser.parse_args()
    check_model(asked)
    machine_state = measure_machine_state()
    chosen, left = choose(one_thread(asked.clock), asked.peers)
    begin(machine_state, left)
    pairs = test_set(asked.model, asked.sentences or (15 if asked.quick else 100))
    request = {"texts": pairs.sources, "beam": asked.beam, "apart": True}
    with engines(asked.model, chosen) as (runners, failed):
        results = alternate_rounds(runners, request, asked.rounds, show_progress)
    left |= failed | results.dropped
    notes = quality(results.answers, pairs.references)
    middles = {}
    for name, answers in results.answers.items():
        middles[name] = [1000 * summarise(one["each"]).median for one in answers]
        late = [1000 * percentile(one["each"], 0.95) for one in answers]
        notes[name]["p95 ms"] = f"{summarise(late).median:.1f}"
    title = f"one sentence at a time, beam {asked.beam}, {asked.clock} clock"
    table = Table(title, "ms (median)", rows_of(chosen, middles, notes), better="less")
    show(table)
    console.print(f"BLEU: {signature()}")
    save(asked, machine_state, [table], left=left, setting={"model": str(asked.model)})
