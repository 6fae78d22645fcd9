// A graph one can walk around in: pan, zoom, search, open and close modules, details, code.
//
// All text comes as JSON and goes in as text, never as markup. The stepper (stepper.js) uses the
// same view and writes its numbers into the boxes.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const READABLE = 60, SMALLEST = 0.4;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter(c => c !== null && c !== undefined));
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, font) {
  ruler.font = font;
  return ruler.measureText(text).width;
}

class GraphView {
  constructor(root, picture) {
    this.root = root;
    this.picture = picture;
    this.boxes = new Map(picture.boxes.map(box => [box.id, box]));
    this.into = new Map(picture.boxes.map(box => [box.id, []]));
    this.out = new Map(picture.boxes.map(box => [box.id, []]));
    for (const arrow of picture.arrows) {
      this.into.get(arrow.head).push(arrow);
      this.out.get(arrow.tail).push(arrow);
    }
    this.linesOf = box => box.lines;
    this.onselect = [];
    this.selected = null;
    this.makeModules();
    this.makeFrame();
    this.openReadable();
    this.fit();
  }

  // Modules: a tree from the boxes' paths.

  makeModules() {
    this.top = { key: "", name: "", path: [], parts: [], open: true, parent: null, boxes: 0 };
    this.modules = new Map([["", this.top]]);
    for (const box of this.picture.boxes) {
      let module = this.top;
      module.boxes++;
      box.module.forEach((name, depth) => {
        const path = box.module.slice(0, depth + 1), key = JSON.stringify(path);
        if (!this.modules.has(key)) {
          const inner = { key, name, path, parts: [], open: true, parent: module, boxes: 0 };
          this.modules.set(key, inner);
          module.parts.push(inner);
        }
        module = this.modules.get(key);
        module.boxes++;
      });
      module.parts.push(box);
    }
    this.deepest = Math.max(0, ...this.picture.boxes.map(box => box.module.length));
  }

  // As deep as can be read: not too many boxes, and not too small to fit.
  openReadable() {
    for (let depth = this.deepest; depth >= 0; depth--) {
      this.setDepth(depth);
      if (depth > 1 && this.count(this.top) > READABLE) continue;
      this.layout();
      this.fit();
      if (this.scale >= SMALLEST) break;
    }
    this.dial.value = this.depth;
  }

  setDepth(depth) {
    this.depth = depth;
    for (const module of this.modules.values()) module.open = module.path.length <= depth;
  }

  count(module) {
    return module.parts.reduce((n, part) => n + (part.parts && part.open ? this.count(part) : 1), 0);
  }

  // What stands for a box or module now: itself, or the outermost closed module around it.
  shownFor(thing) {
    const path = thing.parts ? thing.path : thing.module;
    let shown = thing;
    for (let depth = path.length; depth > 0; depth--) {
      const module = this.modules.get(JSON.stringify(path.slice(0, depth)));
      if (!module.open) shown = module;
    }
    return shown;
  }

  // The frame: tools, picture, side.

  makeFrame() {
    const tool = (label, title, action) => make("button", { type: "button", title, "aria-label": title, onclick: action }, label);
    this.search = make("input", { type: "search", placeholder: "search  ( / )", "aria-label": "Search nodes by name, operation, module or line" });
    this.found = make("span", { class: "found", "aria-live": "polite" });
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", event => {
      if (event.key === "Enter") { this.findNext(event.shiftKey ? -1 : 1); event.preventDefault(); }
      if (event.key === "Escape") { this.search.value = ""; this.find(); this.svg.focus(); }
    });
    this.dial = make("input", { type: "range", min: 0, max: this.deepest, value: this.deepest, "aria-label": "How many levels of modules are open", title: "levels of modules that are open" });
    this.dial.addEventListener("input", () => { this.setDepth(Number(this.dial.value)); this.relayout(true); });
    this.tools = make("div", { class: "tools", role: "toolbar", "aria-label": "Graph" },
      this.search, this.found,
      ...(this.deepest ? [make("label", { class: "dial" }, "open ", this.dial)] : []),
      tool("+", "zoom in (+)", () => this.zoom(1.25)), tool("−", "zoom out (-)", () => this.zoom(0.8)),
      tool("fit", "show all (0)", () => this.fit()), tool("?", "keys (?)", () => this.help()),
      tool("◐", "light or dark", () => this.theme()));
    this.scene = draw("g");
    this.arrowsLayer = draw("g", { class: "arrows" });
    this.modulesLayer = draw("g", { class: "modules" });
    this.boxesLayer = draw("g", { class: "boxes" });
    this.scene.append(this.modulesLayer, this.arrowsLayer, this.boxesLayer);
    this.svg = draw("svg", { tabindex: "0", role: "application", "aria-label": `Graph of ${this.picture.title}: arrow keys move along arrows, Enter opens and closes modules`, class: "graph" });
    const marker = (id, cls) => draw("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse", class: cls }, draw("path", { d: "M0,0.5 L8,4 L0,7.5 z" }));
    this.svg.append(draw("defs", {}, marker("tip", "tip"), marker("tip-in", "tip in"), marker("tip-out", "tip out"), marker("tip-on", "tip on")), this.scene);
    this.details = make("div", { class: "details", "aria-live": "polite" });
    this.code = make("div", { class: "code", role: "region", "aria-label": "Program" });
    this.side = make("aside", { class: "side" });
    this.addPanel("Selected", this.details);
    this.main = make("main", { class: "main" }, this.svg);
    this.root.append(this.tools, this.main, this.side);
    this.makeCode();
    this.makeLegend();
    this.makeList();
    this.listen();
  }

  addPanel(title, body, open = true) {
    const panel = make("details", { class: "panel" }, make("summary", {}, title), body);
    panel.open = open;
    this.side.append(panel);
    return panel;
  }

  makeCode() {
    if (!this.picture.sources.length) return;
    this.lineOf = new Map();
    const used = new Map();
    for (const box of this.picture.boxes) if (box.source) (used.get(box.source) || used.set(box.source, []).get(box.source)).push(box);
    for (const span of this.picture.sources) {
      const file = span.file.split(/[\\/]/).pop();
      this.code.append(make("div", { class: "file" }, file));
      span.lines.forEach((text, i) => {
        const number = span.first + i, key = `${span.file}:${number}`, boxes = used.get(key) || [];
        const row = make(boxes.length ? "button" : "div", { class: "row" + (boxes.length ? " made" : ""), ...(boxes.length ? { type: "button", title: `${boxes.length} nodes` } : {}) },
          make("span", { class: "number" }, String(number)), make("code", {}, text || " "));
        if (boxes.length) {
          row.addEventListener("mouseenter", () => this.light(boxes));
          row.addEventListener("mouseleave", () => this.light([]));
          row.addEventListener("focus", () => this.light(boxes));
          row.addEventListener("blur", () => this.light([]));
          row.addEventListener("click", () => this.show(boxes[boxes.length - 1]));
        }
        this.lineOf.set(key, row);
        this.code.append(row);
      });
    }
    this.addPanel("Program", this.code);
  }

  makeLegend() {
    const { legend, notes } = this.picture;
    if (!legend.length && !notes.length) return;
    const body = make("ul", { class: "legend" });
    for (const [colour, text] of legend) {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = colour;
      body.append(make("li", {}, swatch, text));
    }
    for (const note of notes) body.append(make("li", {}, note));
    this.addPanel("Legend", body);
  }

  // The graph as a list, for screen readers and for those who read.
  makeList() {
    const list = make("ol", { class: "list" });
    for (const box of this.picture.boxes) {
      const made = this.into.get(box.id).map(arrow => this.called(this.boxes.get(arrow.tail))).join(", ");
      list.append(make("li", {}, make("button", { type: "button", onclick: () => this.show(box) }, this.called(box)),
        (made ? ` of ${made}` : "") + (box.lines.length ? `: ${box.lines.join(", ")}` : "")));
    }
    this.addPanel("As text", list, false);
  }

  called(box) {
    return [box.title, box.name].filter(Boolean).join(" ") || (box.parts ? box.name : "input");
  }

  // Layout and drawing.

  relayout(keep) {
    const anchor = keep && this.selected ? this.shownFor(this.selected) : null;
    const before = anchor && anchor.at ? this.toScreen(anchor.at) : null;
    this.layout();
    if (anchor && anchor.at && before) {
      const after = this.toScreen(anchor.at);
      this.pan(before.x - after.x, before.y - after.y);
    } else this.fit(SMALLEST);
    if (this.found.textContent) this.find(false);
    this.redraw?.();
  }

  sizeOf(thing, title, lines, name) {
    const font = "12px system-ui, sans-serif", bold = "600 14px system-ui, sans-serif";
    const head = widthOf(title, bold) + (title && name ? 7 : 0) + widthOf(name, "600 12px system-ui, sans-serif");
    const wide = Math.max(head, ...lines.map(line => widthOf(line, font)), 24);
    return { w: Math.ceil(wide) + 20, h: (title || name ? 20 : 2) + 15 * lines.length + 10 };
  }

  layout() {
    this.shown = new Map();
    const grow = module => ({
      module, least: widthOf(module.name, "600 12px system-ui, sans-serif") + 24,
      items: module.parts.map(part => {
        if (part.parts && part.open) return (part.at = grow(part));
        const item = part.parts
          ? { ...this.sizeOf(part, part.name, [`${part.boxes} nodes inside`], "  ▸"), module: part, closed: true }
          : { ...this.sizeOf(part, part.title, this.widest(part), this.nameOf(part)), box: part };
        part.at = item;
        this.shown.set(part, item);
        return item;
      }),
    });
    this.tree = grow(this.top);
    const merged = new Map();
    for (const arrow of this.picture.arrows) {
      const tail = this.shownFor(this.boxes.get(arrow.tail)), head = this.shownFor(this.boxes.get(arrow.head));
      if (tail === head && tail.parts) continue;
      const folded = tail.parts || head.parts;
      const key = folded ? `${tail.id || tail.key}>${head.id || head.key}` : `${arrow.tail}>${arrow.head}>${arrow.slot}`;
      const known = merged.get(key);
      if (known) { known.count += arrow.count; known.arrows.push(arrow); }
      else merged.set(key, { tail, head, count: arrow.count, arrows: [arrow], label: folded ? "" : arrow.label, marked: arrow.marked });
    }
    this.edges = [...merged.values()];
    const order = this.edges.map(e => ({ from: this.shown.get(e.tail), to: this.shown.get(e.head), edge: e }));
    this.down = this.picture.direction === "TB" || this.picture.direction === "BT";
    Layout.nested(this.tree, order, this.down);
    order.forEach(o => { o.edge.points = o.points; });
    this.paint();
  }

  widest(box) { return this.linesOf(box, true); }

  nameOf(box) { return (box.kind === "copy" ? "↻ " : "") + box.name; }

  paint() {
    this.modulesLayer.replaceChildren();
    this.arrowsLayer.replaceChildren();
    this.boxesLayer.replaceChildren();
    const groups = [];
    const walk = group => { for (const item of group.items) if (item.items) { groups.push(item); walk(item); } };
    walk(this.tree);
    for (const group of groups) {
      const g = draw("g", { class: "module", role: "button", tabindex: "-1", "aria-label": `module ${group.module.path.join(".")}, open; Enter closes it` },
        draw("rect", { x: group.x - group.w / 2, y: group.y - group.h / 2, width: group.w, height: group.h, rx: 9 }));
      const label = draw("text", { x: group.x - group.w / 2 + 12, y: group.y - group.h / 2 + 17, class: "label" });
      label.textContent = `▾ ${group.module.name}`;
      g.append(label);
      label.addEventListener("click", () => this.toggle(group.module));
      g.addEventListener("keydown", event => { if (event.key === "Enter") { this.toggle(group.module); event.stopPropagation(); } });
      this.modulesLayer.append(g);
    }
    const slots = new Map();
    for (const edge of this.edges) (slots.get(edge.head) || slots.set(edge.head, []).get(edge.head)).push(edge);
    for (const edges of slots.values()) {
      const axis = this.down ? "x" : "y";
      edges.sort((p, q) => this.shown.get(p.tail)[axis] - this.shown.get(q.tail)[axis] || p.arrows[0].slot - q.arrows[0].slot);
      edges.forEach((edge, i) => { edge.port = (i + 1) / (edges.length + 1); });
    }
    for (const edge of this.edges) this.paintEdge(edge);
    for (const [thing, item] of this.shown) this.paintBox(thing, item);
    this.mark();
  }

  paintEdge(edge) {
    const from = this.shown.get(edge.tail), to = this.shown.get(edge.head);
    const start = this.down ? { x: from.x, y: from.y + from.h / 2 } : { x: from.x + from.w / 2, y: from.y };
    const end = this.down
      ? { x: to.x - to.w / 2 + edge.port * to.w, y: to.y - to.h / 2 }
      : { x: to.x - to.w / 2, y: to.y - to.h / 2 + edge.port * to.h };
    const points = [start, ...edge.points, end];
    let d = `M${start.x},${start.y}`;
    for (let i = 1; i < points.length; i++) {
      const p = points[i - 1], q = points[i];
      const pull = Math.max(14, Math.abs(this.down ? q.y - p.y : q.x - p.x) / 2);
      d += this.down
        ? ` C${p.x},${p.y + pull} ${q.x},${q.y - pull} ${q.x},${q.y}`
        : ` C${p.x + pull},${p.y} ${q.x - pull},${q.y} ${q.x},${q.y}`;
    }
    edge.element = draw("path", { d, class: "arrow" + (edge.marked ? " marked" : ""), "marker-end": "url(#tip)", "data-tail": edge.arrows[0].tail, "data-head": edge.arrows[0].head });
    this.arrowsLayer.append(edge.element);
    const text = edge.count > 1 && (edge.tail.parts || edge.head.parts || edge.arrows[0].count > 1) ? `× ${edge.count}` : edge.label;
    if (text) {
      const label = draw("text", { x: end.x - 8, y: end.y - 4, class: "slot" });
      label.textContent = text;
      this.arrowsLayer.append(label);
    }
  }

  paintBox(thing, item) {
    const closed = item.closed, box = item.box;
    const kind = closed ? "module-closed" : box.kind;
    const g = draw("g", { class: `box ${kind}${box?.marked ? " marked" : ""}${box?.fill ? " painted" : ""}`, role: "button", tabindex: "-1", transform: `translate(${item.x - item.w / 2},${item.y - item.h / 2})` });
    g.setAttribute("aria-label", closed ? `module ${thing.path.join(".")}, ${thing.boxes} nodes; Enter opens it` : `${this.called(box)}: ${box.lines.join(", ")}`);
    if (box) g.setAttribute("data-box", box.id); else g.setAttribute("data-module", thing.path.join("."));
    const rect = draw("rect", { width: item.w, height: item.h, rx: 8 });
    if (box?.fill) rect.setAttribute("fill", box.fill);
    g.append(rect);
    item.texts = [];
    this.write(item, thing);
    g.addEventListener("click", event => { event.stopPropagation(); this.choose(thing); });
    g.addEventListener("dblclick", event => { event.stopPropagation(); if (closed) this.toggle(thing); });
    if (closed) {
      const opener = draw("text", { x: item.w - 12, y: 16, class: "opener" });
      opener.textContent = "▸";
      opener.addEventListener("click", event => { event.stopPropagation(); this.toggle(thing); });
      g.append(opener);
    }
    item.element = g;
    g.append(...item.texts);
    this.boxesLayer.append(g);
  }

  // The texts of a box: title and name, then its lines.
  write(item, thing) {
    const closed = item.closed, box = item.box;
    const title = closed ? thing.name : box.title, name = closed ? "" : this.nameOf(box);
    const lines = closed ? [`${thing.boxes} nodes inside`] : this.linesOf(box);
    for (const old of item.texts) old.remove();
    item.texts = [];
    if (title || name) {
      const text = draw("text", { x: item.w / 2, y: 20, class: "head" });
      if (title) { const t = draw("tspan", { class: "sign" }); t.textContent = title; text.append(t); }
      if (name) { const t = draw("tspan", title ? { dx: 7, class: "name" } : { class: "name only" }); t.textContent = name; text.append(t); }
      item.texts.push(text);
    }
    lines.forEach((line, i) => {
      const text = draw("text", { x: item.w / 2, y: (title || name ? 37 : 18) + 15 * i, class: "line" });
      text.textContent = line;
      item.texts.push(text);
    });
    if (item.element) item.element.append(...item.texts);
  }

  // Choosing.

  choose(thing, centre = false) {
    this.selected = thing;
    this.mark();
    this.tell(thing);
    if (centre) this.centre(thing.at);
    for (const listener of this.onselect) listener(thing);
  }

  show(box) {
    let changed = false;
    box.module.forEach((_, depth) => {
      const module = this.modules.get(JSON.stringify(box.module.slice(0, depth + 1)));
      if (!module.open) { module.open = true; changed = true; }
    });
    if (changed) { this.layout(); this.redraw?.(); }
    this.choose(box, true);
  }

  mark() {
    const chosen = this.selected && this.shownFor(this.selected);
    const near = new Set();
    for (const edge of this.edges) {
      const into = edge.head === chosen, out = edge.tail === chosen;
      edge.element.classList.toggle("in", into);
      edge.element.classList.toggle("out", out && !into);
      edge.element.classList.toggle("dim", Boolean(chosen) && !into && !out);
      if (!edge.element.classList.contains("on")) edge.element.setAttribute("marker-end", into ? "url(#tip-in)" : out ? "url(#tip-out)" : "url(#tip)");
      if (into) near.add(edge.tail);
      if (out) near.add(edge.head);
    }
    for (const [thing, item] of this.shown) {
      item.element.classList.toggle("chosen", thing === chosen);
      item.element.classList.toggle("dim", Boolean(chosen) && thing !== chosen && !near.has(thing));
      item.element.setAttribute("tabindex", thing === chosen ? "0" : "-1");
    }
    for (const row of this.lineOf?.values() || []) row.classList.remove("here");
    const row = this.selected && this.lineOf?.get(this.selected.source);
    if (row) this.reveal(row);
  }

  // Mark a line of the program and scroll its panel there, and nothing else.
  reveal(row) {
    row.classList.add("here");
    this.code.scrollTop = row.offsetTop - this.code.clientHeight / 2;
  }

  light(boxes) {
    const lit = new Set(boxes.map(box => this.shownFor(box)));
    for (const [thing, item] of this.shown) item.element.classList.toggle("lit", lit.has(thing));
  }

  tell(thing) {
    const facts = make("dl");
    const fact = (what, text) => { if (text) facts.append(make("dt", {}, what), make("dd", {}, text)); };
    if (thing.parts) {
      this.details.replaceChildren(make("h2", {}, thing.name), facts,
        make("button", { type: "button", onclick: () => this.toggle(thing) }, thing.open ? "close it" : "open it"));
      fact("module", thing.path.join("."));
      fact("holds", `${thing.boxes} nodes`);
      return;
    }
    fact("", thing.lines.join("   "));
    for (const [what, text] of thing.details) fact(what, text);
    fact("formula", thing.formula);
    fact("hides", thing.hides);
    fact("line", thing.source.split(/[\\/]/).pop());
    fact("overlay", thing.strength);
    if (thing.count > 1) fact("stands for", `${thing.count} equal nodes`);
    if (thing.copy_of) fact("drawn here", "near its use; it is the same weight as the others of this name");
    const name = thing.name || (thing.details.find(([what]) => what === "name") || ["", ""])[1];
    const copy = make("button", { type: "button", onclick: () => { navigator.clipboard?.writeText(name); copy.textContent = "copied"; } }, "copy its name");
    const names = (label, arrows, end) => arrows.length
      ? make("p", {}, `${label}: `, ...arrows.flatMap((arrow, i) => [i ? ", " : "", make("button", { type: "button", class: "link", onclick: () => this.show(this.boxes.get(arrow[end])) }, this.called(this.boxes.get(arrow[end])))]))
      : null;
    this.details.replaceChildren(make("h2", {}, this.called(thing)), facts,
      names("made from", this.into.get(thing.id), "tail") || "", names("goes into", this.out.get(thing.id), "head") || "", copy);
  }

  toggle(module) {
    module.open = !module.open;
    const inside = this.selected && !this.selected.parts && module.path.every((name, i) => this.selected.module[i] === name);
    if (!this.selected || inside || module.open) this.selected = module.open ? this.selected : module;
    this.relayout(Boolean(this.selected));
    if (!module.open) this.tell(module);
  }

  // Searching.

  find(move = true) {
    const wanted = this.search.value.trim().toLowerCase();
    this.hits = !wanted ? [] : this.picture.boxes.filter(box =>
      [box.title, box.name, box.module.join("."), box.source.split(/[\\/]/).pop(), ...box.details.map(d => d[1])].some(text => text.toLowerCase().includes(wanted)));
    const lit = new Set(this.hits.map(box => this.shownFor(box)));
    for (const [thing, item] of this.shown) item.element.classList.toggle("hit", lit.has(thing));
    this.hit = -1;
    this.found.textContent = wanted ? `${this.hits.length} found` : "";
    if (move && this.hits.length === 1) this.findNext(1);
  }

  findNext(by) {
    if (!this.hits?.length) return;
    this.hit = (this.hit + by + this.hits.length) % this.hits.length;
    const at = this.hit;
    this.show(this.hits[at]);
    const lit = new Set(this.hits.map(box => this.shownFor(box)));
    for (const [thing, item] of this.shown) item.element.classList.toggle("hit", lit.has(thing));
    this.found.textContent = `${at + 1} of ${this.hits.length}`;
  }

  // Moving.

  listen() {
    let from = null;
    const fingers = new Map();
    this.svg.addEventListener("wheel", event => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX, event.offsetY);
    }, { passive: false });
    this.svg.addEventListener("pointerdown", event => {
      fingers.set(event.pointerId, event);
      from = { x: event.clientX, y: event.clientY, moved: false };
    });
    this.svg.addEventListener("pointermove", event => {
      if (!fingers.has(event.pointerId)) return;
      if (fingers.size === 2) {
        const [a, b] = [...fingers.values()];
        const other = event.pointerId === a.pointerId ? b : a;
        const old = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
        this.zoom(Math.hypot(event.clientX - other.clientX, event.clientY - other.clientY) / old, other.offsetX, other.offsetY);
      } else if (from) {
        if (Math.hypot(event.clientX - from.x, event.clientY - from.y) > 3 || from.moved) {
          if (!from.moved) this.svg.setPointerCapture(event.pointerId);
          from.moved = true;
          this.pan(event.clientX - from.x, event.clientY - from.y);
          from.x = event.clientX;
          from.y = event.clientY;
        }
      }
      fingers.set(event.pointerId, event);
    });
    const up = event => { fingers.delete(event.pointerId); };
    this.svg.addEventListener("pointerup", up);
    this.svg.addEventListener("pointercancel", up);
    this.svg.addEventListener("click", () => {
      if (from?.moved) { from.moved = false; return; }
      this.selected = null;
      this.mark();
      this.details.replaceChildren(make("p", { class: "hint" }, "Point at a box and click, or use the arrow keys."));
    });
    this.details.append(make("p", { class: "hint" }, "Point at a box and click, or use the arrow keys."));
    this.svg.addEventListener("keydown", event => this.key(event));
    document.addEventListener("keydown", event => {
      if (event.target.closest("input, textarea, select")) return;
      if (event.key === "/") { this.search.focus(); event.preventDefault(); }
      if (event.key === "?") this.help();
    });
    new ResizeObserver(() => { if (!this.touched) this.fit(); }).observe(this.main);
  }

  key(event) {
    const moves = { ArrowLeft: "tail", ArrowRight: "head", ArrowUp: -1, ArrowDown: 1 };
    if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter") { if (this.selected?.parts) this.toggle(this.selected); else this.closeAround(); }
    else if (event.key === "Escape") { this.selected = null; this.mark(); }
    else if (event.key in moves && (!this.arrowsNeedShift || event.shiftKey || typeof moves[event.key] === "number")) this.walk(moves[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  closeAround() {
    const box = this.selected;
    if (!box || !box.module.length) return;
    this.toggle(this.modules.get(JSON.stringify(box.module)));
  }

  // Along an arrow ("tail", "head") or to the neighbour across (1, -1).
  walk(to) {
    const across = this.down ? "y" : "x", along = this.down ? "x" : "y";
    const things = [...this.shown.keys()];
    if (!this.selected) { this.choose(things[things.length - 1], true); return; }
    const now = this.shownFor(this.selected);
    if (typeof to === "number") {
      const same = things.filter(t => Math.abs(t.at[across] - now.at[across]) < 60).sort((p, q) => p.at[along] - q.at[along]);
      const next = same[same.indexOf(now) + to];
      if (next) this.choose(next, true);
      return;
    }
    const edges = this.edges.filter(e => (to === "tail" ? e.head : e.tail) === now);
    if (edges.length) this.choose(edges[0][to], true);
  }

  toScreen(at) { return { x: at.x * this.scale + this.dx, y: at.y * this.scale + this.dy }; }

  apply() { this.scene.setAttribute("transform", `translate(${this.dx},${this.dy}) scale(${this.scale})`); }

  pan(x, y) { this.touched = true; this.dx += x; this.dy += y; this.apply(); }

  zoom(by, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    this.touched = true;
    const scale = Math.min(4, Math.max(0.02, this.scale * by));
    this.dx = x - (x - this.dx) * scale / this.scale;
    this.dy = y - (y - this.dy) * scale / this.scale;
    this.scale = scale;
    this.apply();
  }

  // All of it; or, with a least scale that can be read, its end where that is too large.
  fit(least = 0) {
    const w = this.svg.clientWidth || 800, h = this.svg.clientHeight || 500;
    const whole = Math.min(1.4, (w - 24) / this.tree.w, (h - 24) / this.tree.h);
    const scale = this.scale = Math.max(least, whole);
    const right = this.tree.x + this.tree.w / 2, bottom = this.tree.y + this.tree.h / 2;
    const wide = this.tree.w * scale > w, high = this.tree.h * scale > h;
    this.dx = wide ? w - 12 - right * scale : w / 2 - this.tree.x * scale;
    this.dy = high && this.down ? h - 12 - bottom * scale : h / 2 - this.tree.y * scale;
    this.touched = false;
    this.apply();
  }

  centre(at) {
    if (!at) return;
    const p = this.toScreen(at), w = this.svg.clientWidth, h = this.svg.clientHeight;
    if (this.scale < 0.5) { this.zoom(0.8 / this.scale, p.x, p.y); return this.centre(at); }
    if (p.x < 60 || p.y < 40 || p.x > w - 60 || p.y > h - 40) this.pan(w / 2 - p.x, h / 2 - p.y);
  }

  theme() {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  }

  help() {
    if (!this.keys) {
      const rows = [["← →", this.arrowsNeedShift ? "event back, event on" : "along arrows: to an input, to what uses it"],
        ...(this.arrowsNeedShift ? [["Shift ← →", "along arrows"], ["Home End", "start, end"], ["space", "play, pause"]] : []),
        ["↑ ↓", "to the box above, below"], ["Enter", "open or close a module"], ["+ − 0", "zoom, show all"],
        ["/", "search; Enter the next one"], ["Esc", "nothing selected"]];
      const close = make("button", { type: "button", onclick: () => this.keys.close() }, "close");
      this.keys = make("dialog", { "aria-label": "Keys" }, make("table", {}, ...rows.map(([k, what]) => make("tr", {}, make("th", {}, k), make("td", {}, what)))), close);
      this.root.append(this.keys);
    }
    if (this.keys.open) this.keys.close(); else this.keys.showModal();
  }
}
