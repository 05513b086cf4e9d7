"""A real model: answers that mean something, and do not mix."""
import concurrent.futures

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
