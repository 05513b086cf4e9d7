"""Web pages as clients: those that --cors-origin names, and those that nobody asked for."""
import json

import pytest

BODY = {"prompt": "ab", "max_tokens": 1}
PAGE = "https://chat.example.org"
PREFLIGHT = [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization,content-type,x-stainless-os")]


def cors_headers(answer):
    return {name for name in answer.headers if name.startswith("access-control-")}


def ask(server, method, path, *headers, host="localhost", body=None):
    data = b"" if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"] + [f"{n}: {v}" for n, v in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(data)}")
    return server.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


def test_without_the_flag_there_is_no_cors(server):
    answer = ask(server, "OPTIONS", "/v1/completions", ("Origin", f"http://localhost:{server.port}"), *PREFLIGHT,
                 host=f"localhost:{server.port}")
    assert answer.status == 405 and answer.headers["allow"] == "POST" and not cors_headers(answer)
    answer = server.post("/v1/completions", BODY)
    assert answer.status == 200 and not cors_headers(answer) and "vary" not in answer.headers


def test_a_preflight_needs_no_key_and_the_answers_name_the_origin(start):
    server = start("--cors-origin", PAGE, "--cors-origin", "http://localhost:5173", "--api-key", "k")
    for origin in (PAGE, "http://localhost:5173"):
        answer = ask(server, "OPTIONS", "/v1/completions", ("Origin", origin), *PREFLIGHT)
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == origin
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-allow-headers"] == "authorization,content-type,x-stainless-os"
        assert int(answer.headers["access-control-max-age"]) > 0
        assert answer.headers["vary"] == "Origin"
    key = ("Authorization", "Bearer k")
    for headers, body, status in (
        ([key], BODY, 200), ([], BODY, 401), ([key], {"prompt": 5}, 400), ([key], BODY | {"stream": True}, 200),
    ):
        answer = ask(server, "POST", "/v1/completions", ("Origin", PAGE), *headers, body=body)
        assert answer.status == status
        assert answer.headers["access-control-allow-origin"] == PAGE, "a page may read refusals too"
        assert "X-Radish-Warning" in answer.headers["access-control-expose-headers"]
    answer = ask(server, "GET", "/v1/nothing", ("Origin", PAGE))
    assert answer.status == 404 and answer.headers["access-control-allow-origin"] == PAGE


def test_other_origins_get_no_permission(start):
    server = start("--cors-origin", PAGE, "--api-key", "k")
    for origin in ("https://evil.example", "http://chat.example.org", PAGE + ".evil.example", PAGE + ":444", "null"):
        answer = ask(server, "OPTIONS", "/v1/completions", ("Origin", origin), *PREFLIGHT)
        assert answer.status == 403 and not cors_headers(answer) and answer.headers["vary"] == "Origin"
        # With a key no page can do harm; without permission it cannot read what it gets.
        answer = ask(server, "POST", "/v1/completions", ("Origin", origin), ("Authorization", "Bearer k"), body=BODY)
        assert answer.status == 200 and not cors_headers(answer)


def test_a_star_is_everybody(start):
    server = start("--cors-origin", "*")
    answer = ask(server, "OPTIONS", "/v1/completions", ("Origin", "https://any.example"), *PREFLIGHT,
                 ("Access-Control-Request-Private-Network", "true"))
    assert answer.status == 200 and answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-private-network"] == "true"
    answer = ask(server, "POST", "/v1/completions", ("Origin", "null"), body=BODY, host="rebound.example")
    assert answer.status == 200 and answer.headers["access-control-allow-origin"] == "*" and "vary" not in answer.headers


def test_pages_of_other_sites_cannot_use_a_server_without_keys(server):
    """What browsers let any page do: a POST of text, a GET of an image."""
    body = json.dumps(BODY).encode()
    for headers in (
        [("Origin", "https://evil.example"), ("Content-Type", "text/plain")], [("Origin", "null")], [("Origin", "file://")],
        [("Origin", "http://localhost:1")], [("Origin", "http://127.0.0.1.evil.example")], [("Origin", "http://localhost.evil.example")],
        [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")], [("Sec-Fetch-Site", "same-site")],
    ):
        answer = ask(server, "POST", "/v1/completions", *headers, host=f"localhost:{server.port}", body=body)
        assert answer.status == 403, headers
        assert answer.error()["code"] == "origin_not_allowed" and not cors_headers(answer)
        assert ask(server, "GET", "/v1/models", *headers, host=f"localhost:{server.port}").status == 403
    health = server.health()
    assert health["requests_running"] == 0
    link = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")]
    assert ask(server, "GET", "/health", *link).status == 200, "a link may lead here"
    assert ask(server, "POST", "/v1/completions", *link, body=body).status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_pages_of_our_own_can(server, host):
    for origin, name in ((f"http://{host}:{server.port}", f"{host}:{server.port}"), (f"https://{host}", host), (f"http://{host}:80", host)):
        answer = ask(server, "POST", "/v1/completions", ("Origin", origin), ("Sec-Fetch-Site", "same-origin"), host=name, body=BODY)
        assert answer.status == 200, (origin, name)


def test_names_that_are_not_ours_are_refused_on_loopback(server, start):
    for host in ("rebound.example", f"rebound.example:{server.port}", "127.0.0.1.rebound.example", "localhost.rebound.example."):
        answer = ask(server, "GET", "/v1/models", host=host)
        assert answer.status == 403 and answer.error()["code"] == "host_not_allowed", host
    for host in ("localhost", "localhost:1", "localhost.", "a.localhost", "127.9.9.9:80", "[::1]:80", "::1", "box", "box.local", ""):
        assert ask(server, "GET", "/v1/models", host=host).status == 200, host
    for flags in (["--cors-origin", "https://proxied.example"], ["--api-key", "k"]):
        other = start(*flags)
        assert ask(other, "GET", "/v1/models", ("X-Api-Key", "k"), host="proxied.example").status == 200


@pytest.mark.parametrize("origin", ["chat.example.org", "https://chat.example.org/", "https://", "", "https://a b", "https://a:x", "https://a:"])
def test_origins_that_are_none_are_told_before_anything_is_loaded(origin):
    import subprocess

    from conftest import MODEL, find_program

    done = subprocess.run([find_program(), "serve", MODEL, "--port", "0", "--cors-origin", origin], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--cors-origin" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
