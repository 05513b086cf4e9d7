"""The page at GET /: what is served, and what a real browser makes of it.

The browser's tests are skipped where there is no Chromium. RADISH_SCREENSHOTS=DIR keeps a picture of each. Every tab ends with a look at its
console: an error, or something that the page's policy refused, fails the test.
"""
import gzip
import json
import os
import subprocess
import sys

import pytest

from browser import Browser, Tab, find_chromium
from conftest import MODEL, ROOT

FOREVER = {"max_tokens": 16000, "ignore_eos": True, "temperature": 0}
LONG_CONTEXT = ["--context-length", "16384", "--max-total-tokens", "40000"]
TRUNK = "You are the librarian. "


def get(server, path, *headers):
    return server.request("GET", path, headers=headers)


def complete(server, prompt, max_tokens=4, headers=(), **more):
    answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, **more}, headers)
    assert answer.status == 200, answer.body
    return answer.json()


def has_markdown(server):
    return b"/page/marked.js" in get(server, "/").body


# ---- what is served


def test_the_page_is_served_whole_compressed_and_not_at_all(server):
    whole = get(server, "/")
    assert whole.status == 200 and whole.headers["content-type"] == "text/html; charset=utf-8"
    packed = get(server, "/", ("Accept-Encoding", "deflate, gzip;q=0.5, br"))
    assert packed.headers["content-encoding"] == "gzip" and gzip.decompress(packed.body) == whole.body
    assert len(packed.body) < len(whole.body) / 2
    for refusal in ("gzip;q=0", "gzip; q=0.000, br", "br", "identity"):
        assert "content-encoding" not in get(server, "/", ("Accept-Encoding", refusal)).headers, refusal
    assert whole.headers["etag"] != packed.headers["etag"]
    for one, accepted in ((whole, "identity"), (packed, "gzip")):
        again = get(server, "/", ("Accept-Encoding", accepted), ("If-None-Match", one.headers["etag"]))
        assert again.status == 304 and again.body == b"" and again.headers["etag"] == one.headers["etag"]
    assert get(server, "/", ("If-None-Match", '"other"')).status == 200
    head = server.request("HEAD", "/")
    assert head.status == 200 and head.body == b"" and int(head.headers["content-length"]) == len(whole.body)


def test_every_file_of_the_page_comes_with_the_policy_that_locks_it_in(server):
    names = ["/", "/page/page.css", "/page/radish.svg", "/page/licences.txt"]
    names += [f"/page/{n}.js" for n in ("api", "chat", "format", "markdown", "page", "spark", "tree")]
    for name in names:
        answer = get(server, name)
        assert answer.status == 200, name
        policy = answer.headers["content-security-policy"]
        assert policy.split("; ") == ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:",
                                      "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"]
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-cache" and answer.headers["vary"] == "Accept-Encoding"
    for name in ("/page/", "/page/none.js", "/page/../page/page.js", "/page/page.js/"):
        assert get(server, name).status == 404, name
    assert server.post("/", {}).status == 405


def test_the_libraries_are_served_with_their_licences(server):
    if not has_markdown(server):
        pytest.skip("built without node-marked and node-dompurify")
    licences = get(server, "/page/licences.txt").body.decode()
    assert b"Copyright (c) 2011-" in get(server, "/page/marked.js").body[:300] and "marked" in licences
    assert b"Released under the Apache license 2.0" in get(server, "/page/purify.js").body[:300]


def test_the_page_is_built_without_the_libraries_too(tmp_path):
    out = tmp_path / "page.c"
    subprocess.run([sys.executable, os.path.join(ROOT, "tools/embed_page.py"), out, os.path.join(ROOT, "src/server/page")], check=True)
    made = out.read_text()
    assert '{"/page/page.js", "text/javascript; charset=utf-8"' in made and "/page/marked.js" not in made
    assert "holds no code of others" in file_of(made, "/page/licences.txt") and "<script" in file_of(made, "/")


def file_of(made, path):
    """A file's text, read back from the C that it became."""
    row = next(line for line in made.splitlines() if line.startswith(f'    {{"{path}",'))
    array = row.split(", ")[2]
    numbers = made.split(f" {array}[] = {{")[1].split("}")[0]
    return bytes(int(n) for n in numbers.split(",")).decode()


def test_the_tree_as_json_is_what_was_asked(start):
    server = start("--max-total-tokens", "4000")
    assert get(server, "/radix/tree").json() == {"enabled": True, "nodes": 0, "tokens": 0, "has_text": True, "tree": []}
    for end in ("Where is Moby-Dick?", "Where is Dune?", "When do you open?"):
        complete(server, TRUNK + end)
    tree = get(server, "/radix/tree").json()
    nodes, radix = tree["tree"], get(server, "/radix").json()
    assert tree["nodes"] == radix["nodes"] == len(nodes) and tree["tokens"] == radix["tokens"]["cached"] == sum(n["tokens"] for n in nodes)
    assert len({n["id"] for n in nodes}) == len(nodes)
    for i, node in enumerate(nodes):
        above = nodes[node["parent"]] if node["parent"] >= 0 else {"tokens_path": 0}
        behind = [n for n in nodes if is_behind(nodes, n, i)]
        assert -1 <= node["parent"] < i and node["tokens_path"] == above["tokens_path"] + node["tokens"]
        assert node["tokens_below"] == sum(n["tokens"] for n in behind) and node["nodes_below"] == len(behind)
        assert node["text_tokens"] == min(node["tokens"], 32) and node["pins"] == 0
    top = [n for n in nodes if n["parent"] < 0]
    assert len(top) == 1 and top[0]["text"].startswith(TRUNK[:10]) and top[0]["hits"] == 2
    assert sum(n["age"] == 0 for n in nodes) >= 1
    off = start("--disable-radix-cache")
    assert get(off, "/radix/tree").json() == {"enabled": False}


def is_behind(nodes, node, i):
    while node["parent"] >= 0:
        if node["parent"] == i:
            return True
        node = nodes[node["parent"]]
    return False


def test_the_tree_shows_no_text_to_one_of_several_keys(start):
    server = start("--api-key", "alpha", "--api-key", "beta")
    alpha, beta = (("Authorization", "Bearer " + key) for key in ("alpha", "beta"))
    complete(server, TRUNK, headers=[alpha])
    complete(server, TRUNK, headers=[beta])
    assert get(server, "/radix/tree").status == 401 and get(server, "/").status == 200
    tree = get(server, "/radix/tree", beta).json()
    assert not tree["has_text"] and len({n["namespace"] for n in tree["tree"]}) == 2
    assert b"librarian" not in get(server, "/radix/tree", beta).body and all("text" not in n for n in tree["tree"])


# ---- what a browser shows


@pytest.fixture(scope="module")
def browser():
    if not find_chromium():
        pytest.skip("there is no chromium here")
    one = Browser()
    yield one
    one.close()


@pytest.fixture
def open_tab(browser, request):
    tabs = []

    def open_one(server, expects=(), **more):
        tab = Tab(browser, server.url, **more)
        tab.expects = list(expects)  # Parts of complaints that belong to the test.
        tabs.append(tab)
        return tab

    yield open_one
    folder = os.environ.get("RADISH_SCREENSHOTS")
    for i, tab in enumerate(tabs):
        if folder:
            tab.screenshot(os.path.join(folder, f"{request.node.name}_{i}.png"))
        said = [json.dumps(c) for c in tab.complaints()]
        tab.close()
        assert [c for c in said if not any(part in c for part in tab.expects)] == []


def serving(tab):
    tab.wait("document.getElementById('state').innerText === 'serving'")


def nodes_shown(tab):
    return tab.js("[...document.querySelectorAll('.node')].map(g => [g.getAttribute('aria-level'), g.getAttribute('aria-label'), "
                  "Number(g.querySelector('rect').getAttribute('width'))])")


def ask(tab, text):
    """Sends a message and waits for the end of the answer; returns the answer's element as [text, figures, error]."""
    before = tab.js("document.querySelectorAll('.message').length")
    tab.type("#prompt", text)
    tab.key("Enter", 13, "\r")
    tab.wait(f"document.querySelectorAll('.message').length === {before + 2} && document.getElementById('stop').hidden")
    return tab.js("(m => [m.querySelector('.said').innerText, m.querySelector('.meta').innerText, m.querySelector('.error')?.innerText ?? ''])"
                  "([...document.querySelectorAll('.message')].at(-1))")


def test_figures_and_tree_follow_what_the_server_does(start, open_tab):
    server = start(*LONG_CONTEXT)
    tab = open_tab(server)
    serving(tab)
    tab.wait("document.getElementById('model').innerText.startsWith('llama, 16.4k tokens')")
    assert "llama" in tab.js("document.title")
    tab.wait("document.getElementById('tree-empty').innerText.includes('The cache is empty')")
    assert (tab.text("#running"), tab.text("#n-pinned"), tab.text("#hits-total")) == ("0", "0 0%", "–")

    for end in ("Where is Moby-Dick?", "Where is Dune?", "When do you open?"):
        complete(server, TRUNK + end)
    sock = server.start_post("/v1/completions", {**FOREVER, "prompt": TRUNK + "Tell me a long story.", "stream": True})
    tab.wait("document.getElementById('running').innerText === '1' && !document.getElementById('n-pinned').innerText.startsWith('0 ')"
             " && document.querySelector('#pool .pinned').getBoundingClientRect().width > 0")
    tab.wait("Number(document.getElementById('speed').innerText.replace(/[,k]/g, '')) > 0")
    tab.wait("[...document.querySelectorAll('.node rect.pin')].some(pin => Number(pin.getAttribute('width')) > 0)")
    sock.close()
    server.wait(lambda health: health["requests_running"] == 0)
    tab.wait("document.getElementById('running').innerText === '0' && document.getElementById('n-pinned').innerText === '0 0%'")
    health = server.health()
    share = 100 * health["cached_tokens"] / health["prompt_tokens"]
    tab.wait(f"document.getElementById('hits-total').innerText === '{share:.1f}%'")
    assert "now 0 and 0" in tab.js("document.getElementById('spark-requests').getAttribute('aria-label')")
    assert f"{health['kv_slots_evictable']} tokens evictable" in tab.js("document.getElementById('pool').getAttribute('aria-label')")
    ink = tab.js("(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 === 3 && v).length)"
                 "(document.getElementById('spark-speed'))")
    assert ink > 500


def test_the_icicle_shows_shared_prefixes_and_is_walked_by_keys(start, open_tab):
    server = start("--max-total-tokens", "4000")
    for end in ("Where is Moby-Dick?", "Where is Dune?", "When do you open?"):
        complete(server, TRUNK + end, 8)
    tab = open_tab(server)
    tab.wait("document.querySelectorAll('.node').length > 4")
    tree = get(server, "/radix/tree").json()
    shown = nodes_shown(tab)
    assert len(shown) == tree["nodes"] + 1  # and one that stands for all
    assert shown[0][1].startswith(f"all prefixes · {tree['tokens']} tokens")
    assert shown[1][0] == "2" and shown[1][1].startswith(TRUNK[:10])
    # Width is tokens: a node's share of its parent's width is its share of the tokens there.
    sum_width = shown[0][2]
    for node, (_, label, width) in zip(sorted(tree["tree"], key=lambda n: -n["tokens"] - n["tokens_below"]), sorted(shown[1:], key=lambda s: -s[2])):
        assert width == pytest.approx(sum_width * (node["tokens"] + node["tokens_below"]) / tree["tokens"], abs=1.01), label

    tab.js("document.querySelector('.node[tabindex=\"0\"]').focus()")
    tab.key("ArrowDown", 40)
    assert tab.text("#d-own").startswith(TRUNK[:10]) and "2 hits" in tab.text("#d-facts")
    tab.key("ArrowDown", 40)
    assert tab.text("#d-before").startswith(TRUNK[:10]) and tab.text("#d-own")
    tab.key("Enter", 13, "\r")
    assert tab.js("document.querySelectorAll('.node').length") < len(shown) and "›" in tab.text("#crumbs")
    assert tab.js("document.activeElement.classList.contains('node')")
    tab.key("Escape", 27)
    tab.key("Escape", 27)
    assert tab.js("document.querySelectorAll('.node').length") == len(shown)
    tab.js("[...document.querySelectorAll('.node')].at(-1).dispatchEvent(new MouseEvent('mouseenter'))")
    last = tab.text("#d-own")
    complete(server, "Something else")  # A refresh leaves alone what a reader looks at.
    tab.wait(f"document.querySelectorAll('.node').length > {len(shown)}")
    assert tab.text("#d-own") == last and tab.js("document.querySelectorAll('.node.chosen').length") == 1


def test_the_chat_answers_and_says_what_it_cost(server, open_tab):
    tab = open_tab(server, expects=["400 (Bad Request)"])
    serving(tab)
    tab.js("document.getElementById('max-tokens').value = '20'; document.getElementById('temperature').value = '0'")
    assert server.post("/flush_cache?timeout=30", {}).status == 200  # Other tests said hello, too.
    text, figures, error = ask(tab, "Hello")
    assert error == "" and "prompt tokens, 0 cached" in figures and "first token" in figures, (text, figures)
    reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 20}).json()
    assert text.split() == reply["choices"][0]["message"]["content"].split()
    _, figures, _ = ask(tab, "And more")
    assert "prompt tokens, " in figures and ", 0 cached" not in figures
    tab.js("document.getElementById('temperature').value = '-1'")
    _, _, error = ask(tab, "Too hot")
    assert "temperature" in error
    tab.click("#chat-new")
    assert tab.js("document.querySelectorAll('.message').length") == 0 and not tab.js("document.getElementById('chat-empty').hidden")


def test_stop_ends_an_answer_here_and_on_the_server(start, open_tab):
    server = start(*LONG_CONTEXT)
    tab = open_tab(server)
    serving(tab)
    # The tiny model ends soon by itself: the browser is made to ask for more.
    tab.js("window.fetch = (f => (path, o) => f(path, o?.body ? {...o, body: JSON.stringify({...JSON.parse(o.body), ignore_eos: true, temperature: 0})} : o))"
           "(window.fetch)")
    tab.type("#prompt", "Never end")
    tab.click("#send")
    tab.wait("!document.getElementById('stop').hidden && document.querySelector('.assistant .said').innerText.length > 20")
    assert server.health()["requests_running"] == 1
    tab.click("#stop")
    tab.wait("document.getElementById('stop').hidden && document.querySelector('.assistant .meta').innerText.includes('stopped')")
    server.wait_idle()


def test_a_model_without_template_continues_the_text(start, open_tab, tmp_path):
    for name in os.listdir(MODEL):
        if name != "chat_template.jinja":
            os.symlink(os.path.join(MODEL, name), tmp_path / name)
    server = start(model=str(tmp_path))
    tab = open_tab(server, expects=["400 (Bad Request)"])
    serving(tab)
    tab.js("document.getElementById('max-tokens').value = '8'; document.getElementById('temperature').value = '0'")
    text, _, error = ask(tab, "Once upon")
    assert error == "" and text.split() == complete(server, "Once upon", 8, ignore_eos=False)["choices"][0]["text"].split()
    assert "no chat template" in tab.text("#chat-mode")


EVIL = """<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>
<svg onload="window.hacked=3"></svg> <iframe srcdoc="<script>parent.hacked=4</script>"></iframe> <style>body{display:none}</style>

[click](javascript:window.hacked=5) [data](data:text/html,<script>1</script>) [good](https://example.org/a?b=c) ![picture](http://192.0.2.1/leak.png)
<a href="javascript:window.hacked=6" onmouseover="window.hacked=7" style="position:fixed">x</a> <form action="/"><input name=q></form>

# Title <b onclick=alert(1)>b</b>

```html
<img src=x onerror="window.hacked=8">
```
| a | b |
|:-:|---|
| **1** | `2` |
"""


def answer_with(tab, text):
    """Makes the browser take a text for what the model says."""
    events = [{"choices": [{"delta": {"content": text[i:i + 7]}, "finish_reason": None}]} for i in range(0, len(text), 7)]
    events.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}})
    stream = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"
    tab.js("window.fetch = (f => (path, o) => String(path).includes('/v1/chat/') ? Promise.resolve(new Response("
           f"{json.dumps(stream)}, {{headers: {{'Content-Type': 'text/event-stream'}}}})) : f(path, o))(window.fetch)")


def test_nothing_that_a_model_says_runs(server, open_tab):
    if not has_markdown(server):
        pytest.skip("built without node-marked and node-dompurify")
    tab = open_tab(server, expects=["violates the following Content Security Policy"])
    serving(tab)
    answer_with(tab, EVIL)
    text, figures, error = ask(tab, EVIL)
    assert error == "" and "3 prompt tokens, 1 cached" in figures
    found = tab.js("(s => ({hacked: window.hacked ?? null, tags: [...new Set([...s.querySelectorAll('*')].map(e => e.tagName))].sort(), "
                   "links: [...s.querySelectorAll('a')].map(a => [a.getAttribute('href'), a.rel, a.target]), "
                   "attributes: [...s.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => a.name)), "
                   "code: s.querySelector('pre code').textContent, bold: s.querySelector('td strong').textContent, "
                   "headings: [...s.querySelectorAll('h1')].map(h => h.textContent)}))(document.querySelector('.assistant .said'))")
    assert found["hacked"] is None
    assert not {"IMG", "SCRIPT", "SVG", "IFRAME", "STYLE", "FORM", "INPUT"} & set(found["tags"])
    assert not [a for a in found["attributes"] if a.startswith("on") or a in ("style", "src", "srcdoc")]
    assert ["https://example.org/a?b=c", "noopener noreferrer", "_blank"] in found["links"]
    assert all(link[0] is None or link[0].startswith("https://example.org") for link in found["links"])
    assert found["code"] == '<img src=x onerror="window.hacked=8">\n' and found["bold"] == "1"
    assert found["headings"] == ["Title <b onclick=alert(1)>b</b>"] and "<script>window.hacked=2</script>" in text
    assert tab.text(".user .said").strip() == EVIL.strip()
    tab.click(".code button")
    tab.wait("/Copied|Selected/.test(document.querySelector('.code button').innerText)")
    assert not [url for url in tab.requests() if not url.startswith(server.url)]

    assert tab.complaints() == []

    # What gets past the Markdown library still meets DOMPurify, and what got past that the policy.
    tab.js("import('/page/markdown.js').then(m => { marked.parse = text => text; const e = document.createElement('div'); e.id = 'raw'; "
           f"document.body.append(e); m.showText(e, {json.dumps(EVIL)}); }})")
    assert tab.js("window.hacked ?? null") is None
    assert tab.js("document.querySelectorAll('#raw :is(img, script, svg, iframe, style, form, input, [onmouseover], [style], [href^=javascript])').length") == 0
    assert tab.js("document.querySelector('#raw a') !== null")


def test_nothing_that_a_prompt_holds_runs_in_the_tree(start, open_tab):
    server = start("--max-total-tokens", "4000")
    complete(server, '<img src=x onerror="window.hacked=1">\n<script>window.hacked=2</script>')
    tab = open_tab(server)
    tab.wait("document.querySelectorAll('.node').length >= 2")
    tab.js("[...document.querySelectorAll('.node')][1].dispatchEvent(new MouseEvent('mouseenter'))")
    assert tab.text("#d-own").startswith("<img src=x") and tab.js("document.querySelectorAll('main img, main script').length") == 0
    assert tab.js("window.hacked ?? null") is None


def test_without_the_libraries_answers_are_plain_text(server, open_tab):
    tab = open_tab(server, expects=["marked.js", "purify.js", "net::ERR_BLOCKED"])
    tab.call("Network.setBlockedURLs", urls=["*/page/marked.js", "*/page/purify.js"])
    tab.call("Page.reload", ignoreCache=True)
    tab.wait("document.readyState === 'complete' && !window.marked")
    serving(tab)
    answer_with(tab, "**bold**\n<b>x</b>")
    assert ask(tab, "Hello")[0] == "**bold**\n<b>x</b>"


def test_a_key_is_asked_for_and_kept_in_the_tab_only(start, open_tab):
    server = start("--api-key", "sesame", "--max-total-tokens", "4000")
    key = ("Authorization", "Bearer sesame")
    complete(server, TRUNK, headers=[key])
    tab = open_tab(server, expects=["401 (Unauthorized)"])
    serving(tab)
    tab.wait("!document.getElementById('key').hidden")
    assert "needs an API key" in tab.text("#key-label") and "who have an API key" in tab.text("#tree-empty")
    assert tab.js("document.querySelectorAll('.node').length") == 0 and tab.text("#n-private") == "0 0%"
    tab.type("#key-value", "mellon")
    tab.key("Enter", 13, "\r")
    tab.wait("document.getElementById('key-label').innerText.includes('does not know')")
    _, _, error = ask(tab, "Hello")
    assert "needs an API key" in error and tab.js("document.activeElement.id") in ("key-value", "prompt")
    tab.js("document.getElementById('key').hidden = false")
    tab.type("#key-value", "sesame")
    tab.click("#key-use")
    tab.wait("document.querySelectorAll('.node').length >= 2 && document.getElementById('model').innerText.startsWith('llama')")
    assert tab.js("document.getElementById('key').hidden")
    _, _, error = ask(tab, "Hello")
    assert error == ""
    assert tab.js("[Object.values(sessionStorage).join(), localStorage.length, document.cookie]") == ["sesame", 0, ""]
    tab.call("Page.reload")
    tab.wait("document.querySelectorAll('.node').length >= 2")
    assert not any("sesame" in url for url in tab.requests())
    tab.click("#key-open")
    tab.click("#key-forget")
    tab.wait("!document.getElementById('key').hidden && sessionStorage.length === 0")


def test_the_page_fits_a_phone_and_a_wall_in_light_and_dark_and_stays_where_it_is(server, open_tab):
    complete(server, TRUNK)
    tab = open_tab(server, width=360, height=740)
    serving(tab)
    # Shifts since navigation, those that a reader's own act caused left out.
    tab.js("window.shift = 0; new PerformanceObserver(list => { for (const e of list.getEntries()) if (!e.hadRecentInput) window.shift += e.value; })"
           ".observe({type: 'layout-shift', buffered: true})")
    tab.wait("document.querySelectorAll('.node').length >= 2")
    backgrounds = {}
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        backgrounds[scheme] = tab.wait("getComputedStyle(document.body).backgroundColor")
    brightness = {scheme: sum(int(n) for n in colour[4:-1].split(",")) for scheme, colour in backgrounds.items()}
    assert brightness["light"] > 600 and brightness["dark"] < 120
    assert tab.js("window.shift") < 0.05  # 0.1 is what browsers' makers call good
    for width, height in ((360, 740), (768, 1024), (1440, 900), (3840, 2160)):
        tab.size(width, height)
        tab.wait(f"window.innerWidth === {width}")
        assert tab.js("document.documentElement.scrollWidth") <= width
    unnamed = tab.js("[...document.querySelectorAll('button, input, textarea')].filter(e => !(e.innerText || e.labels?.length || e.ariaLabel)).map(e => e.id)")
    assert unnamed == []


def test_a_hidden_tab_asks_for_nothing_and_a_stopped_server_is_seen(start, open_tab):
    server = start("--max-total-tokens", "4000")
    tab = open_tab(server, expects=["ERR_CONNECTION"])
    serving(tab)
    hide = "Object.defineProperty(document, 'hidden', {{value: {0}, configurable: true}}); document.dispatchEvent(new Event('visibilitychange'))"
    tab.js(hide.format("true"))
    tab.js("new Promise(done => setTimeout(done, 400))")  # What was under way ends.
    before = len(tab.requests())
    tab.js("new Promise(done => setTimeout(done, 1500))")
    assert len(tab.requests()) == before
    tab.js(hide.format("false"))
    tab.js("new Promise(done => setTimeout(done, 200))")
    assert len(tab.requests()) > before
    server.stop()
    tab.wait("document.getElementById('state').innerText === 'no answer'")
