// SPDX-License-Identifier: Apache-2.0
"use strict";
(() => {
  const LONG = 10; // rows from which a table can be filtered
  const value = (cell) => {
    const text = cell.textContent.replace(/[\s\u00a0\u202f]/g, "").replace("\u2212", "-");
    const number = parseFloat(text);
    return Number.isNaN(number) ? null : number;
  };
  const isNumeric = (body, column) => {
    const shown = [...body.rows].map((row) => row.cells[column]).filter((cell) => cell && cell.textContent.trim());
    return shown.length > 0 && shown.every((cell) => /^[-\u2212]?\d[\d.,\s]*(\/\d+)?$/.test(cell.textContent.trim()));
  };

  const sort = (table, column, head) => {
    const body = table.tBodies[0], numeric = isNumeric(body, column);
    const turns = numeric ? ["descending", "ascending", null] : ["ascending", "descending", null];
    const next = turns[(turns.indexOf(head.getAttribute("aria-sort")) + 1) % turns.length];
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    if (next) head.setAttribute("aria-sort", next);
    const rows = [...body.rows];
    const sign = next === "descending" ? -1 : 1;
    rows.sort((a, b) => {
      if (!next) return Number(a.dataset.at) - Number(b.dataset.at);
      const [one, two] = [a.cells[column], b.cells[column]];
      if (!numeric) return sign * one.textContent.localeCompare(two.textContent, undefined, { numeric: true });
      const [x, y] = [value(one), value(two)];
      return x === null || y === null ? (x === null) - (y === null) : sign * (x - y);
    });
    body.append(...rows);
  };

  const addFilter = (table, caption) => {
    const body = table.tBodies[0], box = table.closest(".scroll") || table;
    const line = document.createElement("p");
    line.className = "filter";
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "filter rows";
    field.setAttribute("aria-label", `Filter the rows of: ${caption}`);
    const count = document.createElement("span");
    count.setAttribute("aria-live", "polite");
    line.append(field, count);
    box.before(line);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of body.rows) {
        const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = words.length ? `${shown} of ${body.rows.length} rows` : "";
    });
  };

  for (const table of document.querySelectorAll("table")) {
    const heads = table.tHead ? [...table.tHead.rows[0].cells] : [];
    if (!heads.length || !heads.some((head) => head.textContent) || !table.tBodies.length) continue;
    const body = table.tBodies[0];
    if (body.rows.length < 2) continue;
    [...body.rows].forEach((row, at) => { row.dataset.at = at; });
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, column, head));
      head.append(button);
    });
    if (body.rows.length >= LONG) addFilter(table, table.caption ? table.caption.textContent : "");
  }
})();
