// SPDX-License-Identifier: Apache-2.0
// The graph of a model: drag and wheel move and scale it, the box finds ops, a click tells about one.
"use strict";
(() => {
  const nodes = JSON.parse(document.getElementById("graph-data").textContent);
  const view = document.querySelector(".graph-view");
  const svg = view.querySelector("svg");
  const side = document.querySelector(".graph-side");
  const search = document.getElementById("graph-search");
  const said = document.getElementById("graph-found");
  const ops = new Map([...svg.querySelectorAll(".op")].map((op) => [op.dataset.node, op]));
  const edges = [...svg.querySelectorAll(".edge")];
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const element = (name, text, parent) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };

  // What is seen, in the picture's own units.
  let box = { x: 0, y: 0, w: width, h: height };
  view.classList.add("live");
  svg.setAttribute("preserveAspectRatio", "xMidYMin meet");
  const apply = () => svg.setAttribute("viewBox", `${box.x} ${box.y} ${box.w} ${box.h}`);
  const scale = () => Math.max(box.w / view.clientWidth, box.h / view.clientHeight);
  const fit = () => { box = { x: 0, y: 0, w: width, h: height }; apply(); };
  const zoom = (factor, px, py) => {
    const w = Math.min(width * 2, Math.max(200, box.w * factor)), by = w / box.w;
    box = { x: px - (px - box.x) * by, y: py - (py - box.y) * by, w, h: box.h * by };
    apply();
  };
  const middle = () => [box.x + box.w / 2, box.y + box.h / 2];
  const place = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [point.x, point.y];
  };
  view.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(Math.sign(event.deltaY) * 0.15), ...place(event));
  }, { passive: false });
  let held = null, moved = false;
  view.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY]; moved = false; });
  window.addEventListener("pointermove", (event) => {
    if (!held) return;
    const dx = event.clientX - held[0], dy = event.clientY - held[1];
    if (!moved && Math.hypot(dx, dy) < 4) return;
    moved = true;
    held = [event.clientX, event.clientY];
    box.x -= dx * scale(); box.y -= dy * scale();
    apply();
  });
  window.addEventListener("pointerup", () => { held = null; });
  const zooms = { "graph-in": () => zoom(0.7, ...middle()), "graph-out": () => zoom(1 / 0.7, ...middle()), "graph-fit": fit };
  for (const [id, act] of Object.entries(zooms)) document.getElementById(id).addEventListener("click", act);

  const show = (name) => {
    for (const op of ops.values()) op.classList.toggle("chosen", op.dataset.node === name);
    for (const edge of edges) edge.classList.toggle("chosen", edge.dataset.from === name || edge.dataset.to === name);
    side.replaceChildren();
    element("h3", nodes[name].title, side);
    const list = element("dl", undefined, side);
    for (const [what, text] of nodes[name].facts) { element("dt", what, list); element("dd", text, list); }
  };
  const centre = (name) => {
    const rect = ops.get(name).querySelector("rect");
    const x = Number(rect.getAttribute("x")), y = Number(rect.getAttribute("y"));
    const w = Math.min(box.w, 900), h = w * view.clientHeight / view.clientWidth;
    box = { x: x + 60 - w / 2, y: y - h / 2, w, h };
    apply();
  };
  svg.addEventListener("click", (event) => {
    const op = event.target.closest(".op");
    if (op && !moved) show(op.dataset.node);
  });
  svg.addEventListener("keydown", (event) => {
    const op = event.target.closest(".op");
    if (op && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); show(op.dataset.node); }
  });

  let found = [], at = -1;
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = []; at = -1;
    svg.classList.toggle("searching", words.length > 0);
    for (const [name, op] of ops) {
      const hit = words.length > 0 && words.every((word) => nodes[name].search.includes(word));
      op.classList.toggle("found", hit);
      if (hit) found.push(name);
    }
    said.textContent = words.length ? `${found.length} found; Enter goes to the next` : "";
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !found.length) return;
    event.preventDefault();
    at = (at + (event.shiftKey ? found.length - 1 : 1)) % found.length;
    show(found[at]); centre(found[at]);
    said.textContent = `${at + 1} of ${found.length}`;
  });
})();
