"""`regard average`: the mean of the weights of several checkpoints, or of several runs; or the sum
of those of a run and an adapter.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from typer import Argument

from regard.atomic_io import check_no_linked_folders
from regard.cli.display.console import note, out
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.shared_options import option
from regard.errors import RunError, SettingsError
from regard.recipes.paths import check_not_packaged, require_different
from regard.recipes.run_folder import RunFolder, describe_misfit, find_weights, pick_device
from regard.recipes.transfer.adapters import merge_adapter
from regard.recipes.transfer.soup import Soup, greedy_soup
from regard.settings import counted
from regard.training.checkpoints import (
    average_weights,
    best_weights,
    intact_weights,
    load_weights,
    save_weights,
)


def command(
    model: Path = Argument(metavar="RUN", help="A run's folder."),
    others: list[Path] | None = Argument(
        None,
        metavar="FILE|RUN...",
        help="Files of weights to average (by default the best ones of RUN); or other runs that "
        "started from the same weights.",
    ),
    output: Path | None = option(
        "The file to write; by default weights/average.safetensors.", metavar="FILE"
    ),
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
) -> None:
    """A run keeps the weights of its best validations, as many as training.average says, in the
    folder weights. Use the result with --weights average, or --weights FILE.

    Several runs that were fine-tuned from the same weights (`regard train --from`) become a soup:
    the mean of the best in validation and every other run that does not lower its score.

    --adapter merges an adapter (`regard train --adapter`) into the run's weights: the file can be
    used with --weights FILE, also by `regard export`.

    Examples:

        regard average runs/mine --adapter legal --output legal.safetensors
        regard average runs/travel && regard evaluate runs/travel --weights average
        regard average runs/trec6-1 runs/trec6-2 runs/trec6-3
    """
    folder = RunFolder(model)
    folder.load_recipe()
    if output is not None and output.suffix != ".safetensors":
        raise SettingsError(f"--output {output}: the file's name should end in .safetensors")
    destination = output or folder.weights("average")
    if output is None:
        check_not_packaged(folder.path, "no average is")
        check_no_linked_folders(folder.path)
    if adapter is not None:
        _merge(folder, adapter, output, others or ())
        return
    runs = [path for path in others or () if path.is_dir()]
    if runs and len(runs) < len(others or ()):
        raise SettingsError("give either files of weights or runs to average, not both")
    if runs:
        require_different([model, *runs])
        soup = greedy_soup([model, *runs], device=pick_device(device))
        save_weights(destination, soup.weights)
        _print_soup(soup)
        kept = sum(one.kept for one in soup.ingredients)
        note(f"averaged {kept} of {len(soup.ingredients)} runs into {destination}")
        return
    kept_files = others or _best_files(folder)
    mean = average_weights(kept_files)
    own = folder.weights("model")
    if others and own.is_file() and (wrong := describe_misfit(load_weights(own), mean)):
        raise RunError(f"{others[0]}: does not fit the model of {model}: {wrong}")
    save_weights(destination, mean)
    note(f"averaged {counted(len(kept_files), 'set')} of weights into {destination}")


def _merge(folder: RunFolder, adapter: str, output: Path | None, others: Sequence[Path]) -> None:
    """Write the weights of a run with an adapter added."""
    if others or output is None:
        raise SettingsError(
            "--adapter is merged into the run's own weights: give --output FILE and no others"
        )
    file = find_weights(folder, "model")
    save_weights(output, merge_adapter(folder.path, adapter, file, load_weights(file)))
    note(f"merged {adapter} into {output}; use it with --weights {output}")


def _best_files(folder: RunFolder) -> Sequence[Path]:
    """The best validated weights of a run."""
    named = best_weights(folder.path)
    kept = intact_weights(named, note)
    if not kept:
        state = "are complete any more" if named else "have been validated yet"
        raise RunError(f"{folder.path}: none of its weights {state}; name files")
    return kept


def _print_soup(soup: Soup) -> None:
    by = soup.selection.name
    columns = ("run", f"{by} alone", f"{by} with it", "")
    rows = [
        (
            escape(str(one.run)),
            f"{one.alone:.4g}",
            f"{one.mixed:.4g}",
            "kept" if one.kept else "left",
        )
        for one in soup.ingredients
    ]
    out.print(plain_table(*columns, right=columns[1:3], rows=rows))
