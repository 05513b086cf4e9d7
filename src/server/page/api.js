/* Requests to this server, with the key that its reader typed in. The key lives in sessionStorage: this tab only, until it is closed. */
const NAME = "radish.key";
const $ = (id) => document.getElementById(id);
const listeners = [];

export function headers(more) {
  const key = sessionStorage.getItem(NAME);
  return key ? { ...more, Authorization: "Bearer " + key } : { ...more };
}

/* Called when a key is given. */
export function onKey(listener) {
  listeners.push(listener);
}

/* A 401 came: shows where to type a key. */
export function askForKey(takesFocus) {
  const hadKey = Boolean(sessionStorage.getItem(NAME));
  $("key-label").textContent = hadKey ? "The server does not know this API key" : "This server needs an API key";
  $("key-open").hidden = false;
  $("key").hidden = false;
  if (takesFocus) $("key-value").focus();
}

/* The JSON at a path; null where a key is missing. Throws where the server does not answer or answers with another error. */
export async function get(path) {
  const reply = await fetch(path, { headers: headers(), cache: "no-store", signal: AbortSignal.timeout(10000) });
  if (reply.status === 401) {
    askForKey(false);
    return null;
  }
  const body = await reply.json();
  if (!reply.ok && !body.status) throw new Error(body.error?.message ?? `HTTP ${reply.status}`);
  return body;
}

function use(value) {
  if (value) sessionStorage.setItem(NAME, value);
  else sessionStorage.removeItem(NAME);
  $("key").hidden = true;
  $("key-value").value = "";
  for (const listener of listeners) listener();
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  use($("key-value").value.trim());
});
$("key-forget").addEventListener("click", () => use(""));
$("key").addEventListener("keydown", (event) => {
  if (event.key === "Escape") $("key").hidden = true;
});
$("key-open").addEventListener("click", () => {
  $("key").hidden = !$("key").hidden;
  if (!$("key").hidden) $("key-value").focus();
});
$("key-open").hidden = !sessionStorage.getItem(NAME);
