// Tokens a second against the T0 share, a line a T1 mode, from two sweeps; the other ways to serve are level lines.

import { element, significant, svg, percent } from "./text.js";
import { get } from "./ask.js";
import { pairs, query, tokens } from "./form.js";

const MODES = [
  ["stream", "stream", "a"],
  ["staged", "staged", "b"],
  ["host-attention", "host attention", "c"],
  ["direct", "direct", "d"],
  ["selective", "selective", "e"],
];
/** Points between no token in HBM and as many as fit. */
const STEPS = 8;

/** What the axis says. */
const AXIS = { tokens: "Kept in HBM, of a request's tokens", share: "Kept in HBM, of unprotected tokens" };

const word = (t1) => t1.split(":")[0];
const rate = (cell) => (cell.outcome?.fits ? (cell.outcome.throughput.output_tokens_per_s ?? null) : null);
const inHbm = (cell) => cell.outcome.tiers.t0.tokens_end;

/** The settings with T0 as much as fits, which is a number of tokens. */
const fitting = (s) => ({ ...s, fit: true });

/** What T0 is measured by. */
const measure = (s) => (s.fit ? "tokens" : s.budget);

/** Settings that a curve depends on: all but the share. */
export const curveKey = (s, defaults) => `${query(pairs(fitting(s), defaults))}&by=${measure(s)}`;

/** The curves: first the ends and what fits, then points in between. */
export async function curves(settings, defaults, signal) {
  const modes = [...new Set(["stream", "staged", "host-attention", settings.t1])];
  const base = pairs(fitting(settings), defaults).filter(([n]) => n !== "t1");
  const ask = (values) => get("/api/sweep", query([...base, ["vary", `t1=${modes.join(",")}`], ["vary", `policy.hbm=${values.join(",")}`]]), signal);
  const ends = await ask(["fit", "0", "1"]);
  const at = (mode, hbm) => ends.cells.find((c) => c.vary.t1 === mode && c.vary["policy.hbm"] === hbm && c.outcome);
  const known = modes.map((m) => [at(m, "0"), at(m, "1")]).find((cells) => cells.every(Boolean));
  if (!known) return null;
  const scale = scaleOf(settings, inHbm(known[0]), inHbm(known[1]));
  const fits = ends.cells.filter((c) => rate(c) !== null).map((c) => scale.share(inHbm(c)));
  if (!fits.length) return { lines: [], fit: 0 };
  const fit = Math.max(...fits);
  const between = Array.from({ length: STEPS }, (_, i) => scale.low + ((fit - scale.low) * (i + 1)) / (STEPS + 1));
  const values = [...new Set(between.map(scale.value))].filter((v) => v !== "0" && v !== "1");
  const cells = fit > scale.low ? [...ends.cells, ...(await ask(values)).cells] : ends.cells;
  const points = (mode) => cells
    .filter((c) => c.vary.t1 === mode && rate(c) !== null && scale.has(c))
    .map((c) => ({ share: scale.share(inHbm(c)), rate: rate(c) }))
    .sort((a, b) => a.share - b.share);
  const lines = MODES.map(([mode, label, kind]) => ({ mode, label, kind, points: unique(points(modes.find((m) => word(m) === mode))) }));
  return { lines: lines.filter((l) => l.points.length), fit, by: measure(settings) };
}

/** Tokens in HBM at a request's end as a share, and back; `none` and `all` are those of the ends. */
function scaleOf(settings, none, all) {
  if (measure(settings) === "tokens") {
    const total = tokens(settings);
    return { low: none / total, share: (n) => n / total, value: (share) => `${Math.round(share * total)}tok`, has: () => true };
  }
  // What fits is a number of tokens, which is no point of a line of shares.
  const share = (n) => (all > none ? Math.min(1, Math.max(0, (n - none) / (all - none))) : 1);
  return { low: 0, share, value: (s) => String(Number(s.toFixed(4))), has: (c) => c.vary["policy.hbm"] !== "fit" };
}

/** One point a share: where everything fits, `fit` is the point of 1. */
const unique = (points) => points.filter((p, i) => i === 0 || p.share - points[i - 1].share > 1e-6);

/** Draws into `box`; `now` is the present point, `levels` are ways without tiering, `pick` is told of a share. */
export function draw(box, curve, { settings, now, levels, pick }) {
  const open = box.querySelector("details")?.open;
  const held = box.contains(document.activeElement) ? box.querySelector(".plot").dataset.at : null;
  if (!curve || !curve.lines.length) {
    box.replaceChildren(element("p", { class: "quiet", text: curve?.why ? `No curve: ${curve.why}.` : "No T1 mode fits, whatever is kept in HBM: try a smaller batch, fewer tokens or more GPUs." }));
    return;
  }
  const plot = element("div", { class: "plot", tabindex: "0", role: "group", "aria-describedby": "chart-readout", "aria-label": "Tokens per second against the share kept in HBM. Left and right arrow keys read values, Enter takes the share." });
  const readout = element("p", { class: "readout", id: "chart-readout", "aria-live": "polite", text: "Point at the chart, or use the arrow keys on it, for values." });
  box.replaceChildren(plot, readout, legend(curve, settings, levels, now), table(curve, open));
  const width = Math.max(260, plot.clientWidth);
  const frame = framed(curve, levels, now, width);
  plot.append(picture(curve, frame, { settings, now, levels }));
  listen(plot, readout, curve, frame, pick);
  if (held !== null) {
    plot.focus({ preventScroll: true });
    if (held) plot.dispatchEvent(new CustomEvent("hold", { detail: Number(held) }));
  }
}

function framed(curve, levels, now, width) {
  const reach = curve.fit > 0.7 ? 1 : Math.min(1, curve.fit * 1.4 || 0.05);
  const right = Math.min(1, Math.max(reach, now.share * 1.08));
  const rates = [...curve.lines.flatMap((l) => l.points.map((p) => p.rate)), ...levels.map((l) => l.rate), now.rate ?? 0];
  const ticks = nice(Math.max(...rates) * 1.06);
  const [height, left, top, bottom] = [300, 46, 12, 40];
  const x = (s) => left + (s / right) * (width - left - 12);
  const y = (r) => height - bottom - (r / ticks.at(-1)) * (height - top - bottom);
  return { width, height, left, top, bottom, right, ticks, x, y, at: (px) => ((px - left) / (width - left - 12)) * right };
}

/** Round steps from 0 to at least `most`. */
function nice(most) {
  const raw = most / 5;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 2.5, 5, 10].find((m) => m * unit >= raw);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, i) => i * step);
}

function picture(curve, f, { settings, now, levels }) {
  const best = levels.find((l) => l.kind === "same");
  const root = svg("svg", { width: f.width, height: f.height, viewBox: `0 0 ${f.width} ${f.height}`, "aria-hidden": "true" });
  const floor = f.height - f.bottom;
  const definitions = svg("defs", {}, svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "hatch" })));
  root.append(definitions);
  for (const t of f.ticks) {
    root.append(svg("line", { x1: f.left, x2: f.width - 12, y1: f.y(t), y2: f.y(t), class: "grid" }));
    root.append(svg("text", { x: f.left - 7, y: f.y(t) + 4, class: "tick end", text: significant(t).replace(/\.0+$/, "") }));
  }
  for (const s of xTicks(f)) root.append(svg("text", { x: f.x(s), y: floor + 17, class: "tick middle", text: `${Number((s * 100).toPrecision(3))} %` }));
  root.append(svg("text", { x: (f.left + f.width - 12) / 2, y: f.height - 4, class: "axis middle", text: AXIS[curve.by] }));
  if (curve.fit < f.right - 1e-9) {
    root.append(svg("rect", { x: f.x(curve.fit), y: f.top, width: f.x(f.right) - f.x(curve.fit), height: floor - f.top, class: "nofit" }));
    if (f.x(f.right) - f.x(curve.fit) > 80) root.append(svg("text", { x: (f.x(curve.fit) + f.x(f.right)) / 2, y: f.top + 18, class: "zone middle", text: "does not fit" }));
  }
  const mine = curve.lines.find((l) => l.mode === word(settings.t1));
  if (best && mine && now.ranked) root.append(...gain(mine, best, f, definitions));
  for (const level of levels) root.append(svg("line", { x1: f.left, x2: f.width - 12, y1: f.y(level.rate), y2: f.y(level.rate), class: `level ${level.kind}` }));
  for (const line of curve.lines) {
    const points = line.points.map((p) => `${f.x(p.share)},${f.y(p.rate)}`).join(" ");
    root.append(svg("polyline", { points, class: `line ${line.kind}${line === mine ? " mine" : ""}` }));
    if (line.points.length === 1) root.append(svg("circle", { cx: f.x(line.points[0].share), cy: f.y(line.points[0].rate), r: 3.5, class: `dot ${line.kind}` }));
  }
  root.append(svg("g", { class: "guide" }));
  if (now.rate !== null) root.append(svg("circle", { cx: f.x(now.share), cy: f.y(now.rate), r: 7, class: "now" }));
  else root.append(svg("line", { x1: f.x(now.share), x2: f.x(now.share), y1: f.top, y2: floor, class: "now" }));
  return root;
}

/** Where the mode asked for is faster than the best without tiering. */
function gain(mine, best, f, definitions) {
  const floor = f.y(best.rate);
  const clip = svg("clipPath", { id: "above" }, svg("rect", { x: 0, y: 0, width: f.width, height: Math.max(0, floor) }));
  definitions.append(clip);
  const first = mine.points[0];
  const last = mine.points.at(-1);
  const points = [`${f.x(first.share)},${floor}`, ...mine.points.map((p) => `${f.x(p.share)},${f.y(p.rate)}`), `${f.x(last.share)},${floor}`].join(" ");
  return [svg("polygon", { points, class: "gain", "clip-path": "url(#above)" })];
}

function xTicks(f) {
  const wanted = f.width < 420 ? 4 : 6;
  const unit = 10 ** Math.floor(Math.log10(f.right / wanted));
  const step = unit * [1, 2, 2.5, 5, 10].find((m) => (m * unit * wanted) / f.right >= 0.999);
  return Array.from({ length: Math.floor(f.right / step + 1e-6) + 1 }, (_, i) => i * step);
}

function legend(curve, settings, levels, now) {
  const spot = (classes) => svg("svg", { width: 28, height: 12, "aria-hidden": "true" }, svg("circle", { cx: 14, cy: 6, r: 4, class: classes }));
  const key = (classes, text) => element("li", {}, svg("svg", { width: 28, height: 12, "aria-hidden": "true" }, svg("line", { x1: 1, x2: 27, y1: 6, y2: 6, class: classes })), text);
  const dot = svg("svg", { width: 28, height: 16, "aria-hidden": "true" }, now.rate === null ? svg("line", { x1: 14, x2: 14, y1: 1, y2: 15, class: "now" }) : svg("circle", { cx: 14, cy: 8, r: 6, class: "now" }));
  return element("ul", { class: "keys" },
    element("li", {}, dot, now.rate === null ? "this setup: does not fit" : `this setup: ${significant(now.rate)}`),
    ...curve.lines.map((l) => l.points.length === 1 ? element("li", {}, spot(`dot ${l.kind}`), l.label) : key(`line ${l.kind}${l.mode === word(settings.t1) ? " mine" : ""}`, l.label)),
    ...levels.map((l) => key(`level ${l.kind}`, `${l.label}: ${significant(l.rate)}`)));
}

/** All shares of all lines, ascending. */
const shares = (curve) => [...new Set(curve.lines.flatMap((l) => l.points.map((p) => p.share)))].sort((a, b) => a - b);

const pointAt = (line, share) => line.points.find((p) => Math.abs(p.share - share) < 1e-9);

function table(curve, open) {
  const cell = (line, share) => {
    const point = pointAt(line, share);
    return element("td", { class: "n", text: point ? significant(point.rate) : "–" });
  };
  const rows = shares(curve).map((s) => element("tr", {}, element("th", { scope: "row", class: "n", text: percent(s) }), ...curve.lines.map((l) => cell(l, s))));
  const head = element("tr", {}, element("th", { scope: "col", text: "Kept in HBM" }), ...curve.lines.map((l) => element("th", { scope: "col", class: "n", text: l.label })));
  return element("details", { open }, element("summary", { text: "The values as a table" }),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Tokens per second by what is kept in HBM" },
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))));
}

function listen(plot, readout, curve, f, pick) {
  const all = shares(curve);
  const guide = plot.querySelector(".guide");
  let at = null;
  const hold = (index) => {
    at = index;
    plot.dataset.at = index;
    const s = all[index];
    const here = curve.lines.map((l) => [l, pointAt(l, s)]).filter(([, p]) => p);
    guide.replaceChildren(
      svg("line", { x1: f.x(s), x2: f.x(s), y1: f.top, y2: f.height - f.bottom, class: "guideline" }),
      ...here.map(([l, p]) => svg("circle", { cx: f.x(s), cy: f.y(p.rate), r: 4, class: `dot ${l.kind}` })));
    readout.textContent = `T0 ${percent(s)}: ${here.map(([l, p]) => `${l.label} ${significant(p.rate)}`).join(", ")} tokens/s`;
  };
  const nearest = (event) => {
    const s = f.at(event.clientX - plot.getBoundingClientRect().left);
    return all.reduce((best, v, i) => (Math.abs(v - s) < Math.abs(all[best] - s) ? i : best), 0);
  };
  plot.addEventListener("pointermove", (e) => hold(nearest(e)));
  plot.addEventListener("click", (e) => pick(all[nearest(e)]));
  plot.addEventListener("hold", (e) => hold(Math.min(e.detail, all.length - 1)));
  plot.addEventListener("focus", () => at === null && hold(0));
  plot.addEventListener("keydown", (e) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -all.length, End: all.length };
    if (e.key in moves) hold(Math.min(all.length - 1, Math.max(0, (at ?? 0) + moves[e.key])));
    else if (e.key === "Enter" && at !== null) pick(all[at]);
    else return;
    e.preventDefault();
  });
}
