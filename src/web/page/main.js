// Wires the controls to the questions, and the answers to the page.

import { asker, get } from "./ask.js";
import { curveKey, curves, draw } from "./chart.js";
import * as form from "./form.js";
import { asked, others, show, sortable, spoken, unranked } from "./show.js";
import { byId, whole } from "./text.js";

/** Time between the last move and the sentence that is said aloud [ms]. */
const SAY_AFTER = 700;

let choices;
let settings;
let answer = null; // { plan, settings }
let curve = null;
let curveOf = null;
let saying = null;

const askPlan = asker(15, (q, signal) => get("/api/plan", q.query, signal), planned, failed);
const askCurve = asker(150, (q, signal) => curves(q.settings, choices.defaults, signal), curved, (error) => curved({ lines: [], fit: 0, why: error.message }, null));

async function start() {
  try {
    choices = await get("/api/choices");
  } catch (error) {
    return failed(error);
  }
  byId("version").textContent = choices.kvplan_version;
  form.offer(choices);
  take(location.search);
  byId("form").addEventListener("input", (e) => moved(e.target.id));
  byId("form").addEventListener("submit", (e) => e.preventDefault());
  byId("reset").addEventListener("click", () => take(""));
  byId("copy-link").addEventListener("click", copyLink);
  window.addEventListener("popstate", () => take(location.search));
  let width = 0;
  new ResizeObserver(([box]) => {
    if (box.contentRect.width !== width) redraw();
    width = box.contentRect.width;
  }).observe(byId("chart"));
  sortable(() => answer && show(answer.plan, answer.settings));
}

/** Settings from a query, onto the controls. */
function take(query) {
  const parsed = form.parse(query, choices.defaults);
  settings = parsed.settings;
  form.show(settings);
  ask();
  if (parsed.strange.length) byId("took").textContent = `Left out of the link: ${parsed.strange.join(", ")}.`;
}

function moved(id) {
  form.changed(id);
  settings = form.read(settings, id);
  ask();
}

function ask() {
  const pairs = form.pairs(settings, choices.defaults);
  const query = form.query(pairs);
  history.replaceState(null, "", `/?${query}`);
  byId("get-report").href = `/download/report.html?${query}`;
  byId("get-result").href = `/download/plan.json?${query}`;
  byId("get-scenario").href = `/download/scenario.toml?${query}`;
  byId("command").textContent = `kvplan plan ${pairs.map(([n, v]) => `--${n} ${v}`).join(" ")}`;
  askPlan({ query, settings });
  const key = curveKey(settings, choices.defaults);
  if (key !== curveOf) {
    curveOf = key;
    byId("chart").setAttribute("aria-busy", "true");
    askCurve({ settings });
  }
}

function planned(plan, question, ms) {
  answer = { plan, settings: question.settings };
  byId("failure").hidden = true;
  byId("details").classList.remove("stale");
  show(plan, question.settings);
  byId("verdict").dataset.query = question.query;
  byId("took").textContent = `Answered in ${whole(ms)} ms.`;
  byId("took").dataset.value = ms;
  redraw();
  say();
}

function curved(found, question) {
  curve = found;
  byId("chart").setAttribute("aria-busy", "false");
  byId("chart").dataset.key = question ? curveKey(question.settings, choices.defaults) : "";
  redraw();
}

/** The chart again: another point, another curve, another width. */
function redraw() {
  const ready = byId("chart").getAttribute("aria-busy") === "false";
  if (!answer || !ready) return;
  const row = answer.plan.rows[0];
  const mine = asked(row, answer.settings);
  const share = mine.tiers.t0.tokens_end / form.tokens(answer.settings);
  if (answer.settings.fit) form.showFit(share);
  const rate = (way) => way.throughput.output_tokens_per_s;
  const { same, today } = others(row);
  const levels = [];
  if (same) levels.push({ kind: "same", label: same.label, rate: rate(same) });
  if (today && today !== same) levels.push({ kind: "today", label: today.label, rate: rate(today) });
  const fits = mine.starts && mine.fits;
  const now = { share: answer.settings.fit ? share : answer.settings.share, rate: fits ? rate(mine) : null, ranked: unranked(mine) === null };
  draw(byId("chart"), curve, { settings: answer.settings, now, levels, pick });
}

/** A share chosen on the chart. */
function pick(share) {
  byId("share").value = Number((share * 100).toFixed(3));
  moved("share");
}

function failed(error) {
  const network = !(error.help !== undefined);
  byId("headline").textContent = "No answer";
  byId("verdict").className = "verdict bad failed";
  byId("failure-message").textContent = network ? "No answer from kvplan serve" : error.message;
  byId("failure-help").textContent = network ? "Is it still running?" : error.help;
  byId("failure").hidden = false;
  byId("details").classList.add("stale");
}

function say() {
  clearTimeout(saying);
  saying = setTimeout(() => (byId("said").textContent = spoken()), SAY_AFTER);
}

async function copyLink() {
  await navigator.clipboard.writeText(location.href);
  byId("copy-link").textContent = "Copied";
  setTimeout(() => (byId("copy-link").textContent = "Copy the link"), 1500);
}

start();
