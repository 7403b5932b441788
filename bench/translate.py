"""Sentences and tokens a second of translating a run's test set, beside the peers.

One set of weights in all engines, greedy and with a beam of 5; the BLEU of the outputs that were
timed stands beside their speed.
"""

from bench.contenders import alternate_rounds, choose
from bench.engines import (
    add_model,
    check_model,
    contenders,
    count_tokens,
    engines,
    quality,
    signature,
)
from bench.exports import test_set
from bench.machine_state import measure_machine_state
from bench.report import Table, begin, console, options, rows_of, save, show, show_progress
from bench.statistics import summarise
from regard.text.build import load_tokenizers


def main() -> None:
    parser = options(__doc__)
    add_model(parser)
    parser.add_argument("--sentences", type=int, default=None, help="of the test set (1000)")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5], help="(1 5)")
    asked = parser.parse_args()
    check_model(asked)
    machine_state = measure_machine_state()
    chosen, left = choose(contenders(asked.cores, asked.clock), asked.peers)
    begin(machine_state, left)
    pairs = test_set(asked.model, asked.sentences or (60 if asked.quick else 1000))
    target = load_tokenizers(asked.model).target
    tables: list[Table] = []
    with engines(asked.model, chosen) as (runners, failed):
        left |= failed
        for beam in asked.beams:
            results = alternate_rounds(
                runners, {"texts": pairs.sources, "beam": beam}, asked.rounds, show_progress
            )
            left |= results.dropped
            notes = quality(results.answers, pairs.references)
            sentences, tokens = {}, {}
            for name, answers in results.answers.items():
                said = count_tokens(answers[-1]["texts"], target)
                sentences[name] = [len(pairs.sources) / one["seconds"] for one in answers]
                tokens[name] = [said / one["seconds"] for one in answers]
                rate = summarise(tokens[name]).median
                notes[name] |= {
                    "tokens/s": f"{rate:,.0f}",
                    "peak MB": f"{answers[-1]['peak_mb']:,.0f}",
                }
            how = "greedy" if beam == 1 else f"beam {beam}"
            work = f"translating {len(pairs.sources):,} sentences, {how}"
            title = f"{work}, {asked.cores} cores, {asked.clock} clock"
            rows = rows_of(chosen, sentences, notes)
            tables.append(Table(title, "sentences/s", rows))
            show(tables[-1])
    console.print(f"BLEU: {signature()}")
    save(asked, machine_state, tables, left=left, setting={"model": str(asked.model)})
