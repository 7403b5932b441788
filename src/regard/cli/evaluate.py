"""`regard evaluate`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from regard.cli import options, score_options
from regard.cli.console import note, out, print_json
from regard.cli.held_out import read_held_out
from regard.cli.tables import STARRED, SURE, plain_table, scores_table
from regard.decoding.limits import LengthCuts
from regard.evaluation.by_length import LengthGroup, LengthSettings, score_by_length
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.scores import Score, ScoreSettings, score
from regard.evaluation.significance import Comparison, compare
from regard.files import write_whole
from regard.serving.answer import Answer
from regard.serving.dictionary import read_unknown
from regard.serving.scoring import count_cut_answers, translator_perplexity
from regard.serving.searching import search_settings
from regard.serving.translator import Translator, load

app = typer.Typer()


@app.command()
def command(
    model: options.Model,
    source: options.HeldOutSource = None,
    reference: options.HeldOutReference = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Another model: is the difference more than chance?"),
    ] = None,
    ensemble: options.Ensemble = None,
    beam: options.Beam = None,
    unknown: options.Unknown = None,
    tokenize: score_options.Tokenize = "auto",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Also score by the length of the source.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the translations here as well.")
    ] = None,
    weights: options.Weights = "model",
    device: options.Device = "auto",
    engine: options.Engine = "auto",
    precision: options.InPrecision = "float32",
    json: options.Json = False,
) -> None:
    """Score a model: BLEU, chrF, TER with signatures; compare it with another.

    Every score comes with sacreBLEU's signature and a 95% interval from 1,000 bootstrap resamples;
    --against adds a paired bootstrap test on the same sentences (Koehn 2004). Models that vote with
    --ensemble are scored together; a perplexity is measured of one model alone. A score is of the
    model rather than of a lower precision, unless one is given.

    Examples:

        regard evaluate runs/travel
        regard evaluate runs/mine --source test.en --reference test.de --against runs/other
    """
    sources, references = read_held_out(model, source, reference)
    settings = ScoreSettings(
        metrics=("bleu", "chrf", "ter", "exact"),
        tokenize=score_options.run_tokenizer(model, tokenize, references),
        lowercase=lowercase,
    )
    words = read_unknown(unknown) if unknown is not None else None
    how: dict[str, Any] = {"device": device, "engine": engine, "precision": precision, "tell": note}
    translator = load(model, *(ensemble or ()), weights=weights, **how)
    for remark in translator.remarks:
        note(remark)
    translate = partial(_translate, sources, beam, allow_unknown=unknown is not None, words=words)
    answers = translate(translator)
    texts, cut = [one.text for one in answers], count_cut_answers(translator, answers, references)
    if output is not None:
        write_whole(output, "".join(f"{text}\n" for text in texts).encode())
    scores = score(texts, references, settings)
    surprise = None if ensemble else translator_perplexity(translator, sources, references)
    groups = []
    if by_length:
        plain = settings.model_copy(update={"resamples": 0})
        groups = score_by_length(sources, texts, references, LengthSettings(), plain)
    comparisons: list[Comparison] = []
    if against is not None:
        others = [answer.text for answer in translate(load(against, **how))]
        comparisons = compare(others, texts, references, settings)
    if json:
        print_json(_as_json(cut, scores, surprise, groups, comparisons))
        return
    name = " + ".join((model, *(ensemble or ())))
    if weights != "model":  # or both columns of `--against` may have one name
        name = f"{name} ({Path(weights).stem})"
    out.print(scores_table(scores, title=f"{escape(name)} on {len(texts):,} sentences"))
    if surprise is not None:
        counted = f"[dim]per token, {surprise.num_tokens:,} tokens[/]"
        out.print(f"perplexity  {surprise.value:.3f}  {counted}")
    if told := str(cut):
        note(f"{told}; they are set in {model}/recipe.yaml" if cut.references else told)
    _print_groups(groups)
    _print_comparisons(comparisons, name, against or "")


def _translate(
    sources: list[str],
    beam: int | None,
    translator: Translator,
    *,
    allow_unknown: bool,
    words: Mapping[str, str] | None,
) -> list[Answer]:
    """The translations; `words` is the dictionary for unknown words, where it is asked for."""
    settings = search_settings(translator.settings, beam=beam, unknown=allow_unknown)
    return translator.translate(sources, settings, unknown=words, split=False)


def _print_groups(groups: list[LengthGroup]) -> None:
    if not groups:
        return
    names = [one.name for one in groups[0].scores]
    table = plain_table(
        "words", "sentences", *names, title="by length of the source", right=("sentences", *names)
    )
    for group in groups:
        values = [f"{one.value:.2f}" for one in group.scores]
        table.add_row(f"{group.shortest}–{group.longest}", f"{group.count:,}", *values)
    out.print(table)


def _print_comparisons(comparisons: list[Comparison], model: str, against: str) -> None:
    if not comparisons:
        return
    columns = ("score", escape(model), escape(against), "difference", "95% interval", "p")
    table = plain_table(*columns, title="paired bootstrap", right=columns[1:4])
    for one in comparisons:
        table.add_row(
            one.name,
            f"{one.second:.2f}",
            f"{one.first:.2f}",
            f"{one.delta:+.2f}",
            f"{one.interval.low:+.2f} … {one.interval.high:+.2f}",
            f"{one.p_value:.4f}{' *' if one.p_value < SURE else ''}",
        )
    out.print(table)
    out.print(STARRED)


def _as_json(
    cut: LengthCuts,
    scores: list[Score],
    surprise: Perplexity | None,
    groups: list[LengthGroup],
    comparisons: list[Comparison],
) -> dict[str, Any]:
    return {
        "sentences": cut.pairs,
        "references_beyond_limit": cut.references,
        "answers_cut": cut.answers,
        "scores": [_score_json(one) for one in scores],
        "perplexity": surprise._asdict() if surprise else None,
        "by_length": [
            {
                "shortest": group.shortest,
                "longest": group.longest,
                "sentences": group.count,
                **{one.name: one.value for one in group.scores},
            }
            for group in groups
        ],
        "against": [{**vars(one), "interval": list(one.interval)} for one in comparisons],
    }


def _score_json(one: Score) -> dict[str, Any]:
    return {**one._asdict(), "interval": list(one.interval) if one.interval else None}
