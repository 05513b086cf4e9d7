/* The figures: asks /health once a second while the page is visible, keeps five minutes of it, and draws what there is of them. The tree is asked for only when
   the counters say that something has happened, at most every third second, and rarer the longer it takes: a fiftieth of the time at most. */
import { get, onKey } from "./api.js";
import { count, percent } from "./format.js";
import { drawTree } from "./tree.js";
import { drawSpark } from "./spark.js";
import "./chat.js";

const EVERY_MS = 1000, TREE_EVERY_MS = 3000, TREE_REST = 50, TREE_REST_MAX_MS = 60000, KEPT_MS = 300000, SHOWN_MIN_MS = 60000, HIT_WINDOW_MS = 60000, SPEED_WINDOW_MS = 2500;
const $ = (id) => document.getElementById(id);
const samples = []; /* of /health, oldest first, with the time they came */
let timer = 0, treeAt = 0, treeSeen = "", hasModel = false, isAsking = false;

function say(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

/* What a counter gained between the sample before `at - ms` and the one at `at`. */
function since(at, ms, name) {
  let from = at;
  while (from > 0 && samples[at].time - samples[from].time < ms) from--;
  return { gained: samples[at][name] - samples[from][name], seconds: (samples[at].time - samples[from].time) / 1000 };
}

function perSecond(at, name) {
  const { gained, seconds } = since(at, SPEED_WINDOW_MS, name);
  return seconds > 0 ? gained / seconds : 0;
}

function take(health) {
  const last = samples.at(-1);
  if (last && health.output_tokens < last.output_tokens) samples.length = 0; /* another server answers here now */
  const s = { ...health, time: Date.now() };
  samples.push(s);
  while (samples[0].time < s.time - KEPT_MS - 5000) samples.shift();
  const at = samples.length - 1;
  s.computed_tokens = s.prompt_tokens - s.cached_tokens;
  s.speed = perSecond(at, "output_tokens");
  s.speedPrompt = perSecond(at, "computed_tokens");
  const asked = since(at, HIT_WINDOW_MS, "prompt_tokens").gained;
  s.hits = asked > 0 ? since(at, HIT_WINDOW_MS, "cached_tokens").gained / asked : null;
  s.used = s.kv_slots_total - s.kv_slots_unused - s.kv_slots_evictable;
  s.usedShare = s.used / s.kv_slots_total;
}

function drawPool(s) {
  const parts = { pinned: s.kv_slots_pinned, private: s.kv_slots_private, evictable: s.kv_slots_evictable, free: s.kv_slots_unused };
  for (const [name, n] of Object.entries(parts)) {
    const share = n / s.kv_slots_total, dd = $("n-" + name);
    if (name !== "free") document.querySelector("#pool ." + name).style.width = (100 * share).toFixed(3) + "%";
    dd.replaceChildren(count(n) + " ");
    const small = document.createElement("span");
    small.textContent = percent(share);
    dd.append(small);
  }
  $("pool").setAttribute("aria-label", "KV pool: " + Object.entries(parts).map(([name, n]) => `${n} tokens ${name}`).join(", "));
}

function draw() {
  const s = samples.at(-1);
  if (!s) return;
  say("running", count(s.requests_running));
  say("waiting", count(s.requests_queued));
  say("speed", s.speed < 10 && s.speed > 0 ? s.speed.toFixed(1) : count(s.speed));
  say("speed-prompt", count(s.speedPrompt));
  say("hits", percent(s.hits));
  say("hits-total", s.prompt_tokens ? percent(s.cached_tokens / s.prompt_tokens) : "–");
  say("used", percent(s.usedShare));
  say("pool-total", count(s.kv_slots_total));
  say("connections", count(s.connections));
  drawPool(s);
  const shownMs = Math.min(KEPT_MS, Math.max(SHOWN_MIN_MS, s.time - samples[0].time));
  const window = { samples, from: s.time - shownMs, to: s.time };
  drawSpark($("spark-requests"), window, ["requests_running", "requests_queued"], { atLeast: 4, format: count });
  drawSpark($("spark-speed"), window, ["speed", "speedPrompt"], { atLeast: 10, format: count, own: true });
  drawSpark($("spark-hits"), window, ["hits"], { atMost: 1, format: percent });
  drawSpark($("spark-pool"), window, ["usedShare"], { atMost: 1, format: percent });
}

function setState(kind, text) {
  $("state-dot").className = "dot " + kind;
  say("state", text);
}

async function askModel() {
  const models = await get("/v1/models");
  if (!models) return;
  hasModel = true;
  const card = models.data[0];
  say("model", card.id + (card.max_model_len ? `, ${count(card.max_model_len)} tokens of context` : ""));
  document.title = `${card.id} · radish`;
}

async function askTree(s) {
  const now = Date.now(), seen = [s.prompt_tokens, s.output_tokens, s.requests_running, s.kv_slots_evictable, s.kv_slots_pinned].join();
  if (now < treeAt || seen === treeSeen) return;
  const tree = await get("/radix/tree");
  treeAt = now + Math.min(TREE_REST_MAX_MS, Math.max(TREE_EVERY_MS, TREE_REST * (Date.now() - now)));
  if (tree) treeSeen = seen;
  drawTree(tree);
}

async function ask() {
  if (isAsking) return;
  isAsking = true;
  clearTimeout(timer);
  try {
    const health = await get("/health");
    take(health);
    setState(health.status === "ok" ? "ok" : "stopping", health.status === "ok" ? "serving" : "stopping");
    draw();
    if (!hasModel) await askModel();
    await askTree(samples.at(-1));
  } catch (error) {
    setState("lost", "no answer");
    $("state").title = String(error.message);
  }
  isAsking = false;
  if (!document.hidden) timer = setTimeout(ask, EVERY_MS);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden) ask();
});
onKey(() => {
  hasModel = false;
  treeSeen = "";
  treeAt = 0;
  ask();
});
new ResizeObserver(draw).observe(document.querySelector(".tiles"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
ask();
