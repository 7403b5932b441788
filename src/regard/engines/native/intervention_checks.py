"""Checks that the models of a request can apply its interventions."""

from collections.abc import Mapping, Sequence

from regard.errors import SettingsError
from regard.inspection.interventions import ForcedPositions, Intervention
from regard.inspection.recording.attention_map import Part
from regard.inspection.recording.recorder import count_heads
from regard.recipes.run_folder import Run
from regard.text.preprocess import TokenizedLine


def check_interventions(
    runs: Sequence[Run], interventions: Sequence[Intervention], lines: Sequence[TokenizedLine]
) -> None:
    """Raise if an intervention would have no effect, or not the one asked for.

    `lines` are those to be translated, in the tokens of the first of `runs`.
    """
    for run in runs if interventions else ():
        heads = count_heads(run.model)
        for intervention in interventions:
            _check_head(run, heads, intervention)
    for forced in interventions:
        if isinstance(forced, ForcedPositions):
            _check_one_sentence(runs, lines)
            length = len(lines[0].parts[0]) + 1  # with EOS
            if max(forced.columns) >= length:
                raise SettingsError(
                    f"force: the sentence has {length} positions, counted from 0; got "
                    f"{max(forced.columns)}"
                )


def _check_head(
    run: Run, parts: Mapping[Part, Mapping[int, int]], intervention: Intervention
) -> None:
    """Raise if the model has no such layer or head."""
    part, layer, head = intervention.part, intervention.layer, intervention.head
    heads = parts.get(part)
    if heads is None:
        has = ", ".join(parts) or "none"
        raise SettingsError(
            f"{run.folder.path}: a model of the family {run.recipe.model.family} has no {part} "
            f"attention to change; it has: {has}"
        )
    of_run = f"{part} attention of {run.folder.path}"
    if layer is not None and layer not in heads:
        raise SettingsError(f"layer: {of_run} has {len(heads)}, counted from 0; got {layer}")
    num_heads = min(heads.values()) if layer is None else heads[layer]
    if head is not None and not 0 <= head < num_heads:
        raise SettingsError(f"head: {of_run} has {num_heads}, counted from 0; got {head}")


def _check_one_sentence(runs: Sequence[Run], lines: Sequence[TokenizedLine]) -> None:
    """Raise if forced positions do not mean the same words in all that is translated."""
    if len(lines) != 1:
        raise SettingsError(
            f"force: a link is between words of one sentence, and there are {len(lines)}; force "
            "them one by one"
        )
    parts = len(lines[0].parts)
    if parts != 1:
        found = f"translated in {parts} parts" if parts else "not translated"
        raise SettingsError(
            f"force: the line is {found}, so that there is no one map to force a link in: give one "
            "sentence that is no longer than the model can take"
        )
    if len({run.tokenizers.source.fingerprint() for run in runs}) > 1:
        raise SettingsError(
            "force: the models cut the sentence into unlike tokens, so that a position is not the "
            "same word to all; force a link in one of them alone"
        )
