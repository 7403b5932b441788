"""Whether what is to be done to attention can be done here at all."""

from collections.abc import Mapping, Sequence

from regard.errors import SettingsError
from regard.inspection.interventions import ForcedPositions, Intervention
from regard.inspection.recording.attention_map import Part, count_heads
from regard.recipes.run_folder import Run
from regard.text.preprocess import TokenizedLine


def check_interventions(
    runs: Sequence[Run], changes: Sequence[Intervention], lines: Sequence[TokenizedLine]
) -> None:
    """An error if a change would do nothing, or not what is asked.

    `lines` are those to be translated, in the tokens of the first of `runs`.
    """
    for run in runs if changes else ():
        heads = count_heads(run.model)
        for change in changes:
            _check_head(run, heads, change)
    for forced in changes:
        if isinstance(forced, ForcedPositions):
            _check_one_sentence(runs, lines)
            length = len(lines[0].parts[0]) + 1  # with EOS
            if max(forced.columns) >= length:
                raise SettingsError(
                    f"force: the sentence has {length} positions, counted from 0; got "
                    f"{max(forced.columns)}"
                )


def _check_head(run: Run, parts: Mapping[Part, Mapping[int, int]], change: Intervention) -> None:
    """An error if the model has no such layer or head: changing it would do nothing."""
    heads = parts.get(change.part)
    if heads is None:
        has = ", ".join(parts) or "none"
        raise SettingsError(
            f"{run.folder.path}: a model of the family {run.recipe.model.family} has no "
            f"{change.part} attention to change; it has: {has}"
        )
    if change.layer is not None and change.layer not in heads:
        raise SettingsError(
            f"layer: {change.part} attention of {run.folder.path} has {len(heads)}, counted from "
            f"0; got {change.layer}"
        )
    num_heads = min(heads.values()) if change.layer is None else heads[change.layer]
    if change.head is not None and not 0 <= change.head < num_heads:
        raise SettingsError(
            f"head: {change.part} attention of {run.folder.path} has {num_heads}, counted from 0; "
            f"got {change.head}"
        )


def _check_one_sentence(runs: Sequence[Run], lines: Sequence[TokenizedLine]) -> None:
    """An error if positions do not mean the same in all that is to be translated."""
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
