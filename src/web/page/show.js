// The answer of `plan` for one card, drawn. Nothing is modelled here: figures are shown, sums are of shown figures.

import { byId, element, gib, GIB, ms, percent, put, significant, whole } from "./text.js";

/** Ways without tiering at the formats asked for. */
const SAME_FORMATS = ["all-in-hbm", "engine", "smaller-batch"];

const runs = (way) => way.starts && way.fits;
const rate = (way) => (runs(way) ? (way.throughput.output_tokens_per_s ?? null) : null);
const faster = (a, b) => ((rate(b) ?? 0) > (rate(a) ?? 0) ? b : a);

/** The way the settings ask for. */
export function asked(row, settings) {
  const mode = settings.t1.split(":")[0];
  return row.alternatives.find((a) => a.name === mode);
}

/** The fastest way at the same formats without tiering, and the fastest of all that software runs today; null if none. */
export function others(row) {
  const same = row.alternatives.filter((a) => SAME_FORMATS.includes(a.name) && runs(a));
  const today = row.alternatives.find((a) => a.name === row.verdict.best_runnable);
  return { same: same.length ? same.reduce(faster) : null, today: today ?? null };
}

/** Why a way is not ranked with those that keep every token and attend to all of them; null if it is. */
export function unranked(way) {
  const t = way.tiers;
  const all = t.t0.tokens_end + t.t1.tokens_end + t.t2.tokens_end + t.t3.tokens_end;
  if (t.t3.tokens_end > 0) return `${percent(t.t3.tokens_end / all)} of the tokens destroyed: not ranked with ways that keep them`;
  return way.name === "selective" ? "attends to a part of the tokens: not ranked with ways that attend to all" : null;
}

/** Everything but the chart. */
export function show(plan, settings) {
  const row = plan.rows[0];
  const mine = asked(row, settings);
  verdict(row, mine, others(row));
  memory(row, mine);
  ways(row, mine);
  rests(plan, row);
}

function verdict(row, mine, { same, today }) {
  const fits = runs(mine);
  const speed = rate(mine);
  const gain = fits && same ? speed / rate(same) - 1 : null;
  const machine = `${row.gpus > 1 ? `${row.gpus} × ` : ""}${row.hardware_name}`;
  byId("asked").textContent = `${mine.model} on ${machine}, ${whole(mine.batch)} × ${whole(mine.prompt_tokens + mine.output_tokens)} tokens`;
  const headline = fits ? `Fits, at ${significant(speed)} tokens/s` : `Does not fit: ${gib(mine.shortfall_bytes)} short`;
  byId("headline").textContent = headline;
  byId("sentence").textContent = row.verdict.sentence;
  byId("verdict").className = `verdict ${fits ? "good" : "bad"}`;
  const t = mine.throughput;
  put("rate", fits ? significant(speed) : "–", speed);
  const drawn = mine.intervals;
  const range = (low, high, text, unit = "") => (fits && drawn && low !== null ? `${text(low)} to ${text(high)}${unit} in 9 of 10 draws` : "");
  put("rate-note", fits ? (unranked(mine) ?? against(gain, same)) : (mine.remark ?? "does not run"));
  put("rate-range", range(drawn?.output_tokens_per_s_p5, drawn?.output_tokens_per_s_p95, significant));
  put("tpot", fits ? ms(t.tpot_mean_s) : "–", fits ? t.tpot_mean_s : null);
  put("tpot-note", fits ? `99 % of steps within ${ms(t.tpot_p99_s)}` : "");
  put("tpot-range", range(drawn?.tpot_mean_s_p5, drawn?.tpot_mean_s_p95, (s) => significant(s * 1e3), " ms"));
  const m = mine.memory;
  const saved = m.hbm_saved_moved_bytes + m.hbm_saved_destroyed_bytes;
  put("saved", gib(saved), saved);
  put("saved-note", m.hbm_saved_destroyed_bytes > 0 ? `${gib(m.hbm_saved_moved_bytes)} moved, ${gib(m.hbm_saved_destroyed_bytes)} destroyed` : `of ${gib(m.hbm_peak_bytes + saved)} with all KV in HBM`);
  put("other", same ? significant(rate(same)) : "–", same ? rate(same) : null);
  put("other-note", same ? `${same.label}${today && today !== same ? `; fastest today ${significant(rate(today))}, ${today.label}` : ""}` : "nothing else runs at these formats");
  return headline;
}

function against(gain, same) {
  if (gain === null) return "nothing else runs at these formats";
  if (Math.abs(gain) < 0.0005) return `as fast as ${same.label}`;
  return `${percent(Math.abs(gain))} ${gain > 0 ? "faster" : "slower"} than ${same.label}`;
}

/** What is said aloud: short, since it is said again after every move. */
export const spoken = () => `${byId("headline").textContent}. ${byId("rate-note").textContent}`;

const PARTS = [
  ["weights_bytes", "Weights", "weights"],
  ["kv_t0_bytes", "KV in HBM (T0)", "t0"],
  ["staging_bytes", "Staging for host KV", "staging"],
  ["activation_bytes", "Activations", "activation"],
  ["reserve_bytes", "Runtime", "reserve"],
];

function memory(row, mine) {
  const m = mine.memory;
  const full = m.hbm_peak_bytes + m.hbm_saved_moved_bytes + m.hbm_saved_destroyed_bytes;
  const scale = Math.max(m.hbm_capacity_bytes, m.hbm_peak_bytes, full);
  const parts = PARTS.map(([key, label, kind]) => [label, m[key], kind]).filter(([, bytes]) => bytes > 0);
  const free = Math.max(0, m.hbm_capacity_bytes - m.hbm_peak_bytes);
  const inHbm = [["Weights", m.weights_bytes, "weights"], ["KV", m.kv_full_bytes, "t0"], ["Rest", full - m.weights_bytes - m.kv_full_bytes, "activation"]];
  byId("memory").replaceChildren(
    bar("This setup", [...parts, ["Free", free, "free"]], m.hbm_peak_bytes, scale, m.hbm_capacity_bytes),
    bar("All KV in HBM", inHbm, full, scale, m.hbm_capacity_bytes),
    element("dl", { class: "legend" }, ...[...parts, ["Free", free, "free"]].map(([label, bytes, kind]) =>
      element("div", {}, element("dt", {}, element("span", { class: `swatch ${kind}` }), label), element("dd", { text: gib(bytes) })))),
    element("p", { class: "quiet", text: `The line marks the ${gib(m.hbm_capacity_bytes)} usable. Host memory holds ${gib(m.ddr_peak_bytes)} of ${gib(m.ddr_capacity_bytes)}.` }),
  );
}

function bar(name, parts, total, scale, capacity) {
  const track = element("div", { class: "track", role: "img", "aria-label": `${name}: ${gib(total)} of ${gib(capacity)} usable. ${parts.map(([l, b]) => `${l} ${gib(b)}`).join(", ")}` });
  for (const [label, bytes, kind] of parts) {
    const piece = element("span", { class: `piece ${kind}`, title: `${label}: ${gib(bytes)}` });
    piece.style.width = `${(100 * bytes) / scale}%`;
    track.append(piece);
  }
  const mark = element("span", { class: "mark" });
  mark.style.left = `${(100 * capacity) / scale}%`;
  track.append(mark);
  const over = total > capacity;
  return element("div", { class: "bar" }, element("div", { class: "name" }, element("span", { text: name }), element("span", { class: over ? "over" : "", text: `${gib(total)}${over ? ", too much" : ""}` })), track);
}

/** Rows of the table, sorted as the header says. */
let order = { column: null, up: false };

function ways(row, mine) {
  const body = byId("ways").tBodies[0];
  body.replaceChildren(...row.alternatives.map((way) => wayRow(way, way === mine, way.name === row.verdict.best_runnable)));
  byId("ways-note").textContent = "Tokens/s to finish all requests. Tiering modes keep the policy above; no engine runs them today.";
  sort();
}

function wayRow(way, mine, best) {
  const ok = runs(way);
  const figure = (value, text) => element("td", { class: "n", "data-value": value ?? "", text: value === null || value === undefined ? "–" : text(value) });
  const software = [...new Set(way.runs_in.map((r) => r.software))].join(", ");
  const tags = [mine ? "this setup" : null, best ? "fastest today" : null].filter(Boolean);
  const label = element("th", { scope: "row", title: way.remark }, way.label, ...tags.map((text) => element("span", { class: "tag", text })));
  return element("tr", { class: mine ? "mine" : "" },
    label,
    figure(rate(way), significant),
    figure(ok ? way.throughput.tpot_mean_s : null, (s) => significant(s * 1e3)),
    figure(way.memory.hbm_peak_bytes, (b) => significant(b / GIB)),
    element("td", { "data-value": ok ? "" : way.shortfall_bytes, text: ok ? "yes" : way.shortfall_bytes > 0 ? `${gib(way.shortfall_bytes)} short` : "does not start" }),
    element("td", { text: software || "–" }));
}

/** Makes the headers sort: once from the largest, again from the smallest, a third time as it was. */
export function sortable(again) {
  [...byId("ways").tHead.rows[0].cells].forEach((cell, column) => {
    cell.firstElementChild.addEventListener("click", () => {
      const first = cell.classList.contains("n") ? "descending" : "ascending";
      const now = cell.getAttribute("aria-sort");
      const next = now === null ? first : now === first ? (first === "ascending" ? "descending" : "ascending") : null;
      for (const other of cell.parentElement.cells) other.removeAttribute("aria-sort");
      if (next) cell.setAttribute("aria-sort", next);
      order = { column: next ? column : null, up: next === "ascending" };
      again();
    });
  });
}

function sort() {
  if (order.column === null) return;
  const body = byId("ways").tBodies[0];
  const key = (tr) => tr.cells[order.column].dataset.value ?? tr.cells[order.column].textContent;
  const numbers = byId("ways").tHead.rows[0].cells[order.column].classList.contains("n");
  const rows = [...body.rows].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (numbers && (x === "" || y === "")) return (x === "") - (y === "");
    const by = numbers ? Number(x) - Number(y) : x.localeCompare(y);
    return order.up ? by : -by;
  });
  body.append(...rows);
}

function rests(plan, row) {
  const errors = plan.expected_errors.find((e) => e.hardware === row.hardware);
  const items = [...(plan.verdict.in_draws ?? []), ...row.flips_if, ...plan.notes];
  const where = errors?.basis === "class" ? "on cards that were predicted as this one is, without being measured" : "on this card";
  if (errors?.tpot_median_abs_rel_error) items.push(`time per token of whole servers was predicted within ${percent(errors.tpot_median_abs_rel_error)} (median) and ${percent(errors.tpot_p90_abs_rel_error)} (9 of 10) ${where}`);
  byId("flips").replaceChildren(...items.map((text) => element("li", { text })));
}
