"""ControllerClient: a controller's REST API as methods: schemas, tables, instances; segments are in
controller_segments.py, replacements of segments in controller_replacements.py.
"""

from __future__ import annotations

from typing import Any

from pinotpy.client.controller_calls import Document, quoted
from pinotpy.client.controller_replacements import ReplacementCalls
from pinotpy.client.controller_segments import SegmentCalls
from pinotpy.errors import NotFoundError, RemoteError


class ControllerClient(SegmentCalls, ReplacementCalls):
    """Calls to one controller. Reads are repeated when the controller cannot be reached; writes are not."""

    # --- cluster ---------------------------------------------------------------------------------------------------

    def is_healthy(self) -> bool:
        """Whether the controller says that it serves."""
        try:
            return self._calls.call("GET", f"{self.url}/health", timeout_s=5.0).status == 200
        except RemoteError:
            return False
        except NotFoundError:
            return False

    def instances(self) -> list[str]:
        """Ids of all instances."""
        return [str(name) for name in self._read("/instances")["instances"]]

    def instance(self, name: str) -> dict[str, Any]:
        """The record of one instance."""
        return dict(self._read(f"/instances/{quoted(name)}"))

    def live_instances(self) -> dict[str, dict[str, Any]]:
        """Instance that lives → aliveSinceMs, version, process."""
        return dict(self._read("/liveinstances")["details"])

    def add_instance(self, instance: Document) -> dict[str, Any]:
        """Register an instance before it runs: {"host", "port", "type", "tags"}."""
        return self._write("POST", "/instances", instance)

    def brokers(self, table: str | None = None) -> list[str]:
        """Ids of the brokers that serve a table; without a table those of all tenants."""
        if table is not None:
            return [str(name) for name in self._read(f"/brokers/tables/{quoted(table)}")]
        return sorted({str(name) for names in self._read("/brokers/tenants").values() for name in names})

    # --- schemas ---------------------------------------------------------------------------------------------------

    def schemas(self) -> list[str]:
        """Names of all schemas."""
        return [str(name) for name in self._read("/schemas")]

    def schema(self, name: str) -> dict[str, Any]:
        """One schema."""
        return dict(self._read(f"/schemas/{quoted(name)}"))

    def add_schema(self, schema: Document, *, override: bool = True) -> dict[str, Any]:
        """Add or (with `override`) replace a schema."""
        return self._write("POST", "/schemas", schema, override=override)

    def update_schema(self, name: str, schema: Document, *, reload: bool = False) -> dict[str, Any]:
        """Replace a schema."""
        return self._write("PUT", f"/schemas/{quoted(name)}", schema, reload=reload)

    def delete_schema(self, name: str) -> dict[str, Any]:
        """Delete a schema that no table uses."""
        return self._write("DELETE", f"/schemas/{quoted(name)}")

    # --- tables ----------------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Names of all tables, without type suffix."""
        return [str(name) for name in self._read("/tables")["tables"]]

    def table(self, name: str) -> dict[str, Any]:
        """Configs of a table by type: {"OFFLINE": {…}}."""
        return dict(self._read(f"/tables/{quoted(name)}"))

    def table_schema(self, name: str) -> dict[str, Any]:
        """The schema that a table has."""
        return dict(self._read(f"/tables/{quoted(name)}/schema"))

    def add_table(self, config: Document) -> dict[str, Any]:
        """Create a table."""
        return self._write("POST", "/tables", config)

    def validate_table(self, config: Document, schema: Document) -> dict[str, Any]:
        """Whether a table could be created after its schema; nothing is stored. Raises what `add_table` would."""
        return self._write("POST", "/tables/validate", {"tableConfig": config, "schema": schema})

    def update_table(self, name: str, config: Document) -> dict[str, Any]:
        """Replace a table's config."""
        return self._write("PUT", f"/tables/{quoted(name)}", config)

    def delete_table(self, name: str, *, table_type: str | None = None) -> dict[str, Any]:
        """Delete a table with its segments."""
        return self._write("DELETE", f"/tables/{quoted(name)}", type=table_type)

    def change_table_state(self, name: str, state: str, *, table_type: str) -> dict[str, Any]:
        """Enable or disable a table."""
        return self._write("PUT", f"/tables/{quoted(name)}/state", type=table_type, state=state)

    def table_state(self, name: str, *, table_type: str) -> str:
        """`enabled` or `disabled`."""
        return str(self._read(f"/tables/{quoted(name)}/state?type={table_type}")["state"])

    def table_size(self, name: str) -> dict[str, Any]:
        """Sizes of a table as its servers report them."""
        return dict(self._read(f"/tables/{quoted(name)}/size"))

    def retention(self, name: str) -> dict[str, dict[str, Any]]:
        """By table type, what retention would delete now: retentionMs, reason, expiredSegments, replacedSegments …"""
        return dict(self._read(f"/tables/{quoted(name)}/retention"))
