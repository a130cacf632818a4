// The controls, and the settings they stand for: the flags of `kvplan plan`, as a query.

import { byId, element, gib, significant, whole } from "./text.js";

/** Settings the page knows, in the order of a link. */
const NAMES = ["model", "hardware", "gpus", "runtime", "weights", "kv", "batch", "prompt", "output", "t1"];
/** Where the page opens: a card on which the default question is worth asking. */
const OPENS_WITH = { hardware: "gh200" };
/** Whole numbers with a slider by ratio, and its ends. */
const RATIOS = { batch: [1, 256], prompt: [16, 131072], output: [64, 131072] };
const GPUS = [1, 2, 4, 8];

/** Fills the lists with what the catalog has. */
export function offer(choices) {
  const list = (id, items) => byId(id).replaceChildren(...items.map(([value, text]) => element("option", { value, text: text ?? value })));
  byId("model").replaceChildren(...families(choices.models));
  list("hardware", choices.hardware.map((h) => [h.id, `${h.name}, ${gib(h.memory_bytes)}`]));
  list("gpus", GPUS.map((n) => [String(n)]));
  list("runtime", choices.runtimes.map((r) => [r]));
  list("weights", choices.weights.map((w) => [w]));
  list("kv", choices.kv.map((k) => [k]));
}

function families(models) {
  const groups = new Map();
  for (const model of models) {
    if (!groups.has(model.family)) groups.set(model.family, element("optgroup", { label: model.family }));
    groups.get(model.family).append(element("option", { value: model.id, text: `${model.id}, ${significant(model.parameters / 1e9)} B` }));
  }
  return groups.values();
}

/** Settings of a query; `strange` names what the page has no control for. */
export function parse(query, defaults) {
  const given = new URLSearchParams(query);
  const settings = { ...Object.fromEntries(NAMES.map((n) => [n, defaults[n]])), ...OPENS_WITH, extra: [] };
  const strange = [];
  for (const [name, value] of given) {
    if (NAMES.includes(name)) settings[name] = value;
    else if (name !== "policy") strange.push(name);
  }
  const policy = parsePolicy(given.get("policy") ?? defaults.policy, tokens(settings));
  if (!policy) strange.push("policy");
  return { settings: { ...settings, ...(policy ?? parsePolicy(defaults.policy)) }, strange };
}

/** Tokens of a request at its end. */
export const tokens = (s) => Number(s.prompt) + Number(s.output);

/**
 * A policy as the controls have it. `budget` is what T0 is measured by: `tokens`, the same number at any length, as a
 * share of a request's tokens at its end; or `share`, that of the unprotected tokens at any time.
 */
function parsePolicy(text, total) {
  const [name, list = ""] = text.split(/:(.*)/s);
  if (name !== "four-tier") return null;
  const out = { fit: true, share: 0.5, budget: "tokens", evict: 0, semantics: "cumulative", extra: [] };
  for (const part of list.split(",").filter(Boolean)) {
    const [key, value] = part.split(/=(.*)/s);
    if (key === "evict") out.evict = Number(value) || 0;
    else if (key === "semantics") out.semantics = value;
    else if (key !== "hbm") out.extra.push(part);
    else if (/^[0-9]+tok$/.test(value)) Object.assign(out, { fit: false, share: parseInt(value, 10) / total });
    else if (value !== "" && Number.isFinite(Number(value))) Object.assign(out, { fit: false, share: Number(value), budget: "share" });
    else if (value !== "fit") return null;
  }
  return out;
}

/** A share of T0 as the policy's parameter. */
const hbm = (s, share) => (s.budget === "share" ? String(share) : `${Math.round(share * tokens(s))}tok`);

/** The policy of settings as the command line takes it. */
function policy(s) {
  const parts = [`hbm=${s.fit ? "fit" : hbm(s, s.share)}`];
  if (s.evict > 0) parts.push(`evict=${s.evict}`, `semantics=${s.semantics}`);
  return `four-tier:${[...parts, ...s.extra].join(",")}`;
}

/** The settings that are not the defaults, as pairs. */
export function pairs(s, defaults) {
  const out = NAMES.filter((n) => n === "hardware" || s[n] !== defaults[n]).map((n) => [n, s[n]]);
  if (policy(s) !== defaults.policy) out.push(["policy", policy(s)]);
  return out;
}

/** Pairs as a query that stays readable. */
export const query = (list) => list.map(([n, v]) => `${n}=${encodeURIComponent(v).replace(/%3A/g, ":").replace(/%2C/g, ",").replace(/%3D/g, "=")}`).join("&");

/** The settings on the controls. */
export function show(s) {
  for (const name of NAMES.filter((n) => n !== "t1")) byId(name).value = s[name];
  const [mode, rest] = s.t1.split(/:(.*)/s);
  byId("t1").value = mode;
  byId("top-k").value = rest?.match(/top-k=(\d+)/)?.[1] ?? 512;
  byId("fit").checked = s.fit;
  byId("budget").value = s.budget;
  if (!s.fit) share("share", s.share);
  share("evict", s.evict);
  byId("semantics").value = s.semantics;
  for (const name of Object.keys(RATIOS)) slide(name);
  reveal();
}

/** The share that `fit` came to, shown without deciding anything. */
export function showFit(value) {
  if (byId("fit").checked) share("share", Math.min(1, Math.max(0, value)));
}

/** The settings of the controls; numbers out of range go to the server, which says what is wrong. */
export function read(s, id) {
  const out = { ...s };
  for (const name of NAMES.filter((n) => n !== "t1")) out[name] = byId(name).value;
  const mode = byId("t1").value;
  out.t1 = mode === "selective" ? `selective:top-k=${byId("top-k").value}` : mode;
  out.fit = byId("fit").checked;
  out.budget = byId("budget").value;
  // A budget of tokens in a link is kept to the token until the share itself is moved.
  if (["share", "share-slider", "fit"].includes(id)) out.share = rounded(byId("share").value);
  out.evict = rounded(byId("evict").value);
  out.semantics = byId("semantics").value;
  reveal();
  return out;
}

/** Keeps a slider and its number together; moving the T0 share means it. */
export function changed(id) {
  const name = id.replace("-slider", "");
  if (name === "share") byId("fit").checked = false;
  if (name === "share" || name === "evict") {
    const other = id === name ? `${name}-slider` : name;
    byId(other).value = byId(id).value;
  } else if (id.endsWith("-slider")) byId(name).value = atSlider(name, Number(byId(id).value));
  else if (RATIOS[name]) slide(name);
}

const rounded = (text) => Number((Number(text) / 100).toFixed(6));

function share(name, value) {
  const shown = Number((value * 100).toPrecision(4));
  byId(name).value = shown;
  byId(`${name}-slider`).value = shown;
}

function slide(name) {
  const [low, high] = RATIOS[name];
  const at = (100 * Math.log(Number(byId(name).value) / low)) / Math.log(high / low);
  const slider = byId(`${name}-slider`);
  slider.value = Number.isFinite(at) ? at : 0;
  slider.setAttribute("aria-valuetext", whole(Number(byId(name).value)));
}

/** Two leading bits of a number by ratio: 1, 2, 3, 4, 6, 8, 12 ... */
function atSlider(name, at) {
  const [low, high] = RATIOS[name];
  const exact = low * (high / low) ** (at / 100);
  const step = 2 ** Math.max(0, Math.floor(Math.log2(exact)) - 2);
  const value = Math.max(low, Math.round(exact / step) * step);
  byId(`${name}-slider`).setAttribute("aria-valuetext", whole(value));
  return value;
}

function reveal() {
  byId("top-k-field").hidden = byId("t1").value !== "selective";
  byId("budget-field").hidden = byId("fit").checked;
  byId("semantics-field").hidden = !(Number(byId("evict").value) > 0);
}
