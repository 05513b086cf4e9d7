"""A server whose weights are quantised at start says so where SGLang says it, and answers."""


def test_server_info_names_the_quantization_and_answers_come(start):
    plain, server = start(), start("--quantization", "q8_0")

    info = server.request("GET", "/server_info").json()
    reply = server.post("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0, "ignore_eos": True})

    assert info["quantization"] == "q8_0" and info["internal_states"][0]["quantization"] == "q8_0"
    assert reply.status == 200 and reply.json()["usage"]["completion_tokens"] == 4
    before = plain.request("GET", "/server_info").json()
    assert before["quantization"] is None
    assert info["radish"]["weight_bytes"] < 0.65 * before["radish"]["weight_bytes"]
