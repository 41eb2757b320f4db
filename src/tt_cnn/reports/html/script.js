// SPDX-License-Identifier: Apache-2.0
"use strict";
(() => {
  const steps = JSON.parse(document.getElementById("data").textContent);
  const slider = document.getElementById("l1");
  const details = document.getElementById("l1-details");
  if (!slider || !steps.length) return;
  const columns = new Map();
  for (const group of slider.querySelectorAll(".step")) columns.set(Number(group.dataset.row), group);
  const kb = (bytes) => (bytes / 1024).toFixed(1) + " KB";
  let chosen = Number(slider.getAttribute("aria-valuenow"));

  const element = (name, text, parent) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };

  const table = (caption, headings, rows) => {
    const box = element("div", undefined, details);
    box.className = "scroll";
    const made = element("table", undefined, box);
    element("caption", caption, made);
    const head = element("tr", undefined, element("thead", undefined, made));
    for (const heading of headings) element("th", heading, head).scope = "col";
    const body = element("tbody", undefined, made);
    for (const row of rows) {
      const line = element("tr", undefined, body);
      for (const cell of row) element("td", cell, line);
    }
  };

  const show = (number, scroll) => {
    columns.get(chosen)?.classList.remove("chosen");
    chosen = Math.max(0, Math.min(steps.length - 1, number));
    const step = steps[chosen];
    const column = columns.get(chosen);
    column.classList.add("chosen");
    slider.setAttribute("aria-valuenow", chosen);
    slider.setAttribute("aria-valuetext", `step ${chosen}, ${step.op} of ${step.name}, ${kb(step.free)} free`);
    details.replaceChildren();
    element("h3", `Step ${chosen}: ${step.op} of ${step.name}`, details);
    const fidelity = step.fidelity ? `, ${step.fidelity}` : "";
    element("p", `${step.call}, ${step.us} µs on ${step.cores} cores${fidelity}, bound by ${step.bound}`, details);
    element("p", `Tensors ${kb(step.tensors)} from above, circular buffers ${kb(step.buffers)} from below: ` +
      `${kb(step.free)} of headroom.`, details);
    if (step.held.length) {
      table("Tensors in L1, from above", ["tensor", "per core", "address", "made by"],
        step.held.map(([what, bytes, address, by]) => [what, kb(bytes), address, by]));
    }
    if (step.cbs.length) {
      const named = step.cbs.some(([, , name]) => name);
      table("Circular buffers of its own, from below", [...(named ? ["buffer"] : []), "per core", "address"],
        step.cbs.map(([address, bytes, name]) => [...(named ? [name] : []), kb(bytes), address]));
    }
    if (scroll) {
      const at = column.getBoundingClientRect(), box = slider.getBoundingClientRect();
      if (at.left < box.left || at.right > box.right) slider.scrollLeft += at.left - box.left - box.width / 2;
    }
  };

  slider.addEventListener("click", (event) => {
    const group = event.target.closest(".step");
    if (group) show(Number(group.dataset.row), false);
  });
  const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
  slider.addEventListener("keydown", (event) => {
    if (event.key in keys) show(chosen + keys[event.key], true);
    else if (event.key === "Home") show(0, true);
    else if (event.key === "End") show(steps.length - 1, true);
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const to = event.target.closest("[data-goto]");
    if (to) { show(Number(to.dataset.goto), true); slider.focus({ preventScroll: true }); }
    const bar = event.target.closest(".bar[data-row]");
    if (bar) show(Number(bar.dataset.row), true);
  });
  show(chosen, true);
})();
