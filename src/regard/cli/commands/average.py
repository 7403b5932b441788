"""`regard average`: the mean of the weights of several checkpoints."""

from pathlib import Path

from typer import Argument

from regard.atomic_io import check_no_linked_folders
from regard.cli.display.console import note
from regard.cli.options.shared_options import option
from regard.errors import RunError, SettingsError
from regard.recipes.run_folder import RunFolder
from regard.training.checkpoints import average_weights, best_weights, intact_weights, save_weights


def command(
    model: str = Argument(metavar="MODEL", help="A run's folder."),
    files: list[Path] | None = Argument(
        None, metavar="FILE...", help="Weights; otherwise the best of the run."
    ),
    output: Path | None = option(
        "Where to; otherwise weights/average.safetensors.", metavar="FILE"
    ),
) -> None:
    """A run keeps the weights of its best validations, as many as training.average says, in the
    folder weights. Use the result with --weights average, or --weights FILE.

    Example:

        regard average runs/travel && regard evaluate runs/travel --weights average
    """
    folder = RunFolder(Path(model))
    folder.load_recipe()
    named = best_weights(folder.path)
    kept = files or intact_weights(named, note)
    if not kept:
        state = "are whole any more" if named else "have been validated yet"
        raise RunError(f"{model}: none of its weights {state}; name files")
    if output is not None and output.suffix != ".safetensors":
        raise SettingsError(f"--output {output}: the file's name should end in .safetensors")
    destination = output or folder.weights("average")
    if output is None:
        check_no_linked_folders(folder.path)
    save_weights(destination, average_weights(kept))
    note(f"averaged {len(kept)} sets of weights into {destination}")
