"""A small OAuth server on this machine: it gives signed tokens to clients that know the secret."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from support.certificates import quietly

CLIENT_ID, CLIENT_SECRET = "orders-client", 'se"cret\\of the client'
AUDIENCE, ISSUER, SCOPE = "kafka", "https://tokens.example.org", "orders kafka"
_KEY = "key-1"


@dataclass
class TokenServer:
    """Its address, its public keys, and the scopes that clients have asked for."""

    url: str
    key: Path
    asked: list[str] = field(default_factory=list)

    def token(self, scope: str) -> str:
        """A signed token of the client, good for a minute."""
        now = int(time.time())
        claims = {"iss": ISSUER, "sub": CLIENT_ID, "aud": AUDIENCE, "scope": scope, "iat": now, "exp": now + 60}
        head = {"alg": "RS256", "typ": "JWT", "kid": _KEY}
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        signature = quietly(["openssl", "dgst", "-sha256", "-sign", str(self.key)], text.encode())
        return f"{text}.{_base64(signature)}"


def make_keys(home: Path) -> tuple[Path, Path]:
    """A new private key for tokens, and the set of public keys (JWKS) with which brokers verify them."""
    key, public = home / "tokens.key", home / "jwks.json"
    quietly(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(key)])
    modulus = quietly(["openssl", "rsa", "-in", str(key), "-noout", "-modulus"]).decode().strip().split("=")[1]
    one = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY, "n": _base64(bytes.fromhex(modulus)), "e": "AQAB"}
    public.write_text(json.dumps({"keys": [one]}))
    return key, public


@contextmanager
def token_server(key: Path, certificate: Path, certificate_key: Path) -> Iterator[TokenServer]:
    """The server with TLS, on a free port, while the block lasts."""
    tokens = TokenServer("", key)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            known = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
            right = self.headers["Authorization"] == f"Basic {known}" and body["grant_type"] == ["client_credentials"]
            scope = " ".join(body.get("scope", []))
            if right:
                tokens.asked.append(scope)
                answer = {"access_token": tokens.token(scope), "token_type": "Bearer", "expires_in": 60}
            else:
                answer = {"error": "invalid_client"}
            text = json.dumps(answer).encode()
            self.send_response(200 if right else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate_key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    tokens.url = f"https://127.0.0.1:{server.server_port}/realms/orders/token"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield tokens
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
