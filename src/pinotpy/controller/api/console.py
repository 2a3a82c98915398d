"""The console: our own static pages, served from the package. They call only REST paths that stand in
`console/api.js`.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import Response
from fastapi.responses import RedirectResponse

from pinotpy.errors import NotFoundError
from pinotpy.service.routes import PUBLIC, Action, Routes
from pinotpy.service.standard_routes import PAGE_HEADERS

FOLDER = Path(__file__).resolve().parent.parent / "console"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def console_routes() -> Routes:
    """Declare them. The pages hold no data, so anybody may read them."""
    routes = Routes("Console")
    files = {file.name: file.read_bytes() for file in sorted(FOLDER.iterdir()) if file.suffix in TYPES}

    def page(name: str) -> Response:
        if name not in files:
            raise NotFoundError("no such page")
        return Response(
            files[name], headers={"content-type": f"{TYPES[Path(name).suffix]}; charset=utf-8", **PAGE_HEADERS}
        )

    @routes.get("/", Action.READ, PUBLIC, include_in_schema=False)
    async def home() -> Response:
        return page("index.html")

    @routes.get("/query", Action.READ, PUBLIC, include_in_schema=False)
    async def query_page() -> Response:
        return page("query.html")

    @routes.get("/query/", Action.READ, PUBLIC, include_in_schema=False)
    async def query_page_with_slash() -> Response:
        # The page's links are relative, so that it also works behind a proxy that adds a prefix.
        return RedirectResponse("../query", status_code=307)

    @routes.get("/console/{file}", Action.READ, PUBLIC, include_in_schema=False)
    async def page_file(file: str) -> Response:
        return page(file)

    return routes
