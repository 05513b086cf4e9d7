"""A stand-in of a Hugging Face hub for tests: its API, its file URLs, and a storage host that files redirect to.

Two servers on loopback: the hub, and "storage", on another port and so another origin, to which files in large-file storage are redirected
as the real hub does. Faults are planned per file path: each request takes the next one.
"""
import hashlib, http.server, json, threading, time, urllib.parse

COMMIT = "c0ffee" + "0" * 34


def git_digest(raw):
    return hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()


class Hub:
    def __init__(self):
        self.repos = {}        # "org/name" -> {path: bytes}
        self.commits = {}      # ("org/name", revision) -> commit
        self.small = 200       # files up to this size are not in large-file storage
        self.token = None      # wanted for repositories in `gated`
        self.gated = set()
        self.private = set()
        self.faults = {}       # path -> [fault, ...]; "" = the API
        self.requests = []     # (server, path, headers)
        self.has_blobs = True  # the info has sizes and digests
        self.page = 1000       # entries of a page of the tree
        self.hub = self._serve("hub")
        self.storage = self._serve("storage")
        self.url = f"http://127.0.0.1:{self.hub.server_address[1]}"
        self.storage_url = f"http://127.0.0.1:{self.storage.server_address[1]}"

    def _serve(self, name):
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                stand_in.requests.append((name, self.path, dict(self.headers)))
                (stand_in.answer_hub if name == "hub" else stand_in.answer_storage)(self)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def close(self):
        for server in (self.hub, self.storage):
            server.shutdown()
            server.server_close()

    def put(self, repo, files, commit=COMMIT, revision="main"):
        self.repos[repo, commit] = dict(files)
        self.commits[repo, revision] = commit

    def plan(self, path, *faults):
        self.faults.setdefault(path, []).extend(faults)

    def next_fault(self, path):
        plan = self.faults.get(path)
        return plan.pop(0) if plan else None

    def gets(self, server=None):
        return [path for name, path, _ in self.requests if server in (None, name)]

    # ---- answers ----

    @staticmethod
    def reply(request, code, body=b"", **headers):
        request.send_response(code)
        for key, value in headers.items():
            request.send_header(key.replace("_", "-"), str(value))
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def refuses(self, request, repo, for_files):
        has_token = request.headers.get("Authorization") == f"Bearer {self.token}"
        if repo in self.private and not has_token:
            self.reply(request, 401, b"{}", X_Error_Code="RepoNotFound", X_Error_Message="Invalid username or password.")
        elif for_files and repo in self.gated and not has_token:
            code = 403 if "Authorization" in request.headers else 401
            self.reply(request, code, b"{}", X_Error_Code="GatedRepo", X_Error_Message=f"Access to model {repo} is restricted.")
        else:
            return False
        return True

    def answer_hub(self, request):
        url = urllib.parse.urlsplit(request.path)
        parts = url.path.strip("/").split("/")
        if parts[0] == "api":
            kind_at = next(i for i, part in enumerate(parts) if part in ("revision", "tree"))
            repo, revision = "/".join(parts[2:kind_at]), urllib.parse.unquote(parts[kind_at + 1])
            self.answer_api(request, repo, parts[kind_at], revision, urllib.parse.parse_qs(url.query))
        else:
            at = parts.index("resolve")
            repo, commit = "/".join(parts[:at]), parts[at + 1]
            self.answer_file(request, repo, commit, urllib.parse.unquote("/".join(parts[at + 2:])))

    def answer_api(self, request, repo, kind, revision, query):
        fault = self.next_fault("")
        if callable(fault):
            return fault(self, request)
        if fault:
            return self.reply(request, *fault) if isinstance(fault, tuple) else self.reply(request, fault)
        if self.refuses(request, repo, for_files=False):
            return None
        if not any(known == repo for known, _ in self.repos):
            return self.reply(request, 404 if "Authorization" in request.headers else 401, b"{}", X_Error_Code="RepoNotFound")
        commit = self.commits.get((repo, revision), revision)
        if (repo, commit) not in self.repos:
            return self.reply(request, 404, b"{}", X_Error_Code="RevisionNotFound", X_Error_Message=f"Invalid rev id: {revision}")
        files = self.repos[repo, commit]
        if kind == "revision":
            siblings = []
            for path, raw in files.items():
                entry = {"rfilename": path}
                if self.has_blobs and "blobs" in query:
                    entry |= {"size": len(raw), "blobId": git_digest(raw)}
                    if len(raw) > self.small:
                        entry["lfs"] = {"sha256": hashlib.sha256(raw).hexdigest(), "size": len(raw), "pointerSize": 134}
                siblings.append(entry)
            return self.reply(request, 200, json.dumps({"id": repo, "sha": commit, "gated": repo in self.gated, "siblings": siblings}).encode())
        start = int(query.get("cursor", ["0"])[0])
        entries = []
        for path, raw in list(files.items())[start:start + self.page]:
            entry = {"type": "file", "path": path, "size": len(raw), "oid": git_digest(raw)}
            if len(raw) > self.small:
                entry["lfs"] = {"oid": hashlib.sha256(raw).hexdigest(), "size": len(raw), "pointerSize": 134}
            entries.append(entry)
        headers = {}
        if start + self.page < len(files):
            headers["Link"] = f'<{self.url}/api/models/{repo}/tree/{commit}?recursive=true&cursor={start + self.page}>; rel="next"'
        return self.reply(request, 200, json.dumps([{"type": "directory", "path": "d", "oid": "0"}] * (start == 0) + entries).encode(), **headers)

    def answer_file(self, request, repo, commit, path):
        if self.refuses(request, repo, for_files=True):
            return
        raw = self.repos[repo, commit][path]
        if len(raw) > self.small:
            quoted = urllib.parse.quote(f"{repo}/{commit}/{path}")
            self.reply(request, 302, b"Found. Redirecting", Location=f"{self.storage_url}/{quoted}?X-Amz-Signature=abc",
                       X_Repo_Commit=commit, X_Linked_Size=len(raw), X_Linked_Etag=f'"{hashlib.sha256(raw).hexdigest()}"')
        else:
            self.send_file(request, path, raw)

    def answer_storage(self, request):
        parts = urllib.parse.unquote(urllib.parse.urlsplit(request.path).path).strip("/").split("/")
        at = next(i for i, part in enumerate(parts) if len(part) == 40)
        path = "/".join(parts[at + 1:])
        self.send_file(request, path, self.repos["/".join(parts[:at]), parts[at]][path])

    def send_file(self, request, path, raw):
        fault = self.next_fault(path)
        if callable(fault):
            return fault(self, request)
        if isinstance(fault, int):
            return self.reply(request, fault, b"no")
        kind, *values = fault or ("",)
        if kind == "corrupt":
            raw = raw[:-1] + bytes([raw[-1] ^ 1])
        first = 0
        wanted = request.headers.get("Range")
        if wanted and kind != "no range":
            first = int(wanted.removeprefix("bytes=").rstrip("-"))
            if first >= len(raw):
                return self.reply(request, 416, b"", Content_Range=f"bytes */{len(raw)}")
        request.send_response(206 if first or (wanted and kind != "no range") else 200)
        if first:
            shown = first + 1 if kind == "other range" else first
            request.send_header("Content-Range", f"bytes {shown}-{len(raw) - 1}/{len(raw)}")
        body = raw[first:]
        if kind == "longer":
            body += b"more"
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if kind == "cut":
            request.wfile.write(body[:values[0]])
            request.wfile.flush()
            request.connection.close()
            request.close_connection = True
        elif kind in ("stall", "slow"):
            request.wfile.write(body[:values[0]])
            request.wfile.flush()
            time.sleep(values[1])
            try:
                request.wfile.write(body[values[0]:])
            except OSError:
                request.close_connection = True
        else:
            request.wfile.write(body)
        return None
