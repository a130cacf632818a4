// Numbers for people, as the command line writes them; elements without markup in strings.

export const GIB = 2 ** 30;

/** Three significant digits at most, thousands grouped: 1,024, 271, 27.1, 0.033. */
export function significant(value) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return "never";
  const decimals = Math.min(9, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

export const whole = (value) => Math.round(value).toLocaleString("en-US");
/** A size: 67.7 GiB, 512 MiB. */
export function gib(bytes) {
  const unit = [[GIB, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([size]) => bytes >= size);
  return unit ? `${significant(bytes / unit[0])} ${unit[1]}` : `${significant(bytes)} B`;
}
export const ms = (seconds) => `${significant(seconds * 1e3)} ms`;
export const percent = (share) => `${significant(share * 100)} %`;

/** An element with attributes and children; `text` and `class` are spelt so. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same in SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Text and, for whoever checks the page, the number behind it. */
export function put(id, text, value) {
  const node = byId(id);
  node.textContent = text;
  if (value === null || value === undefined) delete node.dataset.value;
  else node.dataset.value = value;
}
