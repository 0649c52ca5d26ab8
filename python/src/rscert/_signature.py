"""Signatures that list the options of a function."""

import inspect
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def listed(options: type) -> Callable[[F], F]:
    """Returns a decorator that lists the options of a TypedDict in a function's signature, in place of ``**options``.

    So ``help`` shows the options, and IPython completes their names.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in options.__annotations__.items()
        ]
        function.__signature__ = signature.replace(parameters=own + added)  # type: ignore[attr-defined]
        return function

    return decorate
