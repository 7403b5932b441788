"""YAML files from an untrusted source: their plain values, read with limits."""

from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from regard.atomic_io import read_limited
from regard.settings import abbreviate
from regard.size_limits import max_bytes, too_large

MAX_NESTING = 32  # levels of nested groups and lists
MAX_VALUES = 20_000  # values of a file; those that aliases repeat count each time
MAX_NUMBER_LENGTH = 64  # characters of a number: those of thousands of digits take seconds to read
TIMESTAMP = "tag:yaml.org,2002:timestamp"
MERGE = "tag:yaml.org,2002:merge"  # of the key <<, which takes the values of an alias


class YamlError(ValueError):
    """A text is not YAML, or exceeds a limit; the message is one line."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with limits, which stops as soon as one is exceeded. Dates stay text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._values = 0
        self._sizes: dict[int, int] = {}  # values of each finished node by its id, aliases counted

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node of the text; called for each of them."""
        alias = self.check_event(yaml.AliasEvent)
        before = self._values
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise YamlError(f"nested more than {MAX_NESTING} levels deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if alias:
            if id(node) not in self._sizes:
                raise YamlError("an alias is inside the value that it repeats")
            self._values += self._sizes[id(node)]
        else:
            self._values += 1
            self._sizes[id(node)] = self._values - before
        if self._values > MAX_VALUES:
            raise YamlError(f"more than {MAX_VALUES:,} values, including those that aliases repeat")
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        """A group of values. Raises an error for a duplicate key, of which PyYAML would take the
        last.
        """
        node = super().compose_mapping_node(anchor)
        keys = set[tuple[str, str]]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            if (key.tag, key.value) in keys:
                name, line = abbreviate(repr(key.value)), key.start_mark.line + 1
                raise YamlError(f"line {line}: {name} appears twice in its group")
            keys.add((key.tag, key.value))
        return node

    def construct_scalar(self, node: Any) -> Any:
        """The text of a value."""
        number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        if number and len(node.value) > MAX_NUMBER_LENGTH:
            raise YamlError(f"a number of {len(node.value):,} characters")
        return super().construct_scalar(node)


_Loader.yaml_implicit_resolvers = {
    first: [one for one in known if one[0] != TIMESTAMP]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str) -> Any:
    """The plain value of a YAML text. Raises a `YamlError` if it is not YAML, or exceeds a
    limit.
    """
    if len(text) > max_bytes("yaml"):
        raise YamlError(too_large("yaml"))
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except YamlError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlError(f"{where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise YamlError(str(error).splitlines()[0]) from None
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        # from PyYAML's constructors, if a value does not fit its tag, such as !!int
        raise YamlError(f"a value does not fit its tag: {error}") from None


def read_yaml(file: Traversable) -> Any:
    """The plain value in a UTF-8 file. Raises an `OSError` or a `ValueError` if there is none."""
    if isinstance(file, Path):
        return parse_yaml(read_limited(file, "yaml").decode())
    return parse_yaml(file.read_bytes().decode())
