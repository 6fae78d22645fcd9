// A layered layout of nested boxes: pure functions, no document.
//
// layoutNested(root, edges) places the items of a tree: a leaf has a width and a height, a group has
// items, which are laid out by themselves and make its size. An edge is placed at the level where
// its ends part. Ranks by longest path, orders by barycentres, places by isotonic regression.
"use strict";

const Layout = (() => {
  const RANK_GAP = 46, GAP = 14, PAD = 14, HEAD = 22;

  // Reverse the edges that close a cycle, found by depth-first search with a stack of its own.
  function acyclic(count, edges) {
    const out = Array.from({ length: count }, () => []);
    edges.forEach((e, i) => { if (e.a !== e.b) out[e.a].push(i); });
    const state = new Uint8Array(count), next = new Int32Array(count);
    const turned = edges.map(e => ({ a: e.a, b: e.b, edge: e, back: false }));
    for (let start = 0; start < count; start++) {
      if (state[start]) continue;
      const stack = [start];
      state[start] = 1;
      while (stack.length) {
        const v = stack[stack.length - 1];
        if (next[v] === out[v].length) { state[v] = 2; stack.pop(); continue; }
        const i = out[v][next[v]++], w = edges[i].b;
        if (state[w] === 1) { turned[i].a = w; turned[i].b = v; turned[i].back = true; }
        else if (state[w] === 0) { state[w] = 1; stack.push(w); }
      }
    }
    return turned.filter(e => e.a !== e.b);
  }

  // Longest paths from the left; then what nothing goes into moves up to what it goes into.
  function ranks(count, edges) {
    const into = new Int32Array(count), out = Array.from({ length: count }, () => []);
    for (const e of edges) { into[e.b]++; out[e.a].push(e.b); }
    const left = into.slice(), rank = new Int32Array(count), queue = [];
    for (let v = 0; v < count; v++) if (!left[v]) queue.push(v);
    for (let i = 0; i < queue.length; i++) {
      for (const w of out[queue[i]]) {
        rank[w] = Math.max(rank[w], rank[queue[i]] + 1);
        if (!--left[w]) queue.push(w);
      }
    }
    for (let i = queue.length - 1; i >= 0; i--) {
      const v = queue[i];
      if (!into[v] && out[v].length) rank[v] = Math.min(...out[v].map(w => rank[w])) - 1;
    }
    return rank;
  }

  // The places nearest to the wished ones that keep the order and the gaps: pool adjacent violators.
  function settle(wished, sizes) {
    const blocks = [];
    let offset = 0;
    const offsets = wished.map((_, i) => {
      const at = offset + sizes[i] / 2;
      offset += sizes[i] + GAP;
      return at;
    });
    wished.forEach((y, i) => {
      let block = { sum: y - offsets[i], count: 1 };
      while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].count > block.sum / block.count) {
        const before = blocks.pop();
        block = { sum: before.sum + block.sum, count: before.count + block.count };
      }
      blocks.push(block);
    });
    const places = [];
    for (const block of blocks)
      for (let k = 0; k < block.count; k++) places.push(block.sum / block.count + offsets[places.length]);
    return places;
  }

  // One level: items with w and h, edges {a, b} between their indices; gives x, y (middles) and, for
  // each edge, the points it passes.
  function layered(items, edges) {
    const turned = acyclic(items.length, edges);
    const rank = Array.from(ranks(items.length, turned));
    const cells = items.map((item, i) => ({ item, rank: rank[i], w: item.w, h: item.h, left: [], right: [] }));
    const chains = turned.map(e => {
      const chain = [e.a];
      for (let r = rank[e.a] + 1; r < rank[e.b]; r++) {
        chain.push(cells.length);
        cells.push({ item: null, rank: r, w: 0, h: 4, left: [], right: [] });
      }
      chain.push(e.b);
      for (let i = 1; i < chain.length; i++) {
        cells[chain[i - 1]].right.push(chain[i]);
        cells[chain[i]].left.push(chain[i - 1]);
      }
      return chain;
    });
    const low = Math.min(0, ...cells.map(c => c.rank));
    const layers = [];
    cells.forEach((cell, i) => (layers[cell.rank - low] ||= []).push(i));
    for (let i = 0; i < layers.length; i++) layers[i] ||= [];
    const place = new Float64Array(cells.length);
    const number = layer => layer.forEach((c, i) => { place[c] = i; });
    layers.forEach(number);
    for (let sweep = 0; sweep < 8; sweep++) {
      const forth = sweep % 2 === 0;
      const order = forth ? layers : [...layers].reverse();
      for (const layer of order) {
        const key = new Map(layer.map(c => {
          const near = forth ? cells[c].left : cells[c].right;
          return [c, near.length ? near.reduce((s, n) => s + place[n], 0) / near.length : place[c]];
        }));
        layer.sort((p, q) => key.get(p) - key.get(q) || p - q);
        number(layer);
      }
    }
    const y = new Float64Array(cells.length);
    for (const layer of layers) {
      const places = settle(layer.map(() => 0), layer.map(c => cells[c].h));
      const middle = places.length ? (places[0] + places[places.length - 1]) / 2 : 0;
      layer.forEach((c, i) => { y[c] = places[i] - middle; });
    }
    for (let sweep = 0; sweep < 10; sweep++) {
      const forth = sweep % 2 === 0;
      const order = forth ? layers : [...layers].reverse();
      for (const layer of order) {
        const wished = layer.map(c => {
          const near = forth ? cells[c].left : cells[c].right;
          const far = forth ? cells[c].right : cells[c].left;
          const all = near.length ? near : far;
          return all.length ? all.reduce((s, n) => s + y[n], 0) / all.length : y[c];
        });
        settle(wished, layer.map(c => cells[c].h)).forEach((at, i) => { y[layer[i]] = at; });
      }
    }
    let x = 0;
    const middles = new Float64Array(cells.length);
    for (const layer of layers) {
      const wide = Math.max(0, ...layer.map(c => cells[c].w));
      for (const c of layer) middles[c] = x + wide / 2;
      x += wide + RANK_GAP;
    }
    items.forEach((item, i) => { item.x = middles[i]; item.y = y[i]; });
    chains.forEach((chain, i) => {
      const points = chain.slice(1, -1).map(c => ({ x: middles[c], y: y[c] }));
      turned[i].edge.points = turned[i].back ? points.reverse() : points;
    });
  }

  // The whole tree, from the inside out. A group: {items, least}; a leaf: {w, h}. Afterwards every
  // item has x, y, w, h in one system, and every edge its points. `down`: ranks go from top to
  // bottom, which is the same with both axes exchanged.
  function nested(root, edges, down = false) {
    const flip = thing => { [thing.x, thing.y, thing.w, thing.h] = [thing.y, thing.x, thing.h, thing.w]; };
    const parent = new Map();
    const groups = [];
    const walk = [root];
    while (walk.length) {
      const group = walk.pop();
      groups.push(group);
      for (const item of group.items) {
        parent.set(item, group);
        if (item.items) walk.push(item);
        else if (down) flip(item);
      }
    }
    const pathOf = item => {
      const path = [item];
      while (parent.has(path[path.length - 1])) path.push(parent.get(path[path.length - 1]));
      return path.reverse();
    };
    const at = new Map(groups.map(g => [g, []]));
    for (const edge of edges) {
      const a = pathOf(edge.from), b = pathOf(edge.to);
      let i = 0;
      while (a[i + 1] === b[i + 1] && i + 1 < Math.min(a.length, b.length)) i++;
      edge.points = [];
      edge.level = a[i];
      if (a[i + 1] && b[i + 1]) at.get(a[i]).push({ edge, from: a[i + 1], to: b[i + 1] });
    }
    for (const group of groups.reverse()) {
      const index = new Map(group.items.map((item, i) => [item, i]));
      const own = at.get(group).map(e => ({ a: index.get(e.from), b: index.get(e.to), origin: e.edge, points: [] }));
      const unique = new Map();
      for (const e of own) {
        const key = e.a * group.items.length + e.b;
        if (!unique.has(key)) unique.set(key, e);
      }
      layered(group.items, [...unique.values()]);
      for (const e of own) {
        e.origin.points = unique.get(e.a * group.items.length + e.b).points.map(p => ({ ...p }));
      }
      const xs = [], ys = [];
      for (const item of group.items) {
        xs.push(item.x - item.w / 2, item.x + item.w / 2);
        ys.push(item.y - item.h / 2, item.y + item.h / 2);
      }
      for (const e of own) for (const p of e.origin.points) ys.push(p.y - 4, p.y + 4);
      const x0 = Math.min(0, ...xs), x1 = Math.max(0, ...xs), y0 = Math.min(...ys, 0), y1 = Math.max(...ys, 0);
      const least = (group.least || 0) + 2 * PAD, head = group === root ? 0 : HEAD;
      group.w = Math.max(x1 - x0 + 2 * PAD + (down ? head : 0), down ? 0 : least);
      group.h = Math.max(y1 - y0 + 2 * PAD + (down ? 0 : head), down ? least : 0);
      group.shift = { x: -(x0 + x1) / 2 + (down ? head / 2 : 0), y: -(y0 + y1) / 2 + (down ? 0 : head / 2) };
    }
    root.x = root.y = 0;
    const left = [root];
    const shiftOf = new Map();
    while (left.length) {
      const group = left.pop();
      const dx = group.x + group.shift.x, dy = group.y + group.shift.y;
      shiftOf.set(group, { dx, dy });
      for (const item of group.items) {
        item.x += dx;
        item.y += dy;
        if (item.items) left.push(item);
      }
    }
    for (const edge of edges) {
      const s = shiftOf.get(edge.level);
      edge.points = edge.points.map(p => (down ? { x: p.y + s.dy, y: p.x + s.dx } : { x: p.x + s.dx, y: p.y + s.dy }));
    }
    if (down) for (const group of groups) { flip(group); for (const item of group.items) if (!item.items) flip(item); }
    return root;
  }

  return { nested, layered, settle };
})();
