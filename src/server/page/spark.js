/* A small line chart on a canvas: the last minutes of up to two figures, the first one filled, with its scale written in. Where samples are
   missing (the tab was hidden) the line breaks. */
const GAP_MS = 5000;

function colours() {
  const style = getComputedStyle(document.documentElement);
  const one = (name) => style.getPropertyValue(name).trim();
  return { lines: [one("--accent"), one("--second")], grid: one("--line"), text: one("--dim") };
}

function scaleOf(samples, names, options) {
  if (options.atMost) return options.atMost;
  let max = options.atLeast ?? 1;
  for (const s of samples) for (const name of names) max = Math.max(max, s[name] ?? 0);
  const step = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 4, 5, 10].map((k) => k * step).find((v) => v >= max);
}

function runsOf(samples, name, x, y) {
  const runs = [];
  let run = null, last = 0;
  for (const s of samples) {
    if (s[name] === null || s[name] === undefined || (run && s.time - last > GAP_MS)) run = null;
    last = s.time;
    if (s[name] === null || s[name] === undefined) continue;
    if (!run) runs.push((run = []));
    run.push([x(s.time), y(s[name])]);
  }
  return runs;
}

function drawRuns(c, runs, colour, bottom, isFilled) {
  c.strokeStyle = c.fillStyle = colour;
  c.lineWidth = 1.5;
  c.lineJoin = "round";
  for (const run of runs) {
    c.beginPath();
    for (const [px, py] of run) c.lineTo(px, py);
    if (run.length === 1) c.lineTo(run[0][0] + 1, run[0][1]);
    c.stroke();
    if (!isFilled || run.length < 2) continue;
    c.lineTo(run.at(-1)[0], bottom);
    c.lineTo(run[0][0], bottom);
    c.globalAlpha = 0.13;
    c.fill();
    c.globalAlpha = 1;
  }
}

/* options: atLeast or atMost of the scale; format; own: each figure has a scale of its own, the first one's is shown. */
export function drawSpark(canvas, { samples, from, to }, names, options) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const c = canvas.getContext("2d"), { lines, grid, text } = colours(), top = 4, bottom = height - 1.5;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.fillStyle = grid;
  c.fillRect(0, height - 1, width, 1);
  c.fillRect(0, top, width, 1);
  const x = (time) => ((time - from) / (to - from)) * (width - 2);
  const shown = scaleOf(samples, options.own ? [names[0]] : names, options);
  for (let i = names.length - 1; i >= 0; i--) {
    const max = options.own && i ? scaleOf(samples, [names[i]], options) : shown;
    const y = (value) => bottom - (Math.min(value, max) / max) * (bottom - top - 1);
    drawRuns(c, runsOf(samples, names[i], x, y), lines[i], bottom, i === 0);
  }
  c.fillStyle = text;
  c.font = "10px system-ui, sans-serif";
  c.textBaseline = "top";
  c.fillText(options.format(shown), 1, top + 3);
  const now = samples.at(-1);
  canvas.setAttribute("aria-label", `${canvas.dataset.name ??= canvas.getAttribute("aria-label")}, now ${names.map((name) => options.format(now[name])).join(" and ")}`);
}
