"""Episodes that begin together, in requests and waves for which the server has room."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, takewhile
from typing import Any

MOST_EPISODES = 1024
"""The most episodes of one request. The server allows no more."""


def neighbours(requests: Iterable[dict[str, Any] | str | int]) -> list[list[dict[str, Any]]]:
    """Groups: requests with the same `group_id` that follow each other, because their rollouts may be scored together. Every other request is a group of its own."""
    groups: list[list[dict[str, Any]]] = []
    for request in requests:
        entry = request if isinstance(request, dict) else {"example_id": request}
        if groups and "group_id" in entry and entry["group_id"] == groups[-1][-1].get("group_id"):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


def first_request(groups: Sequence[list[dict[str, Any]]]) -> Sequence[list[dict[str, Any]]]:
    """As many groups as one request takes, and at least one, so that the server itself refuses a group that is too large."""
    ends = accumulate(map(len, groups))
    return groups[: max(1, sum(1 for _ in takewhile(lambda end: end <= MOST_EPISODES, ends)))]


def whole_requests(groups: Sequence[list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """The members of all groups, request by request."""
    while groups:
        taken = first_request(groups)
        groups = groups[len(taken) :]
        yield list(chain(*taken))
