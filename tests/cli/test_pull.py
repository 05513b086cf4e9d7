"""radish pull and radish list, against a stand-in of the hub on loopback: what is fetched, where it goes, what goes wrong on the way."""
import json, os, pty, signal, struct, subprocess, time

import pytest

from conftest import MODELS, TIMEOUT
from hub_stand_in import COMMIT, Hub

BIG = bytes(range(256)) * 12000  # 3 MB


@pytest.fixture
def hub():
    stand_in = Hub()
    yield stand_in
    stand_in.close()


@pytest.fixture
def home(tmp_path):
    return tmp_path


@pytest.fixture
def environment(hub, home):
    return {"HF_ENDPOINT": hub.url + "/", "RADISH_CACHE": str(home / "models"), "HF_HOME": str(home / "hf"), "HF_HUB_CACHE": "",
            "HF_TOKEN": "", "HUGGING_FACE_HUB_TOKEN": "", "HF_TOKEN_PATH": "", "HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "",
            "SSL_CERT_FILE": "", "http_proxy": "", "all_proxy": "", "no_proxy": "127.0.0.1"}


@pytest.fixture
def pull(radish, environment):
    """pull(*args) -> CompletedProcess with text."""
    def run(*args, env=None):
        done = radish("pull", *args, env={**environment, **(env or {})})
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        assert "Sanitizer" not in done.err, done.err
        return done
    return run


@pytest.fixture
def pulled(pull, home):
    def run(*args, **kwargs):
        done = pull(*args, **kwargs)
        assert done.returncode == 0, done.err
        assert len(done.out.splitlines()) == 1 and os.path.isdir(done.out.strip())
        return done
    return run


@pytest.fixture
def refuses(pull):
    def run(*args, status=1, **kwargs):
        done = pull(*args, **kwargs)
        assert done.returncode == status and done.out == "", done
        return done.err
    return run


def llama_files():
    return {p.name: p.read_bytes() for p in (MODELS / "llama").iterdir() if p.is_file()}


def tree(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".radish"))


def stage(home):
    """Files that wait for a later pull."""
    return [p for p in (home / "models/.pull").rglob("*") if p.is_file() and not p.name.endswith(".lock")]


def quants():
    return {"README.md": b"hello", "m-Q4_0.gguf": b"4" * 500, "m-Q8_0.gguf": b"8" * 900, "mmproj-f16.gguf": b"p" * 300,
            "big/m-F16-00001-of-00002.gguf": b"1" * 400, "big/m-F16-00002-of-00002.gguf": b"2" * 400}


# ---- what is fetched ----

def test_a_pulled_model_is_one_for_every_command(hub, pulled, radish, environment, home):
    files = llama_files()
    hub.put("org/llama", files | {"README.md": b"x", "pytorch_model.bin": b"x" * 999, "onnx/model.onnx": b"y" * 999})

    done = pulled("org/llama")

    folder = home / "models/org/llama"
    assert done.out == f"{folder}\n"
    assert "complete" in done.err and "radish chat org/llama" in done.err
    got = tree(folder)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(got)
    assert not {"README.md", "pytorch_model.bin", "onnx/model.onnx"} & set(got)
    assert all((folder / name).read_bytes() == files[name] for name in got)
    assert stage(home) == []
    for name in ["org/llama", "llama"]:
        done = radish("tokenize", name, stdin="hello", env=environment)
        assert done.returncode == 0 and json.loads(done.stdout), done
    for command in (["info", "org/llama"], ["inspect", "llama"], ["run", "org/llama", "-p", "a", "-n", "2"]):
        assert radish(*command, env=environment).returncode == 0


def test_a_second_pull_fetches_nothing(hub, pulled):
    hub.put("org/llama", llama_files())
    pulled("org/llama")
    hub.requests.clear()

    done = pulled("org/llama")

    assert "already there and whole" in done.err
    assert len(hub.requests) == 1 and "/api/models/org/llama/revision/main?blobs=true" in hub.gets()


def test_a_damaged_or_missing_file_is_fetched_again_and_no_other(hub, pulled, home):
    hub.put("org/llama", llama_files())
    pulled("org/llama")
    (home / "models/org/llama/config.json").unlink()
    damaged = home / "models/org/llama/model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\xff")
    hub.requests.clear()

    pulled("org/llama")

    assert damaged.read_bytes() == llama_files()["model.safetensors"]
    assert sorted(p.split("/")[-1] for p in hub.gets("hub")[1:]) == ["config.json", "model.safetensors"]


def test_several_quantisations_are_listed_and_none_is_guessed(hub, refuses):
    hub.put("org/q-GGUF", quants())

    text = refuses("org/q-GGUF")

    assert "holds 3 GGUF models; say which, like org/q-GGUF:Q4_0" in text
    for quant in ["Q4_0", "Q8_0", "F16"]:
        assert quant in text
    assert "mmproj" not in text
    assert not [p for p in hub.gets() if "resolve" in p]
    text = refuses("org/q-GGUF:Q6_K")
    assert "has no GGUF model of Q6_K" in text and "Q8_0" in text


@pytest.mark.parametrize("quant, wanted", [("q8_0", ["m-Q8_0.gguf"]),
                                           ("F16", ["big/m-F16-00001-of-00002.gguf", "big/m-F16-00002-of-00002.gguf"])])
def test_a_quantisation_is_fetched_with_all_its_parts(hub, pulled, home, quant, wanted):
    hub.put("org/q-GGUF", quants())
    pulled(f"org/q-GGUF:{quant}")
    assert tree(home / "models/org/q-GGUF") == wanted


def test_one_quantisation_needs_no_name_and_several_live_together(hub, pulled, radish, environment, home):
    gguf = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
    hub.put("org/one", {"x-Q4_0.gguf": gguf, "README.md": b"x"})
    pulled("org/one")
    assert radish("inspect", "org/one", env=environment).returncode == 0
    hub.put("org/one", {"x-Q4_0.gguf": gguf, "x-Q8_0.gguf": gguf})
    pulled("org/one:Q8_0")
    assert tree(home / "models/org/one") == ["x-Q4_0.gguf", "x-Q8_0.gguf"]
    done = radish("inspect", "org/one", env=environment)
    assert done.returncode == 1 and b"Q4_0, Q8_0" in done.stderr and b"org/one:QUANT" in done.stderr
    assert radish("inspect", "one:q8_0", env=environment).returncode == 0


def test_patterns_choose_files(hub, pulled, refuses, home):
    hub.put("org/q-GGUF", quants())
    pulled("org/q-GGUF", "--include", "*.gguf", "--include", "*.md", "--exclude", "big/*", "--exclude", "*Q4*")
    assert tree(home / "models/org/q-GGUF") == ["README.md", "m-Q8_0.gguf", "mmproj-f16.gguf"]
    assert "none of its 6 files is matched" in refuses("org/q-GGUF", "--include", "*.bin")


def test_a_repository_without_weights_is_refused(hub, refuses):
    hub.put("org/pickles", {"pytorch_model.bin": b"x" * 300, "config.json": b"{}"})
    assert "neither safetensors nor GGUF" in refuses("org/pickles")
    assert "holds no GGUF files, so :Q4_0 means nothing" in refuses("org/pickles:Q4_0")


def test_shards_come_with_their_index_and_consolidated_copies_do_not(hub, pulled, home):
    names = ["config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    hub.put("org/shards", {name: name.encode() for name in names + ["consolidated.safetensors", "sub/other.safetensors"]})
    pulled("org/shards")
    assert tree(home / "models/org/shards") == sorted(names)


def test_revisions_live_side_by_side(hub, pulled, refuses, home):
    hub.put("org/m", {"model.safetensors": b"main"})
    hub.put("org/m", {"model.safetensors": b"old"}, commit="1" * 40, revision="v1.0")
    hub.put("org/m", {"model.safetensors": b"pr"}, commit="2" * 40, revision="refs/pr/1")
    pulled("org/m")
    pulled("org/m@v1.0")
    pulled("org/m", "--revision", "refs/pr/1")
    contents = {p: (home / "models/org" / p / "model.safetensors").read_bytes() for p in ["m", "m@v1.0", "m@refs--pr--1"]}
    assert contents == {"m": b"main", "m@v1.0": b"old", "m@refs--pr--1": b"pr"}
    assert "/api/models/org/m/revision/refs%2Fpr%2F1?blobs=true" in hub.gets()
    assert "has no revision 'v9'" in refuses("org/m@v9")


def test_a_new_commit_replaces_what_changed_and_removes_what_is_gone(hub, pulled, home):
    folder = home / "models/org/m"
    hub.put("org/m", {"config.json": b"{}", "model-1.safetensors": b"a" * 300, "model-2.safetensors": b"b" * 300})
    pulled("org/m")
    (folder / "notes.txt").write_text("mine")
    hub.put("org/m", {"config.json": b"{}", "model-1.safetensors": b"A" * 400}, commit="1" * 40)
    hub.requests.clear()

    pulled("org/m")

    assert tree(folder) == ["config.json", "model-1.safetensors", "notes.txt"]
    assert (folder / "model-1.safetensors").read_bytes() == b"A" * 400
    assert not [p for p in hub.gets() if "config.json" in p]


def test_digests_come_from_the_tree_where_the_info_lacks_them(hub, pulled, home):
    hub.has_blobs, hub.page = False, 2
    files = llama_files()
    hub.put("org/llama", files)
    pulled("org/llama")
    assert len([p for p in hub.gets() if "/tree/" in p]) == -(-len(files) // 2)
    assert (home / "models/org/llama/model.safetensors").read_bytes() == files["model.safetensors"]


def test_names_with_odd_characters_are_quoted(hub, pulled, home):
    hub.put("org/odd", {"a b+c%#?é.gguf": b"x" * 10})
    pulled("org/odd")
    assert tree(home / "models/org/odd") == ["a b+c%#?é.gguf"]


# ---- what goes wrong ----

@pytest.mark.parametrize("faults", [[("cut", 1000), ("cut", 2000000)], [503], [("no range",), ("cut", 5)],
                                    [("cut", 1000), ("no range",)], [("corrupt",)], [("cut", 1000), ("other range",)]])
def test_faults_that_pass_are_survived(hub, pulled, home, faults):
    hub.put("org/m", {"model.safetensors": BIG})
    hub.plan("model.safetensors", *faults)
    done = pulled("org/m")
    assert (home / "models/org/m/model.safetensors").read_bytes() == BIG
    assert ("trying again" in done.err) == (faults not in ([("no range",), ("cut", 5)], [("corrupt",)]))


def test_a_cut_transfer_goes_on_where_it_stopped(hub, pulled):
    hub.put("org/m", {"model.safetensors": BIG})
    hub.plan("model.safetensors", ("cut", 2000000))
    pulled("org/m")
    ranges = [headers.get("Range") for server, _, headers in hub.requests if server == "storage"]
    assert ranges[0] is None and 0 < int(ranges[1][6:-1]) <= 2000000


def test_a_later_run_goes_on_where_an_earlier_one_stopped(hub, pull, pulled, home):
    hub.put("org/m", {"config.json": b"{}", "model.safetensors": BIG})
    hub.plan("model.safetensors", ("cut", 2000000), 500)

    done = pull("org/m", "--retries", "0")

    assert done.returncode == 1 and "model.safetensors: " in done.err
    assert not (home / "models/org").exists()
    assert len(stage(home)) == 2
    pulled("org/m", "--retries", "3")
    assert (home / "models/org/m/model.safetensors").read_bytes() == BIG
    assert stage(home) == []
    assert len([p for p in hub.gets() if p.endswith("/config.json")]) == 1
    assert [headers.get("Range") for server, _, headers in hub.requests if server == "storage"][-1].startswith("bytes=")


def test_a_damaged_part_is_thrown_away(hub, pull, pulled, home):
    hub.put("org/m", {"model.safetensors": BIG})
    hub.plan("model.safetensors", ("cut", 2000000))
    pull("org/m", "--retries", "0")
    part, = stage(home)
    raw = bytearray(part.read_bytes())
    raw[5] ^= 1
    part.write_bytes(raw)
    pulled("org/m")
    assert (home / "models/org/m/model.safetensors").read_bytes() == BIG


@pytest.mark.parametrize("path, what", [("model.safetensors", "its SHA-256 is"), ("config.json", "its git digest is")])
def test_wrong_bytes_never_become_a_file(hub, refuses, home, path, what):
    hub.put("org/m", {"config.json": b"{}", "model.safetensors": BIG})
    hub.plan(path, ("corrupt",), ("corrupt",))
    text = refuses("org/m")
    assert f"{path}: {what}" in text and "but the hub says" in text
    assert not (home / "models/org").exists()
    assert not [p for p in stage(home) if p.name.endswith(".part")]


def test_more_bytes_than_promised_are_refused(hub, refuses):
    hub.put("org/m", {"model.safetensors": BIG})
    hub.plan("model.safetensors", ("longer",))
    assert f"sends more than the {len(BIG)} bytes" in refuses("org/m")


def test_tries_are_spent_in_the_end(hub, refuses):
    hub.put("org/m", {"model.safetensors": BIG})
    hub.plan("", 500, 502)
    text = refuses("org/m", "--retries", "1")
    assert "HTTP 500; trying again in 0.5 s" in text and text.splitlines()[-1] == "radish: org/m: HTTP 502"


def test_the_hub_says_how_long_to_wait(hub, pulled):
    hub.put("org/m", {"model.safetensors": b"x"})
    hub.plan("", lambda h, r: h.reply(r, 429, b"", Retry_After="1"))
    began = time.monotonic()
    done = pulled("org/m")
    assert "HTTP 429; trying again in 1.0 s" in done.err and time.monotonic() - began >= 1


def test_a_stalled_transfer_is_given_up_and_tried_again(hub, pulled):
    hub.put("org/m", {"model.safetensors": BIG})
    hub.plan("model.safetensors", ("stall", 100000, 30))
    began = time.monotonic()
    done = pulled("org/m", "--stall-timeout", "1")
    assert "trying again" in done.err and time.monotonic() - began < 20


def test_no_server_is_said(refuses):
    text = refuses("org/m", "--retries", "0", env={"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert "connect" in text.lower()


def test_a_disk_that_is_too_small_is_seen_before_the_first_byte(hub, refuses):
    def huge(h, request):
        entry = {"rfilename": "model.safetensors", "size": 10**18, "lfs": {"sha256": "0" * 64, "size": 10**18}}
        h.reply(request, 200, json.dumps({"sha": COMMIT, "siblings": [entry]}).encode())
    hub.put("org/m", {})
    hub.plan("", huge)
    assert "are free in" in refuses("org/m")
    assert len(hub.requests) == 1


def test_the_hub_asks_for_a_token_in_words(hub, refuses, pulled, home):
    hub.put("org/gated", {"model.safetensors": BIG})
    hub.put("org/secret", {"model.safetensors": BIG})
    hub.gated, hub.private, hub.token = {"org/gated"}, {"org/secret"}, "hf_right"
    assert f"org/gated is gated: ask for access at {hub.url}/org/gated, then set HF_TOKEN" in refuses("org/gated")
    assert "is gated, and the owner of the token has no access yet" in refuses("org/gated", env={"HF_TOKEN": "hf_wrong"})
    assert "no such repository" in refuses("org/secret") and "or it is private" in refuses("org/secret")
    assert "does not accept the token" in refuses("org/secret", env={"HF_TOKEN": "hf_wrong"})
    assert "no such repository" in refuses("org/nothing")
    assert "holds a character that no token has" in refuses("org/gated", env={"HF_TOKEN": "a\nb"})
    (home / "hf").mkdir()
    (home / "hf/token").write_text("hf_right\n")
    pulled("org/gated")
    pulled("org/secret")


def test_the_token_is_for_the_hub_alone(hub, pulled):
    hub.put("org/m", {"config.json": b"{}", "model.safetensors": BIG})
    pulled("org/m", env={"HF_TOKEN": "hf_secret"})
    seen = {(server, "Authorization" in headers) for server, _, headers in hub.requests}
    assert seen == {("hub", True), ("storage", False)}


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", ""])
def test_redirects_go_to_http_only(hub, refuses, location):
    hub.put("org/m", {"config.json": b"{}", "model.safetensors": b"x"})
    hub.plan("config.json", lambda h, r: h.reply(r, 302, b"", Location=location))
    assert "redirects to a place that is not followed" in refuses("org/m")


def test_redirects_have_an_end(hub, refuses):
    hub.put("org/m", {"model.safetensors": b"x"})
    hub.plan("model.safetensors", *[lambda h, r: h.reply(r, 302, b"", Location=r.path)] * 20)
    assert "redirects without end" in refuses("org/m")


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil", "a\\b", "a//b", ".", "x\0y", "a/\x1b[2J", ".radish.json", "x" * 300,
                                  "\ud800"])
def test_a_path_that_leaves_the_folder_refuses_the_repository(hub, refuses, home, path):
    entries = [{"rfilename": path, "size": 1, "blobId": "0" * 40}, {"rfilename": "model.safetensors", "size": 1, "blobId": "0" * 40}]
    hub.put("org/m", {})
    hub.plan("", lambda h, r: h.reply(r, 200, json.dumps({"sha": COMMIT, "siblings": entries}).encode()))
    refuses("org/m")
    assert not (home / "models").exists()


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"{}", b'{"sha": "x", "siblings": []}', b'{"sha": "%s"}' % COMMIT.encode(),
                                    b'{"sha": "%s", "siblings": [{"rfilename": 5}]}' % COMMIT.encode(), b"[" * 100000])
def test_a_strange_answer_is_one_line_of_error(hub, refuses, answer):
    hub.plan("", (200, answer))
    text = refuses("org/m")
    assert text.count("\n") == 1 and "hub" in text


def test_nothing_without_a_digest_is_fetched(hub, refuses):
    hub.put("org/m", {"model.safetensors": b"x"})
    hub.plan("", lambda h, r: h.reply(r, 200, json.dumps({"sha": COMMIT, "siblings": [{"rfilename": "model.safetensors"}]}).encode()),
             lambda h, r: h.reply(r, 200, json.dumps([{"type": "file", "path": "model.safetensors", "size": 1}]).encode()))
    assert "no size or no digest for model.safetensors" in refuses("org/m")


# ---- the user ----

@pytest.mark.parametrize("arguments, says", [
    ([], "MODEL is missing"), (["../x"], "no name of a repository"), (["a/b/c"], "no name of a repository"), (["a b/c"], "no name of a"),
    (["-x/y"], "unknown flag"), (["org/m:Q4", "--include", "*"], "not both"), (["org/m@a", "--revision", "b"], "given twice"),
    (["org/m", "--revision", "../x"], "no revision"), (["org/m", "--include", ""], "wants a"), (["org/m", "--retries", "-1"], "--retries"),
    (["org/m", "org/n"], "one argument too many"), (["https://huggingface.co/org/m"], "no name of a repository")])
def test_wrong_usage_is_status_2(refuses, arguments, says):
    assert says in refuses(*arguments, status=2)


def test_an_endpoint_that_is_no_url_is_named(refuses):
    for endpoint in ["file:///etc", "ftp://x", "::"]:
        assert "HF_ENDPOINT" in refuses("org/m", env={"HF_ENDPOINT": endpoint})


def test_offline_means_that_nobody_is_asked(hub, pull, pulled, refuses):
    hub.put("org/m", {"model.safetensors": b"x"})
    assert "HF_HUB_OFFLINE is set" in refuses("org/m", env={"HF_HUB_OFFLINE": "1"})
    assert hub.requests == []
    pulled("org/m")
    hub.requests.clear()
    done = pull("org/m", env={"HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0 and "was not compared" in done.err and hub.requests == []


def test_ctrl_c_leaves_what_came_for_the_next_run(hub, radish, environment, pulled, home):
    hub.put("org/m", {"config.json": b"{}", "model.safetensors": BIG})
    hub.plan("model.safetensors", ("stall", 1000000, 30))
    process = subprocess.Popen([radish.program, "pull", "org/m"], env={**os.environ, **environment}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and sum(p.stat().st_size for p in stage(home)) < 900000:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1 and out == "" and "interrupted; the same command goes on from here" in err
    assert not (home / "models/org").exists()
    pulled("org/m")
    assert [headers.get("Range") for server, _, headers in hub.requests if server == "storage"][-1] == "bytes=1000000-"
    assert (home / "models/org/m/model.safetensors").read_bytes() == BIG


def test_two_pulls_at_once_fetch_once(hub, radish, environment, home):
    hub.put("org/m", {"model.safetensors": BIG})
    hub.plan("model.safetensors", ("slow", 100000, 0.7))
    processes = [subprocess.Popen([radish.program, "pull", "org/m"], env={**os.environ, **environment}, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) for _ in range(3)]
    texts = [p.communicate(timeout=TIMEOUT)[1] for p in processes]
    assert [p.returncode for p in processes] == [0, 0, 0], texts
    assert (home / "models/org/m/model.safetensors").read_bytes() == BIG
    assert len(hub.gets("storage")) == 1
    assert sum("waiting for it" in text for text in texts) == 2
    assert sum("already there and whole" in text for text in texts) == 2


def test_progress_is_drawn_on_a_terminal_and_told_elsewhere(hub, radish, environment, pulled):
    hub.put("org/m", {"config.json": b"{}", "model.safetensors": BIG})
    hub.plan("model.safetensors", ("slow", 1500000, 0.6))
    master, slave = pty.openpty()
    done = subprocess.run([radish.program, "pull", "org/m"], env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=slave,
                          timeout=TIMEOUT)
    os.close(slave)
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:
        pass
    os.close(master)
    assert done.returncode == 0
    assert b"\r\x1b[K[2/2] model.safetensors" in shown and b"MB of 3.07 MB" in shown and b"MB/s" in shown and b"left" in shown
    hub.put("org/n", {"config.json": b"{}", "model.safetensors": BIG})
    text = pulled("org/n").err
    assert "\x1b" not in text and "[1/2] config.json" in text and "[2/2] model.safetensors" in text


# ---- list ----

def test_list_shows_both_caches(hub, pulled, radish, environment, home):
    hub.put("org/llama", llama_files())
    hub.put("org/q-GGUF", quants())
    pulled("org/llama")
    pulled("org/q-GGUF:F16")
    snapshot = home / "hf/hub/models--meta--tiny/snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs/main").write_text(COMMIT)
    for name, raw in llama_files().items():
        (snapshot / name).write_bytes(raw)

    text = radish("list", env=environment).stdout.decode()
    rows = [json.loads(line) for line in radish("list", "--json", env=environment).stdout.decode().splitlines()]

    assert [row["name"] for row in rows] == ["meta/tiny", "org/llama", "org/q-GGUF:F16"]
    assert [row["cache"] for row in rows] == ["huggingface", "radish", "radish"]
    assert rows[2]["bytes"] == 800 and rows[0]["path"] == str(snapshot)
    assert all(row["name"] in text and row["path"] in text for row in rows)
    for name in ("meta/tiny", "tiny"):
        assert radish("tokenize", name, stdin="x", env=environment).returncode == 0
    assert radish("list", "x", env=environment).returncode == 2


def test_an_empty_cache_and_a_missing_model_say_how_to_get_one(radish, failed, environment):
    done = radish("list", env=environment)
    assert done.returncode == 0 and done.stdout == b"" and b"radish pull ORG/NAME" in done.stderr
    assert "'radish pull org/none' fetches it" in failed("run", "org/none", "-p", "x", env=environment)
