"""The checks by name, in their order, with their budgets and the shapes that each runs on."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Callable, Iterator

from bench import Row, Setting


@dataclass(frozen=True)
class Check:
    """The function is `check_NAME` of the module of that name. `shapes`: on a GPU; on a CPU the tiny ones take their place, as many as there are at most."""

    name: str
    budget_s: float
    shapes: tuple[str, ...] = ()

    def load(self) -> Callable[[Setting, Any], Iterator[Row]]:
        name = f"check_{self.name.replace('-', '_')}"
        return getattr(import_module(name), name)


ALL_SHAPES = ("qwen3-0.6b", "qwen2.5-3b", "qwen3-4b", "qwen3-8b")
CHECKS = {
    check.name: check
    for check in (
        Check("numbers", 90.0, ALL_SHAPES),
        Check("state", 30.0, ALL_SHAPES[:1]),
        Check("recovery", 45.0, ALL_SHAPES[:1]),
        Check("memory", 45.0, ALL_SHAPES),
        Check("speed", 50.0, ALL_SHAPES[:3]),
        Check("cards", 60.0, ALL_SHAPES[:1]),
    )
}


def chosen(only: list[str], tiny: bool, plan: dict[str, Any]) -> list[tuple[Check, str]]:
    """Every check with every of its shapes, or those that `only` names; empty if one of its names is unknown."""
    small = [name for name, shape in plan["shapes"].items() if shape["tiny"]]
    jobs = [(check, shape) for check in CHECKS.values() for shape in (small[: len(check.shapes)] if tiny else check.shapes)]
    known = {name for check, shape in jobs for name in (check.name, f"{check.name}/{shape}")}
    if not set(only) <= known:
        return []
    return [(check, shape) for check, shape in jobs if not only or {check.name, f"{check.name}/{shape}"} & set(only)]
