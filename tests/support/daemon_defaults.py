"""What the daemons do by themselves: ports, setting names, and how long a stop may take. Documents of deployment are
compared with it.
"""

from __future__ import annotations

from unittest.mock import Mock

from pinotpy.broker.service import BrokerParts
from pinotpy.config.settings import BrokerSettings, ControllerSettings, ProcessSettings, ServerSettings
from pinotpy.config.settings_loading import environment_names
from pinotpy.controller.service import ControllerParts
from pinotpy.server.service import ServerParts
from pinotpy.service.process_memory import STOP_S

SETTINGS: dict[str, type[ProcessSettings]] = {
    "controller": ControllerSettings,
    "broker": BrokerSettings,
    "server": ServerSettings,
}
_PARTS = {"controller": ControllerParts, "broker": BrokerParts, "server": ServerParts}
REST_PORTS = {
    "controller": ControllerSettings().port,
    "broker": BrokerSettings().port,
    "server": ServerSettings().admin_port,
}
QUERY_PORT = ServerSettings().port


def longest_stop_s(role: str) -> float:
    """Seconds that a daemon with default settings may take to stop: each part's deadline, and the second on top of
    it.
    """
    parts = _PARTS[role].parts(Mock(settings=SETTINGS[role]()))
    return STOP_S + 1.0 + sum(part.stop_timeout_s + 1.0 for part in parts)


def environment_variables(role: str) -> set[str]:
    """Names of the environment variables that a daemon of this role reads its settings from."""
    return {name for field in SETTINGS[role].model_fields for name in environment_names(SETTINGS[role], field)}


def accepts(role: str, environment: dict[str, str]) -> ProcessSettings:
    """The settings that a daemon of this role has in this environment; raises InvalidConfigError."""
    from pinotpy.config.settings import load_settings

    return load_settings(SETTINGS[role], environment={"PINOTPY_HOST": "0.0.0.0", **environment})
