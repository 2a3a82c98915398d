"""Who leads, and how a controller that does not lead has a segment registered by the one that does."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable
from urllib.parse import quote

import httpx

from pinotpy.cluster.leader import LeaderElection, leader_instance, leader_url
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import ClusterStore
from pinotpy.controller.api.uploads import registration_body, replaced_from_answer
from pinotpy.controller.asking_leader import ask_leader
from pinotpy.controller.registration import NothingToRefreshError
from pinotpy.controller.upload_conditions import UploadConditions
from pinotpy.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    ClusterError,
    NotFoundError,
    NotLeaderError,
    PinotError,
    PreconditionFailedError,
    QuotaExceededError,
    UserError,
)

LOG = logging.getLogger(__name__)

ATTEMPTS_MAX = 5
PAUSE_S = 0.3
ERRORS: dict[int, type[PinotError]] = {
    400: UserError,
    403: AccessDeniedError,
    404: NotFoundError,
    409: AlreadyExistsError,
    410: NothingToRefreshError,
    412: PreconditionFailedError,
    429: QuotaExceededError,
}


class ElectedLeadership:
    """Leadership by the cluster's election; implements `leader_forwarding.Leadership`."""

    def __init__(
        self, store: ClusterStore, paths: ClusterPaths, election: Callable[[], LeaderElection | None], scheme: str
    ) -> None:
        self._store, self._paths, self._election, self._scheme = store, paths, election, scheme

    def is_leader(self) -> bool:
        election = self._election()
        return election is not None and election.is_leading

    def leader(self) -> str | None:
        """Instance id of the lead controller, None while there is none or the store cannot be asked."""
        return self._asked(lambda: leader_instance(self._store, self._paths))

    def leader_url(self) -> str | None:
        return self._asked(lambda: leader_url(self._store, self._paths, self._scheme))

    @staticmethod
    def _asked(look: Callable[[], str | None]) -> str | None:
        try:
            return look()
        except ClusterError as error:
            LOG.warning("the lead controller cannot be looked up cause=%s", error)
            return None


async def register_at_leader(
    leadership: ElectedLeadership,
    client: httpx.AsyncClient,
    headers: dict[str, str],
    segment: SegmentZkMetadata,
    conditions: UploadConditions,
) -> SegmentZkMetadata | None:
    """Ask the leader to register a segment whose archive lies here; returns the record that it replaced.

    Raises:
        the leader's own refusal; NotLeaderError when no leader answers.
    """
    table = segment.table_name_with_type
    path = f"/segments/{quote(table, safe='')}/{quote(segment.segment_name, safe='')}/registration"
    sent = {**headers, "content-type": "application/json", "idempotency-key": uuid.uuid4().hex}
    reason = "no controller leads"
    for attempt in range(ATTEMPTS_MAX):
        if attempt:
            await asyncio.sleep(PAUSE_S * attempt * random.uniform(0.5, 1.5))
        base = await asyncio.to_thread(leadership.leader_url)
        if base is None:
            continue
        try:
            body = registration_body(segment, conditions)
            answer = await ask_leader(client, "POST", base, path, content=body, headers=sent)
        except httpx.HTTPError as error:
            reason = f"the lead controller at {base} cannot be reached ({type(error).__name__})"
            continue
        if answer.status_code == 200:
            return replaced_from_answer(answer.content, table)
        text = (
            answer.json().get("error", answer.text[:500])
            if answer.headers.get("content-type", "").startswith("application/json")
            else answer.text[:500]
        )
        if answer.status_code in ERRORS:
            raise ERRORS[answer.status_code](text)
        reason = f"the lead controller at {base} answered {answer.status_code}: {text}"
    raise NotLeaderError(f"{reason}; the segment is not registered: upload it again")
