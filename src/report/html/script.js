// What the page can do beyond being read: values on hover and focus, arrow keys, sorting, filters. No network, no storage.
"use strict";
(() => {
  const tip = document.getElementById("tip");
  const all = (within, what) => Array.from(within.querySelectorAll(what));

  // Values: shown at the mark that is pointed at or focused; Escape hides them.
  function show(mark) {
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const middle = at.left + at.width / 2 - own.width / 2;
    const left = Math.max(8, Math.min(middle, document.documentElement.clientWidth - own.width - 8));
    const over = at.top - own.height - 8;
    tip.style.left = left + "px";
    tip.style.top = (over >= 4 ? over : at.bottom + 8) + "px";
  }
  const hide = () => { tip.hidden = true; };
  const marked = (event) => event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  document.addEventListener("pointerover", (e) => { const m = marked(e); if (m) show(m); else hide(); });
  document.addEventListener("focusin", (e) => { const m = marked(e); if (m) show(m); else hide(); });
  document.addEventListener("focusout", hide);
  // A mark that is reached by keyboard may bring itself into view.
  document.addEventListener("scroll", () => { const m = document.activeElement.closest("[data-tip]"); if (m && !tip.hidden) show(m); else hide(); }, { passive: true });
  document.addEventListener("keydown", (e) => { if (e.key === "Escape") hide(); });
  for (const title of all(document, ".mark > title")) title.remove(); // the browser's own would come on top

  // One tab stop a figure or table; arrow keys, Home and End go from value to value within it.
  const marks = (box) => all(box, "[data-tip]").filter((m) => !m.closest("[hidden]"));
  for (const box of all(document, "[data-roving]")) {
    const first = marks(box)[0];
    for (const m of marks(box)) m.setAttribute("tabindex", m === first ? "0" : "-1");
    box.addEventListener("focusin", (e) => {
      const m = marked(e);
      if (m) for (const other of marks(box)) other.setAttribute("tabindex", other === m ? "0" : "-1");
    });
    box.addEventListener("keydown", (e) => {
      const list = marks(box), i = list.indexOf(marked(e));
      if (i < 0) return;
      const row = list[i].closest("tr");
      const down = row ? list.filter((m) => m.closest("tr") === row).length : 1;
      const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: down, ArrowUp: -down, Home: -i, End: list.length - 1 - i }[e.key];
      if (by === undefined) return;
      e.preventDefault();
      list[Math.max(0, Math.min(list.length - 1, i + by))].focus();
    });
  }

  // Sorting: a button a head; figures by their exact value, what is missing last either way, equals as they were.
  function sort(table, column, head) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const h of all(table, "thead th")) h.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0], figures = head.classList.contains("n");
    const key = (row) => {
      const cell = row.cells[column];
      if (figures) return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
      return cell.textContent.trim() === "-" ? null : cell.textContent;
    };
    const compare = (a, b) => figures ? a - b : a.localeCompare(b, "en", { numeric: true });
    const rows = Array.from(body.rows).map((row, i) => ({ row, i, k: key(row) }));
    rows.sort((a, b) => {
      if (a.k === null || b.k === null) return (a.k === null) - (b.k === null) || a.i - b.i;
      return (down ? compare(b.k, a.k) : compare(a.k, b.k)) || a.i - b.i;
    });
    body.append(...rows.map((r) => r.row));
  }
  for (const table of all(document, "table[data-sort]")) {
    if (table.tBodies[0].rows.length < 2) continue;
    table.dataset.sorted = "";
    all(table, "thead th").forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, column, head));
      head.append(button);
    });
  }

  // Filters: every word must be in the row, and every choice must be met.
  for (const form of all(document, "form.tools")) {
    const rows = Array.from(form.parentElement.querySelector("table").tBodies[0].rows);
    const said = form.querySelector("output");
    const apply = () => {
      const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const chosen = all(form, "select").every((s) => s.value === "" || row.cells[Number(s.name.slice(7))].textContent === s.value);
        row.hidden = !(chosen && words.every((w) => text.includes(w)));
        if (!row.hidden) left += 1;
      }
      said.textContent = left + " of " + rows.length + " rows";
    };
    form.hidden = false;
    form.addEventListener("input", apply);
    form.addEventListener("submit", (e) => e.preventDefault());
    apply();
  }

  // Paper has no folds for what a reader needs: assumptions are opened, tables behind figures are not.
  addEventListener("beforeprint", () => { for (const d of all(document, "section > details")) d.open = true; });
})();
