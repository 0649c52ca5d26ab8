"""The growth of an attack's radius over the first epochs."""

from __future__ import annotations


def warm(value: float, epoch: int, epochs: int) -> float:
    """Returns value·min(1, (epoch+1)/epochs) for the epochs 0, 1, …; with epochs = 0 it returns the value itself."""
    return value if epochs <= 0 else value * min(1.0, (epoch + 1) / epochs)
