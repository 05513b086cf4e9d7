"""A real model: answers that mean something, and do not mix; turns of a conversation find what the earlier ones computed."""
import concurrent.futures

from conftest import plan_bytes, rss_bytes

FACTS = [
    ("Anna", "a violin"), ("Boris", "a telescope"), ("Carla", "a bicycle"), ("David", "a parrot"),
    ("Elena", "a canoe"), ("Felix", "a typewriter"), ("Greta", "a kite"), ("Hugo", "a piano"),
    ("Irene", "a hammer"), ("Jonas", "a camera"), ("Karin", "a lantern"), ("Louis", "a drum"),
    ("Maria", "a compass"), ("Nils", "a ladder"), ("Olga", "a violet scarf"), ("Peter", "a sword"),
    ("Quinn", "a teapot"), ("Rosa", "a guitar"), ("Simon", "a rabbit"), ("Tina", "a mirror"),
    ("Ugo", "a helmet"), ("Vera", "a basket"), ("Walter", "a clock"), ("Xenia", "a feather"),
    ("Yuri", "a candle"), ("Zoe", "a pumpkin"), ("Arthur", "a trumpet"), ("Bella", "a turtle"),
    ("Cesar", "a wallet"), ("Dora", "an umbrella"), ("Emil", "a tractor"), ("Frida", "a microscope"),
]


def test_32_concurrent_chats_with_distinct_facts_and_no_foreign_answer(smollm2):
    client = smollm2.client()

    def ask(fact):
        name, thing = fact
        return client.chat.completions.create(
            model="any",
            messages=[
                {"role": "system", "content": "Answer in one short sentence."},
                {"role": "user", "content": f"{name} has {thing}. What does {name} have?"},
            ],
            max_tokens=24,
            temperature=0,
        ).choices[0].message.content

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(ask, FACTS))
    things = [thing.split()[-1] for _, thing in FACTS]
    right = sum(thing in answer for thing, answer in zip(things, answers))
    assert right >= 24, answers
    for i, answer in enumerate(answers):
        foreign = [t for k, t in enumerate(things) if k != i and t in answer.split()]
        assert not foreign, (FACTS[i], answer)
    assert [ask(fact) for fact in FACTS[:4]] == answers[:4]
    smollm2.wait_idle()


def test_an_answer_that_ends_by_itself(smollm2):
    reply = smollm2.client().chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": "Name the capital of France in one sentence."}],
        temperature=0,
        max_tokens=60,
    )
    choice = reply.choices[0]
    assert "Paris" in choice.message.content and "<|im_end|>" not in choice.message.content
    assert choice.finish_reason == "stop" and isinstance(choice.matched_stop, int)


def test_a_long_prefill_ends_when_its_client_leaves(smollm2):
    baseline = smollm2.wait_idle()["kv_slots_free"]
    sock = smollm2.start_post(
        "/v1/completions", {"prompt": "word " * 1900, "max_tokens": 50, "ignore_eos": True}
    )
    smollm2.wait(lambda h: h["requests_running"] + h["requests_queued"] > 0)
    sock.close()
    assert smollm2.wait_idle(20)["kv_slots_free"] == baseline


# ---- what a conversation finds in the cache; the letter and number is the case in the list of reports, as in test_radix.py


def ask(server, messages, max_tokens=24):
    body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0}
    answer = server.post("/v1/chat/completions", body)
    assert answer.status == 200, answer.body
    reply = answer.json()
    return reply["choices"][0]["message"]["content"], reply["usage"]


def said(*texts, system="You are a careful assistant who answers in one short sentence."):
    roles = ["user", "assistant"] * len(texts)
    return [{"role": "system", "content": system}] + [{"role": r, "content": t} for r, t in zip(roles, texts)]


def test_a5_the_next_turn_reuses_the_last_one_and_its_answer(smollm2):
    first = "What is the capital of France, and on which river does it lie? (a5)"
    content, usage = ask(smollm2, said(first))
    length = usage["prompt_tokens"] + usage["completion_tokens"]
    _, usage = ask(smollm2, said(first, content, "And of Italy?"))
    assert usage["prompt_tokens_details"]["cached_tokens"] >= length - 1
    assert usage["prompt_tokens"] > length


def test_a7_reuse_goes_on_growing_after_a_foreign_prompt(smollm2):
    texts, last = ["Name a fruit. (a7)"], 0
    for turn in range(4):
        content, usage = ask(smollm2, said(*texts), 8)
        now = usage["prompt_tokens_details"]["cached_tokens"]
        assert turn == 0 or now >= last, (turn, now, last)
        last = usage["prompt_tokens"] + usage["completion_tokens"] - 1
        texts += [content, f"Name another one, number {turn}."]
        ask(smollm2, [{"role": "user", "content": f"Something else {turn}"}], 2)


def test_a10_text_stripped_from_the_history_costs_only_what_follows_it(smollm2):
    first = "Think aloud, then name the largest planet. (a10)"
    content, usage = ask(smollm2, said(first))
    prompt_tokens = usage["prompt_tokens"]
    stripped = content[len(content) // 2 :]
    _, usage = ask(smollm2, said(first, stripped, "Thank you."))
    assert usage["prompt_tokens_details"]["cached_tokens"] >= prompt_tokens - 1
    clock = "You are a careful assistant who answers briefly. The time is {}."
    ask(smollm2, said(first, system=clock.format("10:31:02")))
    _, usage = ask(smollm2, said(first, system=clock.format("17:45:59")))
    assert 10 <= usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"] - 10


def test_a23_a_second_turn_computes_a_fraction_of_the_first(smollm2):
    system = "You sort things. " + " ".join(f"Rule {i}: never mix number {i} with number {i + 1}." for i in range(20))
    content, usage = ask(smollm2, said("Sort 3, 1, 2. (a23)", system=system))
    cold_tokens = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
    assert cold_tokens > 200
    _, usage = ask(smollm2, said("Sort 3, 1, 2. (a23)", content, "Now 9, 8.", system=system))
    assert usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"] < 0.2 * cold_tokens


def test_c6_one_budget_is_said_at_start_and_kept(smollm2):
    ask(smollm2, said("Say hello. (c6)"), 4)
    assert rss_bytes(smollm2) < plan_bytes(smollm2) + 50e6
