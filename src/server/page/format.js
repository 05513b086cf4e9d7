/* Numbers as the page writes them. */
export function count(n) {
  if (!Number.isFinite(n)) return "–";
  if (n >= 1e6) return (n / 1e6).toFixed(n < 1e7 ? 2 : 1) + "M";
  if (n >= 1e4) return (n / 1e3).toFixed(n < 1e5 ? 1 : 0) + "k";
  return Math.round(n).toLocaleString("en-US");
}

export function percent(x) {
  if (x === null || !Number.isFinite(x)) return "–";
  return (100 * x).toFixed(x === 0 || x > 0.9995 ? 0 : 1) + "%";
}

export function several(n, one, many = one + "s") {
  return `${count(n)} ${n === 1 ? one : many}`;
}
