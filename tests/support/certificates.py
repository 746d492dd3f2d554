"""Certificates for servers on this machine and for clients, by a new authority."""

import subprocess
from pathlib import Path


def certify(home: Path) -> tuple[Path, Path, Path]:
    """A new authority's certificate, a server's certificate by it for 127.0.0.1, and the server's key."""
    named = ["-keyout", f"{home}/authority.key", "-out", f"{home}/authority.pem", "-subj", "/CN=authority"]
    quietly(["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-x509", "-days", "2", *named])
    return home / "authority.pem", *certify_one(home, "server", "subjectAltName=IP:127.0.0.1")


def certify_one(home: Path, name: str, extension: str) -> tuple[Path, Path]:
    """A certificate by the authority of ``certify``, and its key in PKCS#8."""
    own = f"{home}/{name}"
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{own}.key", "-out", f"{own}.csr"]
    quietly([*new, "-subj", f"/CN={name}"])
    Path(f"{own}.ext").write_text(extension)
    signing = ["-CA", f"{home}/authority.pem", "-CAkey", f"{home}/authority.key", "-CAcreateserial", "-days", "2"]
    request = ["-in", f"{own}.csr", "-extfile", f"{own}.ext", "-out", f"{own}.pem"]
    quietly(["openssl", "x509", "-req", *request, *signing])
    return Path(f"{own}.pem"), Path(f"{own}.key")


def quietly(command: list[str], given: bytes | None = None) -> bytes:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, input=given).stdout
