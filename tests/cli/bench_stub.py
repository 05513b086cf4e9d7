"""A server that answers /v1/completions in no time: what radish bench serving is measured against. It streams --tokens chunks per
request, all at once or with a pause between, and can fail in the ways that servers fail.

Runs in threads of the test's own process; answers are made once, so that it costs less than the client."""
import json, socket, threading, time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text):
    data = text.encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value):
    return chunk("data: " + (value if isinstance(value, str) else json.dumps(value)) + "\n\n")


class Stub:
    """with Stub(fault=..., pause=...) as stub: stub.url, stub.bodies. fault(n, body) -> None, or how the n-th stream fails:
    an int (that HTTP status), "cut" (no end), "error" (an error in the stream), "garbage", "hang"."""

    def __init__(self, fault=lambda n, body: None, pause=0.0, cached=None, counts=True):
        self.fault, self.pause, self.cached, self.counts = fault, pause, cached, counts
        self.bodies, self.times = [], []
        self.lock = threading.Lock()

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer, peer.makefile("rb") as reader:
            try:
                while self.one(peer, reader):
                    pass
            except OSError:
                pass

    def one(self, peer, reader):
        line = reader.readline()
        n = 0
        while (header := reader.readline()) not in (b"\r\n", b""):
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                n = int(value)
        if not line:
            return False
        body = reader.read(n) if n else b""
        if line.startswith(b"GET"):
            self.reply(peer, 200, {"data": [{"id": "stub"}]})
            return True
        return self.complete(peer, json.loads(body))

    def reply(self, peer, status, value):
        data = json.dumps(value).encode()
        peer.sendall(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(data), data))

    def complete(self, peer, body):
        usage = {"prompt_tokens": 3 + 2 * len(body["prompt"].split()), "completion_tokens": body["max_tokens"]}
        if self.cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached}
        if not body["stream"]:
            self.reply(peer, 200, {"choices": [{"text": "x"}], **({"usage": usage} if self.counts else {})})
            return True
        with self.lock:
            fault = self.fault(len(self.bodies), body)
            self.bodies.append(body)
            self.times.append(time.monotonic())
        if isinstance(fault, int):
            self.reply(peer, fault, {"error": {"message": "told to fail"}})
            return True
        return self.stream(peer, body, usage, fault)

    def stream(self, peer, body, usage, fault):
        peer.sendall(HEAD + event({"choices": [{"text": ""}]}))
        if fault == "hang":
            time.sleep(30)
        if fault == "garbage":
            peer.sendall(event("{nonsense"))
            return False
        tokens = [event({"choices": [{"text": " t"}]})] * body["max_tokens"]
        if self.pause:
            for token in tokens:
                time.sleep(self.pause)
                peer.sendall(token)
        else:
            peer.sendall(b"".join(tokens))
        if fault == "cut":
            peer.sendall(b"0\r\n\r\n")
            return True
        if fault == "error":
            peer.sendall(event({"error": {"message": "out of memory"}}) + b"0\r\n\r\n")
            return False
        ends = [event({"choices": [{"text": "", "finish_reason": "length"}]})]
        if self.counts:
            ends.append(event({"choices": [], "usage": usage}))
        peer.sendall(b"".join(ends) + event("[DONE]") + b"0\r\n\r\n")
        return True
