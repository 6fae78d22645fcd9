// A backward pass scrubbed through: the graph stands still, numbers come and go.
//
// Moments: 0 is nothing; 1 … F the forward pass, an operation each; F + 1 … F + E the events of the
// backward pass. What is shown at a moment is a function of that moment alone, so going back costs
// nothing. Numbers come from the log (docs/log.md), never from running anything.
"use strict";

function number(x) {
  if (x === null || x === undefined) return "–";
  if (typeof x === "string") return x;
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return x.toFixed(1);
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-3) return x.toExponential(2);
  return String(Number(x.toPrecision(4)));
}

function brief(x) {
  if (x === null || x === undefined) return "–";
  return typeof x === "object" ? `norm ${number(x.norm)}` : number(x);
}

const shapeText = x => `(${x.shape.join(", ")}${x.shape.length === 1 ? "," : ""})`;

function whole(x) {
  if (x === null || typeof x !== "object") return brief(x);
  const odd = [x.zeros ? `${x.zeros} zero` : "", x.nan ? `${x.nan} NaN` : "", x.inf ? `${x.inf} inf` : ""].filter(Boolean);
  return [`${shapeText(x)}: norm ${number(x.norm)}`, `${number(x.low)} … ${number(x.high)}`, ...odd].join(", ");
}

const sizeOfNumbers = x => typeof x === "object" && x !== null
  ? Math.max(Math.abs(Number(x.low)), Math.abs(Number(x.high))) : Math.abs(Number(x));
const isBad = (x, what) => typeof x === "object" && x !== null
  ? x[what] > 0 : what === "nan" ? x === "nan" : x === "inf" || x === "-inf";
const isZero = x => typeof x === "object" && x !== null ? x.norm === 0 && !x.nan && !x.inf : x === 0;

class Stepper {
  constructor(root, data) {
    this.log = data.log;
    this.madeText = data.made;
    this.nodeOf = new Map(data.picture.boxes.map((box, i) => [box.id, data.nodes[i]]));
    this.boxesOf = this.log.nodes.map(() => []);
    for (const box of data.picture.boxes) { const n = this.nodeOf.get(box.id); if (n >= 0) this.boxesOf[n].push(box); }
    this.order = this.log.nodes.map((node, i) => i).filter(i => this.log.nodes[i].op);
    this.madeAt = new Map(this.order.map((n, i) => [n, i + 1]));
    this.F = this.order.length;
    this.E = this.log.events.length;
    this.gets = this.log.nodes.map(() => []);
    this.log.events.forEach((event, e) => event.uses.forEach(use => this.gets[use.input].push({ e, use })));
    this.rootNode = this.log.nodes.length - 1;
    this.stops = [];
    this.watched = [];
    this.at = this.F;
    this.makeTime(root);
    this.view = new GraphView(root, data.picture);
    this.view.arrowsNeedShift = true;
    this.view.linesOf = (box, widest) => this.linesOf(box, widest);
    this.view.redraw = () => this.show();
    this.view.onselect.push(() => this.showLedger());
    this.makePanels();
    root.append(this.time);
    this.view.layout();
    this.view.openReadable();
    this.view.fit();
    this.listen();
    this.fromHash();
  }

  // Time.

  makeTime(root) {
    const button = (label, title, action) => make("button", { type: "button", title, "aria-label": title, onclick: action }, label);
    this.slider = make("input", { type: "range", min: 0, max: this.F + this.E, value: this.at, "aria-label": "Moment of the forward and the backward pass" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.clock = make("output", { "aria-live": "polite" });
    this.player = button("play", "play (space)", () => this.play());
    this.time = make("div", { class: "time", role: "group", "aria-label": "Time" },
      button("|◀", "start (Home)", () => this.go(0)), button("◀", "one back (←)", () => this.go(this.at - 1)),
      button("▶", "one on (→)", () => this.go(this.at + 1)), button("▶|", "end (End)", () => this.go(this.F + this.E)),
      this.player, this.slider, this.clock);
  }

  listen() {
    document.addEventListener("keydown", event => {
      if (event.target.closest("input:not([type=range]), select, textarea, dialog") || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const moves = { ArrowLeft: this.at - 1, ArrowRight: this.at + 1, Home: 0, End: this.F + this.E };
      if (event.key in moves) this.go(moves[event.key]);
      else if (event.key === " " && !event.target.closest("button, summary")) this.play();
      else return;
      event.preventDefault();
    });
    window.addEventListener("hashchange", () => this.fromHash());
  }

  fromHash() {
    const found = /^#([ef])(\d+)$/.exec(location.hash);
    this.go(found ? Number(found[2]) + (found[1] === "e" ? this.F : 0) : this.at);
  }

  play() {
    if (this.playing) { clearInterval(this.playing); this.playing = null; }
    else {
      if (this.at === this.F + this.E) this.go(0);
      this.playing = setInterval(() => { if (this.at < this.F + this.E) this.go(this.at + 1); else this.play(); }, 900);
    }
    this.player.textContent = this.playing ? "pause" : "play";
  }

  go(at) {
    this.at = Math.max(0, Math.min(this.F + this.E, at));
    this.slider.value = this.at;
    const hash = this.at > this.F ? `#e${this.at - this.F}` : `#f${this.at}`;
    if (location.protocol !== "about:" && location.hash !== hash) try { history.replaceState(null, "", hash); } catch { /* a frame without a history */ }
    this.show();
  }

  get event() { return this.at > this.F ? this.log.events[this.at - this.F - 1] : null; }

  // What stands on the boxes at this moment.

  gradient(n) {
    const e = this.at - this.F - 1, got = this.gets[n];
    if (e < -1 || this.at < this.F) return { value: null, count: 0, total: got.length };
    const so_far = got.filter(g => g.e <= e);
    if (!got.length) return { value: n === this.rootNode ? this.log.gradients[n] : null, count: 0, total: 0 };
    const last = so_far[so_far.length - 1];
    return { value: last ? last.use.after : null, count: so_far.length, total: got.length, fresh: last && last.e === e };
  }

  linesOf(box, widest) {
    const n = this.nodeOf.get(box.id);
    if (n < 0 || n === undefined) return box.lines;
    const node = this.log.nodes[n], value = node.value;
    const text = value !== null && typeof value === "object" ? `${shapeText(value)} ${value.dtype}` : number(value);
    if (widest) {
      const all = this.gets[n].map(g => brief(g.use.after)).concat("–", brief(this.log.gradients[n]));
      const long = all.reduce((p, q) => (q.length > p.length ? q : p));
      return [text, this.gets[n].length > 1 ? `grad ${long}  (${this.gets[n].length} of ${this.gets[n].length})` : `grad ${long}`];
    }
    const made = !node.op || this.at >= this.madeAt.get(n);
    const g = this.gradient(n);
    const uses = g.total > 1 && g.count < g.total && g.count ? `  (${g.count} of ${g.total})` : "";
    return [made ? text : "?", `grad ${brief(g.value)}${uses}`];
  }

  show() {
    const event = this.event, view = this.view;
    const now = event ? event.node : this.at > 0 ? this.order[this.at - 1] : -1;
    const gets = new Set(event ? event.uses.map(use => use.input) : []);
    for (const [thing, item] of view.shown) {
      const inside = thing.parts ? this.inside(thing) : [this.nodeOf.get(thing.id)];
      if (!thing.parts) view.write(item, thing);
      const node = this.log.nodes[inside[0]];
      item.element.classList.toggle("blank", !thing.parts && Boolean(node?.op) && this.at < this.madeAt.get(inside[0]));
      item.element.classList.toggle("now", inside.includes(now));
      item.element.classList.toggle("gets", inside.some(n => gets.has(n)));
      item.element.classList.toggle("fresh", inside.some(n => gets.has(n)));
    }
    for (const edge of view.edges) {
      const on = Boolean(event) && edge.arrows.some(arrow => this.nodeOf.get(arrow.head) === event.node && gets.has(this.nodeOf.get(arrow.tail)));
      edge.element.classList.toggle("on", on);
    }
    view.mark();
    for (const edge of view.edges) if (edge.element.classList.contains("on")) edge.element.setAttribute("marker-end", "url(#tip-on)");
    this.clock.value = event ? `event ${this.at - this.F} of ${this.E}` : this.at ? `forward ${this.at} of ${this.F}` : "nothing computed yet";
    this.slider.setAttribute("aria-valuetext", this.clock.value);
    this.showEvent(event, now);
    this.showLedger();
    this.showWatches();
    this.showLine(now);
  }

  inside(module) {
    if (!this.insides) this.insides = new Map();
    if (!this.insides.has(module)) {
      const all = [], walk = part => part.parts ? part.parts.forEach(walk) : all.push(this.nodeOf.get(part.id));
      walk(module);
      this.insides.set(module, all);
    }
    return this.insides.get(module);
  }

  // Panels.

  makePanels() {
    const { view } = this;
    this.eventBody = make("div", { class: "event", "aria-live": "polite" });
    this.ledgerBody = make("div");
    this.stopBody = make("div", { class: "stops" });
    this.watchBody = make("div", { class: "watch" });
    const panel = view.addPanel("This moment", this.eventBody);
    view.side.prepend(panel);
    panel.after(view.addPanel("Ledger of a gradient", this.ledgerBody));
    view.addPanel("Breakpoints", this.stopBody);
    view.addPanel("Watched", this.watchBody);
    this.makeStops();
  }

  showEvent(event, n) {
    const body = this.eventBody;
    if (n < 0) { body.replaceChildren(make("p", { class: "hint" }, "Nothing is computed yet: → goes forward.")); return; }
    const node = this.log.nodes[n];
    const said = make("h2", {}, event ? `[${this.at - this.F}/${this.E}] ${this.madeText[n]}` : `${this.madeText[n]} = ${brief(node.value)}`);
    const place = [node.source, event?.function && event.function !== "<module>" ? `in ${event.function}` : "", node.module].filter(Boolean).join(" ");
    const parts = [said, place ? make("div", { class: "place" }, place) : ""];
    if (event) {
      parts.push(make("p", {}, `has arrived: ∂${this.log.loss}/∂${node.name} = ${whole(event.upstream)}`));
      for (const use of event.uses) if (this.boxesOf[use.input].length) parts.push(this.useText(use));
      const variables = Object.entries(event.variables);
      if (variables.length) parts.push(make("p", { class: "small" }, "variables there: " + variables.map(([k, v]) => `${k} = ${typeof v === "number" ? number(v) : v}`).join(", ")));
    } else parts.push(make("p", { class: "small" }, "the forward pass: the numbers are made, one operation after the other"));
    body.replaceChildren(...parts);
  }

  useText(use) {
    const name = this.log.nodes[use.input].name, result = brief(use.contribution);
    const numbers = use.numbers ? ` = ${use.numbers}` : "";
    const small = [use.shapes && use.shapes.includes("@") ? `shapes ${use.shapes}` : "", use.element, use.summed_axes.length ? `summed over axes ${use.summed_axes.join(", ")}, along which ${name} was broadcast` : ""].filter(Boolean);
    return make("div", { class: "use" },
      make("div", { class: "sum" }, `∂${this.log.loss}/∂${name} += ${use.formula}${numbers}${use.numbers === result ? "" : ` = ${result}`}`),
      ...small.map(text => make("div", { class: "small" }, text)),
      make("div", { class: "small" }, `${name}.grad ${brief(use.before)} → ${brief(use.after)}` + (use.total > 1 ? `  (use ${use.nth} of ${use.total})` : "")));
  }

  // The node whose ledger is shown: the selected one, else what the event hands to first.
  ledgerNode() {
    const chosen = this.view.selected && !this.view.selected.parts ? this.nodeOf.get(this.view.selected.id) : -1;
    if (chosen >= 0) return chosen;
    return this.event?.uses.find(use => this.boxesOf[use.input].length)?.input ?? this.rootNode;
  }

  showLedger() {
    if (!this.ledgerBody) return;
    const n = this.ledgerNode(), name = this.log.nodes[n].name, e = this.at - this.F - 1;
    const rows = this.gets[n].map(({ e: at, use }) => {
      const jump = make("button", { type: "button", class: "link", onclick: () => this.go(this.F + 1 + at) }, String(at + 1));
      return make("tr", { class: at > e ? "later" : "" }, make("td", {}, jump), make("td", {}, this.log.nodes[this.log.events[at].node].name), make("td", {}, brief(use.contribution)), make("td", {}, brief(use.after)));
    });
    const watch = make("button", { type: "button", onclick: () => { if (!this.watched.includes(n)) this.watched.push(n); this.showWatches(); } }, `watch ${name}`);
    this.ledgerBody.replaceChildren(
      make("p", {}, `∂${this.log.loss}/∂${name} `, watch),
      rows.length
        ? make("table", { class: "ledger" }, make("thead", {}, make("tr", {}, ...["event", "from", "adds", "comes to"].map(t => make("th", { scope: "col" }, t)))), make("tbody", {}, ...rows))
        : make("p", { class: "small" }, n === this.rootNode ? `begins with ${brief(this.log.gradients[n])}` : "nothing is handed to it"));
  }

  showWatches() {
    if (!this.watched.length) { this.watchBody.replaceChildren(make("p", { class: "hint" }, "Watch a node from its ledger: its gradient is shown here, old → new.")); return; }
    const list = make("ul");
    const here = this.at;
    for (const n of this.watched) {
      const now = brief(this.gradient(n).value);
      this.at = here - 1;
      const old = here > 0 ? brief(this.gradient(n).value) : "–";
      this.at = here;
      const away = make("button", { type: "button", class: "link", onclick: () => { this.watched = this.watched.filter(m => m !== n); this.showWatches(); } }, "remove");
      list.append(make("li", {}, `${this.log.nodes[n].name}.grad ${old === now ? now : `${old} → ${now}`} `, away));
    }
    this.watchBody.replaceChildren(list);
  }

  showLine(n) {
    const rows = this.view.lineOf;
    if (!rows) return;
    for (const row of rows.values()) row.classList.remove("here");
    const box = n >= 0 ? this.boxesOf[n]?.[0] : null;
    const row = box && rows.get(box.source);
    if (row) this.view.reveal(row);
  }

  // Breakpoints.

  makeStops() {
    const kinds = { op: "operation is", name: "node or input is called", nan: "NaN", inf: "inf", zero: "only 0 is handed on", second: "second contribution", sign: "sign changes", big: "|number| above", small: "|number| below" };
    const kind = make("select", { "aria-label": "stop where" }, ...Object.entries(kinds).map(([value, text]) => make("option", { value }, text)));
    const text = make("input", { "aria-label": "name or number", placeholder: "tanh" });
    const needs = () => ["op", "name", "big", "small"].includes(kind.value);
    kind.addEventListener("change", () => { text.hidden = !needs(); text.placeholder = { op: "tanh", name: "w*", big: "1000", small: "1e-8" }[kind.value] || ""; });
    const form = make("form", {}, kind, text, make("button", {}, "add"));
    form.addEventListener("submit", event => {
      event.preventDefault();
      if (needs() && !text.value.trim()) { text.focus(); return; }
      this.stops.push({ kind: kind.value, what: text.value.trim(), label: kinds[kind.value] + (needs() ? ` ${text.value.trim()}` : "") });
      text.value = "";
      this.listStops();
    });
    this.stopList = make("ul");
    this.stopSaid = make("p", { class: "small", role: "status" });
    this.stopBody.append(form, this.stopList,
      make("button", { type: "button", onclick: () => this.run(-1) }, "◀ back to one"), " ",
      make("button", { type: "button", onclick: () => this.run(1) }, "on to one ▶"), this.stopSaid);
  }

  listStops() {
    this.stopList.replaceChildren(...this.stops.map(stop => make("li", {}, `${stop.label} `, make("button", { type: "button", class: "link", onclick: () => { this.stops = this.stops.filter(s => s !== stop); this.listStops(); } }, "remove"))));
  }

  reason(e) {
    const event = this.log.events[e], names = [event.node, ...event.uses.map(u => u.input)].map(n => this.log.nodes[n].name);
    const like = (text, pattern) => new RegExp(`^${pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "u").test(text);
    const some = test => event.uses.some(test);
    const sign = x => (typeof x === "number" ? Math.sign(x) : 0);
    const tests = {
      op: s => like(this.log.nodes[event.node].op, s.what),
      name: s => names.some(name => like(name, s.what)),
      nan: () => some(u => isBad(u.contribution, "nan")) || isBad(event.upstream, "nan"),
      inf: () => some(u => isBad(u.contribution, "inf")) || isBad(event.upstream, "inf"),
      zero: () => some(u => isZero(u.contribution)),
      second: () => some(u => u.nth > 1),
      sign: () => some(u => sign(u.before) * sign(u.after) < 0),
      big: s => some(u => sizeOfNumbers(u.contribution) > Number(s.what)),
      small: s => some(u => { const size = sizeOfNumbers(u.contribution); return size > 0 && size < Number(s.what); }),
    };
    return this.stops.find(stop => tests[stop.kind](stop));
  }

  run(by) {
    for (let e = this.at - this.F - 1 + by; e >= 0 && e < this.E; e += by) {
      const stop = this.reason(e);
      if (stop) { this.go(this.F + 1 + e); this.stopSaid.textContent = `stopped: ${stop.label}`; return; }
    }
    this.stopSaid.textContent = this.stops.length ? "none in that direction" : "there is no breakpoint yet";
  }
}
