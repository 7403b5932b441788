"""The one base of all settings: frozen, strict, and described by its own docstrings."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A group of settings, written beside the code that they set; recipes only nest such classes.

    Each default is written once, in the class. A docstring below a field is its description in
    `--help`, in the JSON schema and in the docs.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        protected_namespaces=(),
        allow_inf_nan=False,
    )
