"""Proves docker-compose.yml by trying it: built, up, healthy, the README's first query, a batch job, every service
restarted with its data kept, down and up again. compose_trial.py tells the steps. Skips, with the reason, where no
container engine works.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from compose_trial import Trial
from container_engine import NoEngineError, find_engine
from stand_in_images import check_images

pytestmark = [pytest.mark.full, pytest.mark.cluster]


def test_the_composed_cluster_does_what_it_promises(tmp_path: Path) -> None:
    try:
        engine = find_engine()
        check_images(engine)
    except NoEngineError as error:
        pytest.skip(str(error))
    Trial(engine, tmp_path).run()
