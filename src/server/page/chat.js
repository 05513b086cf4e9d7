/* A small chat over /v1/chat/completions, streamed. Where the model has no chat template, /v1/completions continues the text instead. */
import { askForKey, headers } from "./api.js";
import { showText } from "./markdown.js";

const REDRAW_MS = 80;
const $ = (id) => document.getElementById(id);
let conversation = []; /* {role, content} */
let running = null;    /* the AbortController of the answer that is being made */
let hasTemplate = true;

/* Of the conversation; the page around it stays where its reader has it. */
function showEnd() {
  $("messages").scrollTop = $("messages").scrollHeight;
}

function addMessage(role, who) {
  $("chat-empty").hidden = true;
  const message = document.createElement("article"), label = document.createElement("p"), said = document.createElement("div");
  message.className = "message " + role;
  label.className = "who";
  label.textContent = who;
  said.className = "said";
  message.append(label, said);
  $("messages").append(message);
  showEnd();
  return message;
}

function addError(message, text) {
  const line = document.createElement("p");
  line.className = "error";
  line.textContent = text;
  message.insertBefore(line, message.querySelector(".meta"));
  showEnd();
}

function body() {
  const common = { stream: true, stream_options: { include_usage: true } }, system = $("system").value.trim();
  if ($("temperature").value !== "") common.temperature = Number($("temperature").value);
  if ($("max-tokens").value !== "") common.max_tokens = Number($("max-tokens").value);
  if (!hasTemplate) return { ...common, prompt: system + conversation.map((m) => m.content).join("") };
  const messages = system ? [{ role: "system", content: system }, ...conversation] : conversation;
  return { ...common, messages };
}

function setTemplate(has) {
  hasTemplate = has;
  $("chat-mode").textContent = has ? "" : "no chat template: your text is continued";
}

/* The open answer, or an Error with what the server said. */
async function open(signal) {
  const path = hasTemplate ? "/v1/chat/completions" : "/v1/completions";
  const reply = await fetch(path, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body()), signal });
  if (reply.ok) return reply;
  const error = (await reply.json().catch(() => null))?.error;
  if (reply.status === 401) askForKey(true);
  if (hasTemplate && error?.code === "no_chat_template") {
    setTemplate(false);
    return open(signal);
  }
  throw new Error(error?.message ?? `HTTP ${reply.status}`);
}

/* The JSON of each event of a stream. */
async function* events(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data: ") ? line.slice(6).trim() : "";
      if (data === "[DONE]") return;
      if (data) yield JSON.parse(data);
    }
  }
}

function meta(a) {
  const parts = [];
  if (a.usage) parts.push(`${a.usage.prompt_tokens} prompt tokens, ${a.usage.prompt_tokens_details?.cached_tokens ?? 0} cached`);
  if (a.firstAt) parts.push(`first token ${Math.round(a.firstAt - a.begunAt)} ms`);
  const n = a.usage?.completion_tokens, seconds = (a.lastAt - a.firstAt) / 1000;
  if (n > 1 && seconds > 0) parts.push(`${((n - 1) / seconds).toFixed(1)} tokens/s`);
  if (n !== undefined) parts.push(`${n} tokens`);
  if (a.finish && a.finish !== "stop") parts.push(a.finish === "length" ? "cut at max tokens" : a.finish);
  return parts.join(" · ");
}

/* Takes the stream into `answer`, and calls redraw when text has come. */
async function follow(reply, answer, redraw) {
  for await (const event of events(reply)) {
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices?.[0], text = choice?.delta?.content ?? choice?.text ?? "";
    if (event.usage) answer.usage = event.usage;
    if (choice?.finish_reason) answer.finish = choice.finish_reason;
    if (!text) continue;
    answer.lastAt = performance.now();
    answer.firstAt ||= answer.lastAt;
    answer.text += text;
    redraw();
  }
}

/* Redraws at most every REDRAW_MS, and keeps the end in sight for a reader who is there. */
function redrawer(said, answer) {
  let timer = 0;
  const now = () => {
    const log = $("messages"), isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    clearTimeout(timer);
    timer = 0;
    showText(said, answer.text);
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  };
  return { soon: () => (timer ||= setTimeout(now, REDRAW_MS)), now };
}

function setRunning(controller) {
  running = controller;
  $("send").hidden = Boolean(running);
  $("stop").hidden = !running;
  $("messages").setAttribute("aria-busy", String(Boolean(running)));
}

async function send() {
  const text = $("prompt").value;
  if (running || !text.trim()) return;
  $("prompt").value = "";
  conversation.push({ role: "user", content: text });
  addMessage("user", "You").querySelector(".said").textContent = text;
  const message = addMessage("assistant", "Model"), said = message.querySelector(".said"), line = document.createElement("p");
  line.className = "meta hint";
  line.textContent = "…";
  message.append(line);
  const answer = { text: "", usage: null, finish: "", begunAt: performance.now(), firstAt: 0, lastAt: 0 };
  const draw = redrawer(said, answer), mine = conversation, controller = new AbortController();
  setRunning(controller);
  try {
    await follow(await open(controller.signal), answer, draw.soon);
  } catch (error) {
    if (controller.signal.aborted) answer.finish = "stopped";
    else addError(message, error.message);
  }
  if (mine !== conversation) return; /* a new conversation has begun */
  draw.now();
  line.textContent = meta(answer);
  if (answer.text) mine.push({ role: "assistant", content: answer.text });
  else mine.pop(); /* what was not answered is not sent again */
  setRunning(null);
  showEnd();
  $("prompt").focus({ preventScroll: true });
}

function begin() {
  running?.abort();
  conversation = [];
  setRunning(null);
  for (const message of $("messages").querySelectorAll(".message")) message.remove();
  $("chat-empty").hidden = false;
  $("prompt").focus();
}

$("send").addEventListener("click", send);
$("stop").addEventListener("click", () => running?.abort());
$("chat-new").addEventListener("click", begin);
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
