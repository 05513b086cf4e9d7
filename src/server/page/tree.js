/* The prefix tree as an icicle: a prefix stands above everything that continues it. Width is tokens, those of the node and of all behind it, so
   what is not covered below a node is its own; shade is age; a bar on top says that a running request uses it.

   Nodes keep their element as long as they live, so focus, hover and zoom survive a refresh. Siblings stand in the order in which they came
   to be: new ones appear on the right, and nothing jumps. */
import { count, several } from "./format.js";

const SVG = "http://www.w3.org/2000/svg", ROW = 26, CHAR = 6.65, AGES = 5;
const $ = (id) => document.getElementById(id);
const elements = new Map(); /* id -> <g> */
let isDrawing = false, root = null, zoomId = "all", chosenId = null, hasText = true, oldest = 16;

const weight = (node) => node.tokens + node.tokens_below;

function makeNode(fields, parent) {
  return { ...fields, parent, children: [], rest: 0, isPlain: false };
}

/* A node that stands for several: all prefixes, or those of one namespace. */
function makeGroup(id, label, parent) {
  return { id, label, parent, children: [], tokens: 0, tokens_below: 0, nodes_below: 0, isPlain: true, rest: 0 };
}

function addToGroup(group, node) {
  group.children.push(node);
  group.tokens_below += weight(node);
  group.nodes_below += 1 + node.nodes_below;
}

function build(tree) {
  const all = makeGroup("all", "all prefixes", null), groups = new Map(), made = [];
  const spaces = new Set(tree.tree.map((n) => n.namespace));
  for (const fields of tree.tree) {
    let parent = fields.parent < 0 ? all : made[fields.parent];
    if (fields.parent < 0 && spaces.size > 1) {
      if (!groups.has(fields.namespace))
        groups.set(fields.namespace, makeGroup("ns" + fields.namespace, fields.namespace ? `namespace ${fields.namespace}` : "shared by all", all));
      parent = groups.get(fields.namespace);
    }
    const node = makeNode(fields, parent);
    made.push(node);
    if (parent.isPlain) addToGroup(parent, node);
    else parent.children.push(node);
  }
  for (const id of [...groups.keys()].sort((a, b) => a - b)) addToGroup(all, groups.get(id));
  for (const group of groups.values()) all.nodes_below -= group.nodes_below ? 1 : 0;
  const born = (node) => (node.isPlain ? 0 : Number(node.id.split(".")[1]));
  for (const node of [all, ...groups.values(), ...made]) {
    node.children.sort((a, b) => born(a) - born(b));
    node.rest = node.tokens_below - node.children.reduce((sum, child) => sum + weight(child), 0);
  }
  all.rest = Math.max(0, tree.tokens - all.tokens_below);
  all.tokens_below = Math.max(all.tokens_below, tree.tokens);
  all.nodes_below = tree.nodes;
  return all;
}

function find(id, node = root) {
  if (node.id === id) return node;
  for (const child of node.children) {
    const found = find(id, child);
    if (found) return found;
  }
  return null;
}

function wayTo(node) {
  const way = [];
  for (let at = node; at; at = at.parent) way.unshift(at);
  return way;
}

const visible = (text) => text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll("\r", "").replace(/^ | $/g, "␣");

function labelOf(node) {
  if (node.isPlain) return `${node.label} · ${several(weight(node), "token")}`;
  if (!hasText || !node.text) return several(node.tokens, "token");
  return visible(node.text) + (node.text_tokens < node.tokens ? "…" : "");
}

function factsOf(node) {
  if (node.isPlain) return `${several(weight(node), "token")} in ${several(node.nodes_below, "node")}`;
  const behind = node.nodes_below ? `${several(node.tokens_below, "token")} in ${several(node.nodes_below, "node")} behind it` : "nothing behind it";
  const used = node.pins ? `in use by ${several(node.pins, "sequence")}` : node.age ? `last used ${several(node.age, "use")} of the cache ago` : "used last";
  return `${several(node.tokens, "own token")}, ${count(node.tokens_path)} from the start; ${behind}; ${several(node.hits, "hit")}; ${used}`;
}

function ageClass(node) {
  const t = Math.log1p(node.age) / Math.log1p(oldest);
  return node.pins ? 0 : Math.min(AGES - 1, Math.floor(t * AGES));
}

/* ---- drawing ---- */

function make(name, parent, className) {
  const element = document.createElementNS(SVG, name);
  if (className) element.setAttribute("class", className);
  parent.append(element);
  return element;
}

function set(element, values) {
  for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
}

function elementOf(node) {
  let g = elements.get(node.id);
  if (g) return g;
  g = document.createElementNS(SVG, "g");
  make("rect", g, "body");
  make("rect", g, "pin");
  make("text", g);
  g.setAttribute("role", "treeitem");
  g.dataset.id = node.id;
  g.addEventListener("mouseenter", () => choose(g.dataset.id, false));
  g.addEventListener("focus", () => isDrawing || choose(g.dataset.id, false)); /* it is put back where it was */
  g.addEventListener("click", () => zoom(g.dataset.id === zoomId ? (find(zoomId).parent ?? root).id : g.dataset.id));
  elements.set(node.id, g);
  return g;
}

function place(node, x, width, level, drawn) {
  const g = elementOf(node), [body, pin, text] = g.children, y = level * ROW + 0.5, age = node.isPlain ? 0 : ageClass(node);
  const room = Math.floor((width - 10) / CHAR), label = labelOf(node);
  g.setAttribute("class", `node ${node.isPlain ? "plain" : age < 2 ? "dark" : ""} ${node.id === chosenId ? "chosen" : ""}`);
  set(g, { "aria-level": level + 1, "aria-label": `${label}: ${factsOf(node)}`, tabindex: -1 });
  body.setAttribute("class", `body a${age}`);
  set(body, { x, y, width: Math.max(width, 1), height: ROW - 1, rx: width > 8 ? 2 : 0 });
  set(pin, { x: x + 1, y: y + 1, width: node.pins ? Math.max(width - 2, 1) : 0, height: 3 });
  set(text, { x: x + 6, y: y + 17 });
  text.textContent = room < 3 ? "" : label.length > room ? label.slice(0, room - 1) + "…" : label;
  drawn.push(g);
}

function placeRest(node, x, width, level, drawn) {
  const g = document.createElementNS(SVG, "g");
  g.setAttribute("class", "rest");
  set(make("rect", g), { x: x + 1, y: level * ROW + 1.5, width: Math.max(width - 2, 1), height: ROW - 3, rx: 2 });
  const text = make("text", g), label = `${count(node.rest)} tokens in smaller prefixes`;
  set(text, { x: x + 7, y: level * ROW + 17.5 });
  if (width > 12 + label.length * CHAR) text.textContent = label;
  drawn.push(g);
}

/* Returns the number of levels below and with this one. */
function layOut(node, x, scale, level, drawn) {
  const width = weight(node) * scale;
  if (width < 0.7) return level;
  place(node, x, width, level, drawn);
  let deepest = level + 1, at = x;
  for (const child of node.children) {
    deepest = Math.max(deepest, layOut(child, at, scale, level + 1, drawn));
    at += weight(child) * scale;
  }
  if (node.rest * scale > 4) {
    placeRest(node, at, node.rest * scale, level + 1, drawn);
    deepest = Math.max(deepest, level + 2);
  }
  return deepest;
}

function drawCrumbs(shown) {
  const way = wayTo(shown);
  const buttons = way.slice(0, -1).map((node) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = node.isPlain ? node.label : labelOf(node);
    button.addEventListener("click", () => zoom(node.id));
    return button;
  });
  const here = document.createElement("span");
  here.textContent = way.length > 1 ? "› " + (shown.isPlain ? shown.label : labelOf(shown)) : "Wide: many tokens. Strong: used lately. Below a prefix: what continues it.";
  $("crumbs").replaceChildren(...buttons, here);
}

function draw() {
  const svg = $("icicle"), width = svg.clientWidth || 600, focused = document.activeElement?.dataset?.id;
  let shown = find(zoomId);
  if (!shown) {
    zoomId = "all";
    shown = root;
  }
  if (chosenId && !find(chosenId)) showDetail(null);
  const drawn = [];
  const levels = layOut(shown, 0, width / Math.max(weight(shown), 1), 0, drawn);
  set(svg, { height: Math.max(levels * ROW + 2, $("icicle-box").clientHeight - 2) });
  svg.replaceChildren(...drawn);
  const drawnIds = new Set(drawn.map((g) => g.dataset.id));
  for (const id of elements.keys()) if (!find(id)) elements.delete(id);
  const stop = elements.get(drawnIds.has(chosenId) ? chosenId : shown.id);
  stop?.setAttribute("tabindex", 0);
  isDrawing = true;
  if (focused && drawnIds.has(focused)) elements.get(focused).focus({ preventScroll: true });
  isDrawing = false;
  drawCrumbs(shown);
}

/* ---- what a reader does ---- */

function showDetail(node) {
  chosenId = node?.id ?? null;
  const before = node && !node.isPlain ? wayTo(node.parent).filter((n) => !n.isPlain) : [];
  const textOf = (n) => (hasText ? (n.text ?? "") + (n.text_tokens < n.tokens ? "…" : "") : "");
  $("d-before").textContent = before.map(textOf).join("");
  $("d-own").textContent = node && !node.isPlain ? textOf(node) : "";
  $("d-facts").textContent = $("d-facts").title = node ? factsOf(node) : "Point at a prefix to read it. A click zooms in; Escape, or a click on the top, goes back.";
}

function choose(id, takesFocus) {
  const node = root && find(id);
  if (!node) return;
  elements.get(chosenId)?.classList.remove("chosen");
  elements.get(chosenId)?.setAttribute("tabindex", -1);
  showDetail(node);
  const g = elements.get(id);
  g?.classList.add("chosen");
  g?.setAttribute("tabindex", 0);
  if (takesFocus) g?.focus();
}

function zoom(id) {
  zoomId = id;
  draw();
  choose(id, $("icicle").contains(document.activeElement) || document.activeElement === document.body);
}

function neighbour(node, step) {
  const line = node.parent?.children ?? [];
  return line[line.indexOf(node) + step];
}

function onKey(event) {
  const node = root && find(chosenId ?? zoomId);
  if (!node) return;
  const isTop = node.id === zoomId;
  const to = {
    ArrowUp: () => (isTop ? null : node.parent), ArrowDown: () => node.children[0],
    ArrowLeft: () => (isTop ? null : neighbour(node, -1)), ArrowRight: () => (isTop ? null : neighbour(node, 1)),
    Home: () => find(zoomId),
  }[event.key];
  if (to) {
    const next = to();
    if (next && elements.get(next.id)?.isConnected) choose(next.id, true);
    event.preventDefault();
  } else if (event.key === "Enter" || event.key === " ") {
    zoom(node.id);
    event.preventDefault();
  }
}

function onEscape(event) {
  if (event.key !== "Escape" || !root || zoomId === "all" || event.target.closest?.("input, textarea, .key")) return;
  zoom((find(zoomId)?.parent ?? root).id);
}

/* tree: what /radix/tree says; null where it may not be read. */
export function drawTree(tree) {
  const isEmpty = !tree || !tree.enabled || !tree.tree.length;
  $("tree-empty").hidden = !isEmpty;
  $("icicle").toggleAttribute("hidden", isEmpty);
  if (isEmpty) {
    $("tree-empty").textContent = !tree ? "The prefix tree is shown to those who have an API key."
      : !tree.enabled ? "This server runs with --disable-radix-cache: every prompt is computed from its beginning."
      : "The cache is empty: prefixes appear here as soon as something has been asked, wide where many share them.";
    $("tree-sum").textContent = "";
    $("crumbs").replaceChildren();
    root = null;
    showDetail(null);
    return;
  }
  hasText = tree.has_text;
  oldest = Math.max(16, ...tree.tree.map((n) => n.age));
  root = build(tree);
  const omitted = tree.nodes - tree.tree.length;
  $("tree-sum").textContent = `${several(tree.tokens, "token")} in ${several(tree.nodes, "node")}` + (omitted > 0 ? `, the ${tree.tree.length} largest drawn` : "");
  draw();
  if (chosenId) showDetail(find(chosenId));
}

$("icicle").addEventListener("keydown", onKey);
document.addEventListener("keydown", onEscape);
new ResizeObserver(() => root && draw()).observe($("icicle-box"));
