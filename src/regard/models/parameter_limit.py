"""A model that is too large is noticed while it is built, before its weights take memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from regard.errors import SettingsError

OUT_OF_MEMORY_MESSAGES = ("can't allocate memory", "Storage size calculation overflowed")
"""What torch says of a tensor that is larger than the memory, or than a number of bytes can be."""


@contextmanager
def parameter_limit(max_parameters: int) -> Iterator[None]:
    """Within it, a model of more than `most` parameters is a `SettingsError`.

    They are counted as modules take them up, which they do before they fill them: until then the
    system has only promised the memory. One that several modules share is counted in each of them.
    """
    thread_id, total = threading.get_ident(), 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal total
        if parameter is None or threading.get_ident() != thread_id:  # others build theirs meanwhile
            return
        total += parameter.numel()
        if total > max_parameters:
            raise SettingsError(f"its model would have more than {max_parameters:,} parameters")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    except RuntimeError as error:
        if not any(message in str(error) for message in OUT_OF_MEMORY_MESSAGES):
            raise
        raise SettingsError("its model is larger than the memory of this machine") from None
    finally:
        handle.remove()
