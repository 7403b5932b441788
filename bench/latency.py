"""Milliseconds for one sentence at a time with a beam of 5, beside the peers."""

from bench.exports import test_set
from bench.plots import draw_bars
from bench.report import Table, begin, console, options, rows_of, save, show, tell
from bench.running import choose, take_turns
from bench.statistics import percentile, summarise
from bench.surroundings import look_around
from bench.translating import add_model, check_model, engines, one_thread, quality, signature


def main() -> None:
    parser = options(__doc__)
    add_model(parser)
    parser.add_argument("--sentences", type=int, default=None, help="of the test set (100)")
    parser.add_argument("--beam", type=int, default=5, help="(%(default)s)")
    asked = parser.parse_args()
    check_model(asked)
    around = look_around()
    chosen, left = choose(one_thread(asked.clock), asked.peers)
    begin(around, left)
    pairs = test_set(asked.model, asked.sentences or (15 if asked.quick else 100))
    request = {"texts": pairs.sources, "beam": asked.beam, "apart": True}
    with engines(asked.model, chosen) as (runners, failed):
        race = take_turns(runners, request, asked.rounds, tell)
    left |= failed | race.dropped
    notes = quality(race.answers, pairs.references)
    middles = {}
    for name, answers in race.answers.items():
        middles[name] = [1000 * summarise(one["each"]).median for one in answers]
        late = [1000 * percentile(one["each"], 0.95) for one in answers]
        notes[name]["p95 ms"] = f"{summarise(late).median:.1f}"
    title = f"one sentence at a time, beam {asked.beam}, {asked.clock} clock"
    table = Table(title, "ms (median)", rows_of(chosen, middles, notes), better="less")
    show(table)
    console.print(f"BLEU: {signature()}")
    save(asked, around, [table], left=left, setting={"model": str(asked.model)}, draw=draw_bars)
