"""Lets mkdocstrings read ``Example:`` as it reads ``Examples:``, so that doctests are shown as code."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section before docstrings are parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called once an object is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^( *)Example:", r"\1Examples:", obj.docstring.value, flags=re.M)
