"""HTTPS by --ssl-certfile and --ssl-keyfile, with a certificate made here."""
import json
import shutil
import socket
import ssl
import subprocess
import time

import openai
import pytest

from conftest import MODEL, Answer, Server, find_program, make_request, read_all, read_until

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="there is no openssl")


def make_pair(folder, name, *options):
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate,
                    *options], check=True, capture_output=True)
    return str(certificate), str(key)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("tls"), "server")


class TlsServer(Server):
    """`connect` speaks TLS and trusts the server's own certificate only."""

    def __init__(self, pair, *flags):
        self.context = ssl.create_default_context(cafile=pair[0])
        super().__init__("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1], *flags)

    def connect(self):
        return self.context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=60), server_hostname="localhost")


@pytest.fixture(scope="module")
def tls(pair):
    server = TlsServer(pair)
    yield server
    assert server.stop() == 0


def test_the_openai_client_talks_tls(tls, pair):
    assert tls.url.startswith("https://127.0.0.1:")
    with openai.DefaultHttpxClient(verify=ssl.create_default_context(cafile=pair[0])) as http:
        client = openai.OpenAI(base_url=tls.url + "/v1", api_key="none", http_client=http, max_retries=0)
        whole = client.completions.create(model="llama", prompt="ab", max_tokens=8, temperature=0, extra_body={"ignore_eos": True})
        parts = client.completions.create(model="llama", prompt="ab", max_tokens=8, temperature=0, stream=True, extra_body={"ignore_eos": True})
        assert whole.usage.completion_tokens == 8
        assert "".join(p.choices[0].text for p in parts if p.choices) == whole.choices[0].text
        client = openai.OpenAI(base_url=tls.url + "/v1", api_key="none", max_retries=0)
        with pytest.raises(openai.APIConnectionError):
            client.models.list()  # A certificate that it does not know.


def s_client(tls, *options):
    return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{tls.port}", *options], input="", capture_output=True, text=True, timeout=60)


def test_only_modern_versions(tls):
    for version in ("-tls1_2", "-tls1_3"):
        assert "Cipher is (NONE)" not in s_client(tls, version).stdout
    for version in ("-tls1", "-tls1_1"):
        done = s_client(tls, version, "-cipher", "ALL:@SECLEVEL=0")
        assert "Cipher is (NONE)" in done.stdout and done.returncode != 0
        assert "alert protocol version" in done.stderr or "unexpected eof" in done.stderr, done.stderr
    for cipher in ("RC4", "3DES", "NULL", "EXPORT"):
        done = s_client(tls, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0")
        assert "Cipher is ECDHE" not in done.stdout


def test_plain_http_on_the_tls_port_is_closed_and_disturbs_nobody(tls):
    with socket.create_connection(("127.0.0.1", tls.port), timeout=30) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" not in read_all(sock)
    assert tls.health()["status"] == "ok"


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_client_that_leaves_is_noticed_at_once(tls, is_streamed):
    sock = tls.connect()
    body = {"prompt": "Hello", "max_tokens": 480, "ignore_eos": True, "n": 8, "stream": is_streamed}
    sock.sendall(make_request("POST", "/v1/completions", json.dumps(body).encode(), ()))
    if is_streamed:
        read_until(sock, b"data: ")
    else:
        tls.wait(lambda h: h["requests_running"] > 0)
    begin = time.monotonic()
    sock.close()
    tls.wait_idle(10)
    assert time.monotonic() - begin < 5


def test_bodies_of_megabytes_and_kept_connections(tls):
    body = b'{"prompt": "a", "max_tokens": 1' + b" " * 3_000_000 + b"}"
    with tls.connect() as sock:
        for _ in range(2):
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert b"200 OK" in read_until(sock, b"cached_tokens")
    assert tls.post("/v1/completions", b"[").status == 400


def test_a_slow_handshake_is_dropped(pair):
    server = TlsServer(pair, "--receive-timeout", "1")
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
            sock.sendall(b"\x16\x03\x01\x02\x00\x01")
            assert read_all(sock) == b""
        assert server.health()["status"] == "ok"
    finally:
        assert server.stop() == 0


def failed(*flags):
    done = subprocess.run([find_program(), "serve", MODEL, "--port", "0", *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_what_is_wrong_with_the_files_is_said_in_one_line(pair, tmp_path):
    certificate, key = pair
    other, _ = make_pair(tmp_path, "other")
    locked = str(tmp_path / "locked.key")
    subprocess.run(["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked], check=True)
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n\x00")
    assert "--ssl-keyfile is missing" in failed("--ssl-certfile", certificate)
    assert "--ssl-certfile is missing" in failed("--ssl-keyfile", key)
    assert "no/such.crt" in failed("--ssl-certfile", "no/such.crt", "--ssl-keyfile", key)
    assert "no/such.key" in failed("--ssl-certfile", certificate, "--ssl-keyfile", "no/such.key")
    assert "does not belong to the certificate" in failed("--ssl-certfile", other, "--ssl-keyfile", key)
    assert "passphrase" in failed("--ssl-certfile", certificate, "--ssl-keyfile", locked)
    assert "holds no certificate" in failed("--ssl-certfile", key, "--ssl-keyfile", certificate)
    assert "holds no private key" in failed("--ssl-certfile", certificate, "--ssl-keyfile", certificate)
    assert "not a PEM file" in failed("--ssl-certfile", str(garbage), "--ssl-keyfile", key)
