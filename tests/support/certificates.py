"""Certificates for servers on this machine, by a new authority."""

import subprocess
from pathlib import Path


def certify(home: Path) -> tuple[Path, Path, Path]:
    """A new authority's certificate, a server's certificate by it for 127.0.0.1, and the server's key."""
    authority, server = home / "authority", home / "server"
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes"]
    named = ["-keyout", f"{authority}.key", "-out", f"{authority}.pem", "-subj", "/CN=authority"]
    _quietly([*new, "-x509", "-days", "2", *named])
    _quietly([*new, "-keyout", f"{server}.key", "-out", f"{server}.csr", "-subj", "/CN=server"])
    Path(f"{server}.ext").write_text("subjectAltName=IP:127.0.0.1")
    signing = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial", "-days", "2"]
    request = ["-in", f"{server}.csr", "-extfile", f"{server}.ext", "-out", f"{server}.pem"]
    _quietly(["openssl", "x509", "-req", *request, *signing])
    return Path(f"{authority}.pem"), Path(f"{server}.pem"), Path(f"{server}.key")


def _quietly(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
