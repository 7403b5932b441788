"""What every answer tells a browser not to do."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
REVALIDATE = "no-cache"
"""Files of the page may be kept, if the server is asked whether they are still the same."""
NO_STORE = "no-store"
"""Answers may hold what only the asker should read."""


class SecurityHeaders:
    """Puts the headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message["headers"]))
                headers.update(SECURITY_HEADERS)
                is_page_file = scope["path"] == "/" or scope["path"].startswith("/static/")
                headers.setdefault("Cache-Control", REVALIDATE if is_page_file else NO_STORE)
                message["headers"] = headers.raw
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)
