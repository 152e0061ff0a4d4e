"""Rollouts of agents that consist of several sequences."""

from typing import Any

from .errors import VfSearchError


def assert_one_sequence(rollout: dict[str, Any]) -> None:
    """Raises VfSearchError for a rollout of several branches: a trainer that takes one sequence would learn from the first alone, and give it the reward of all."""
    further = rollout.get("branches", [])
    if further:
        raise VfSearchError(
            f"{rollout['rollout_id']} consists of {1 + len(further)} sequences, because its agent did not go on with one conversation, and this adapter trains one per rollout. "
            "Train the environment with vf-train, or read all sequences: the first is the rollout itself, the others are its `branches`.",
            type="BranchesError",
        )
