'use strict';
// What a run's report does beside standing there: points are named, samples scrubbed, heads chosen.

const SVG = 'http://www.w3.org/2000/svg';
const make = (name, attributes = {}, text = '') => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
};
const digits = x => Math.abs(x) >= 0.001 && Math.abs(x) < 1e5 || x === 0 ? Number(x.toPrecision(4)).toString() : x.toExponential(2);
const steps = n => n.toLocaleString('en-US');

class Report {
  constructor(data) {
    this.data = data;
    this.theme();
    document.querySelectorAll('svg[data-chart]').forEach(svg => this.curve(svg));
    document.querySelectorAll('svg[data-cells]').forEach(svg => this.cells(svg));
    this.samples();
    if (data.attention) this.attention(document.querySelector('.attention'));
    if (data.embeddings) this.planes();
  }

  theme() {
    const button = document.querySelector('.theme');
    const dark = () => (document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
    button.addEventListener('click', () => {
      document.documentElement.dataset.theme = dark() ? 'light' : 'dark';
      this.repaint?.();
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.repaint?.());
  }

  // A curve: a cursor at the step pointed at, and below what the series have there.
  curve(svg) {
    const series = this.data.charts[svg.dataset.chart];
    const [first, last, left, right] = svg.dataset.frame.split(' ').map(Number);
    const cursor = svg.querySelector('.cursor');
    const said = svg.parentElement.querySelector('output');
    const longest = series.reduce((a, b) => (b.x.length > a.x.length ? b : a));
    let at = -1;
    const show = index => {
      at = Math.max(0, Math.min(longest.x.length - 1, index));
      const step = longest.x[at];
      const x = left + (step - first) / (last - first) * (right - left);
      cursor.setAttribute('x1', x);
      cursor.setAttribute('x2', x);
      const parts = [];
      for (const one of series) {
        const i = nearest(one.x, step);
        if (i < 0 || one.y[i] === null) continue;
        parts.push(`${one.name} ${digits(one.y[i])}` + (one.x[i] === step ? '' : ` (step ${steps(one.x[i])})`));
      }
      said.textContent = `step ${steps(step)}: ${parts.join(', ')}`;
    };
    svg.addEventListener('pointermove', event => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      show(nearest(longest.x, first + (x - left) / (right - left) * (last - first)));
    });
    svg.addEventListener('keydown', event => {
      const far = Math.max(1, Math.round(longest.x.length / 20));
      const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -far, PageDown: far, Home: -Infinity, End: Infinity }[event.key];
      if (move === undefined) return;
      event.preventDefault();
      show(at < 0 && move < 0 ? longest.x.length - 1 : at + move);
    });
  }

  // The heat map of gradient norms.
  cells(svg) {
    const { parts, steps: columns, values } = this.data.norms;
    const said = svg.closest('figure').querySelector('output');
    let at = [0, -1];
    const show = (r, c) => {
      r = Math.max(0, Math.min(parts.length - 1, r));
      c = Math.max(0, Math.min(columns.length - 1, c));
      at = [r, c];
      svg.querySelector('.at')?.classList.remove('at');
      svg.querySelector(`[data-r="${r}"][data-c="${c}"]`)?.classList.add('at');
      const value = values[r][c];
      said.textContent = `${parts[r]}, step ${steps(columns[c])}: ${value === null ? 'not known' : digits(value)}`;
    };
    svg.addEventListener('pointermove', event => {
      const { r, c } = event.target.dataset ?? {};
      if (r !== undefined) show(Number(r), Number(c));
    });
    keys(svg, (down, across) => show(at[0] + down, at[1] + across));
  }

  samples() {
    const box = document.querySelector('.samples');
    const range = box?.querySelector('input[type=range]');
    if (!range) return;
    const all = [...box.querySelectorAll('.sample')];
    const said = box.querySelector('.scrub output');
    const show = () => {
      all.forEach((one, i) => one.classList.toggle('now', i === Number(range.value)));
      said.textContent = all[range.value].querySelector('h3').textContent;
    };
    box.classList.add('scrubbed');
    range.addEventListener('input', show);
    show();
  }

  attention(box) {
    const { tokens, layers } = this.data.attention;
    const heads = box.querySelector('.heads');
    const count = Math.max(...layers.map(layer => layer.heads.length));
    heads.style.gridTemplateColumns = `repeat(${Math.min(count, 6)}, minmax(0, 1fr))`;
    const buttons = [];
    layers.forEach((layer, l) => {
      const name = document.createElement('div');
      name.className = 'layer';
      name.textContent = layer.name;
      heads.append(name);
      layer.heads.forEach((rows, h) => {
        const button = document.createElement('button');
        button.type = 'button';
        button.title = `${layer.name}, head ${h + 1}`;
        button.setAttribute('aria-label', button.title);
        const canvas = document.createElement('canvas');
        canvas.width = canvas.height = tokens.length;
        button.append(canvas);
        button.addEventListener('click', () => this.choose(l, h));
        buttons.push({ button, canvas, rows, l, h });
        heads.append(button);
      });
    });
    heads.addEventListener('keydown', event => {
      const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -count, ArrowDown: count }[event.key];
      const i = buttons.findIndex(one => one.button === document.activeElement);
      if (move === undefined || i < 0) return;
      event.preventDefault();
      const next = buttons[i + move];
      if (next) { next.button.focus(); this.choose(next.l, next.h); }
    });
    this.heads = buttons;
    this.map = box.querySelector('.map');
    this.said = box.querySelector('.readout');
    this.repaint = () => this.thumbnails();
    this.thumbnails();
    this.drawMap(tokens);
    this.choose(0, 0);
  }

  // How strong a cell is: the root, so that small weights are seen as well.
  static strength(weight) { return Math.sqrt(weight); }

  thumbnails() {
    const style = getComputedStyle(document.documentElement);
    const heat = style.getPropertyValue('--heat').trim();
    for (const { canvas, rows } of this.heads) {
      const pen = canvas.getContext('2d');
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.fillStyle = heat;
      rows.forEach((row, t) => row.forEach((weight, s) => {
        pen.globalAlpha = Report.strength(weight);
        pen.fillRect(s, t, 1, 1);
      }));
    }
  }

  drawMap(tokens) {
    const n = tokens.length, cell = 17;
    const names = Math.min(110, 14 + 7 * Math.max(...tokens.map(token => token.length)));
    const svg = this.map, size = n * cell;
    svg.setAttribute('viewBox', `0 0 ${names + size + 4} ${names + size + 4}`);
    this.cellOf = { names, cell };
    this.rects = [];
    this.labels = { row: [], column: [] };
    const short = token => (token.length > 14 ? token.slice(0, 13) + '…' : token);
    tokens.forEach((token, t) => {
      const middle = names + (t + 0.5) * cell;
      const row = make('text', { class: 'row', x: names - 6, y: middle + 4 }, short(token));
      const column = make('text', { transform: `translate(${middle + 4} ${names - 6}) rotate(-90)` }, short(token));
      svg.append(row, column);
      this.labels.row.push(row);
      this.labels.column.push(column);
      this.rects.push(tokens.map((_, s) => {
        const place = { x: names + s * cell, y: names + t * cell, width: cell - 1, height: cell - 1 };
        if (s > t && this.data.attention.causal) return null;
        svg.append(make('rect', { class: 'under', ...place }));
        const rect = make('rect', { ...place, 'data-t': t, 'data-s': s });
        svg.append(rect);
        return rect;
      }));
    });
    this.mark = make('rect', { class: 'at', width: cell, height: cell, visibility: 'hidden' });
    svg.append(this.mark);
    this.at = [n - 1, n - 1];
    svg.addEventListener('pointermove', event => {
      const { t, s } = event.target.dataset ?? {};
      if (t !== undefined) this.point(Number(t), Number(s));
    });
    svg.addEventListener('pointerdown', event => {
      const { t, s } = event.target.dataset ?? {};
      if (t !== undefined) this.point(Number(t), Number(s));
    });
    keys(svg, (down, across) => this.point(this.at[0] + down, this.at[1] + across));
  }

  choose(l, h) {
    this.chosen = [l, h];
    for (const one of this.heads) one.button.setAttribute('aria-pressed', String(one.l === l && one.h === h));
    const rows = this.data.attention.layers[l].heads[h];
    this.rects.forEach((row, t) => row.forEach((rect, s) => rect?.setAttribute('fill-opacity', Report.strength(rows[t][s] ?? 0).toFixed(3))));
    this.map.setAttribute('aria-label', `Attention of ${this.data.attention.layers[l].name}, head ${h + 1}; arrow keys move`);
    if (this.mark.getAttribute('visibility') === 'visible') this.point(...this.at);
    else this.said.textContent = `${this.data.attention.layers[l].name}, head ${h + 1}: point at a cell, or use the arrow keys`;
  }

  point(t, s) {
    const { tokens, layers, causal } = this.data.attention, n = tokens.length;
    t = Math.max(0, Math.min(n - 1, t));
    s = Math.max(0, Math.min(causal ? t : n - 1, s));
    this.at = [t, s];
    const { names, cell } = this.cellOf, [l, h] = this.chosen;
    this.mark.setAttribute('x', names + s * cell - 0.5);
    this.mark.setAttribute('y', names + t * cell - 0.5);
    this.mark.setAttribute('visibility', 'visible');
    this.labels.row.forEach((label, i) => label.classList.toggle('lit', i === t));
    this.labels.column.forEach((label, i) => label.classList.toggle('lit', i === s));
    const weight = layers[l].heads[h][t][s];
    this.said.textContent = `${layers[l].name}, head ${h + 1}: “${tokens[t]}” at ${t + 1} looks at “${tokens[s]}” at ${s + 1} with ${weight.toFixed(4)}`;
  }

  planes() {
    const data = this.data.embeddings;
    const own = document.querySelector('.own');
    const svgs = [...document.querySelectorAll('.plane')];
    // One scale for both directions, so that distances are distances; the cross is the middle of
    // all trained tokens.
    const frame = points => {
      const [xs, ys] = [0, 1].map(axis => [...points.map(point => point[axis]), 0]);
      const ends = [xs, ys].map(all => [Math.min(...all), Math.max(...all)]);
      const scale = 410 / Math.max(1e-9, ...ends.map(([low, high]) => high - low));
      const [x, y] = ends.map(([low, high]) => (low + high) / 2);
      return { x: at => 230 + (at - x) * scale, y: at => 230 - (at - y) * scale };
    };
    const lay = () => svgs.forEach(svg => {
      const points = data[svg.dataset.plane];
      const to = frame(own.checked ? points : [...data.before, ...data.after]);
      svg.querySelectorAll('text').forEach((label, i) => {
        label.setAttribute('x', to.x(points[i][0]).toFixed(1));
        label.setAttribute('y', to.y(points[i][1]).toFixed(1));
      });
      const [level, upright] = svg.querySelectorAll('.axis');
      for (const end of ['y1', 'y2']) level.setAttribute(end, to.y(0).toFixed(1));
      for (const end of ['x1', 'x2']) upright.setAttribute(end, to.x(0).toFixed(1));
    });
    own.addEventListener('change', lay);
    lay();
    const said = document.querySelector('#embeddings .readout');
    const light = i => svgs.forEach(svg => svg.querySelectorAll('text').forEach((label, j) => {
      label.classList.toggle('lit', j === i);
      label.classList.toggle('faded', i >= 0 && j !== i);
    }));
    svgs.forEach(svg => {
      svg.querySelectorAll('text').forEach((label, i) => label.addEventListener('pointerenter', () => {
        light(i);
        const place = data[svg.dataset.plane][i].map(digits).join(', ');
        const often = data.counts.length ? `, ${steps(data.counts[i])} times` : '';
        said.textContent = `“${data.labels[i]}”${often}: at ${place} ${svg.dataset.plane}`;
      }));
      svg.addEventListener('pointerleave', () => light(-1));
    });
  }
}

// The place in sorted numbers that is nearest to one.
function nearest(sorted, wanted) {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle; else high = middle;
  }
  return high < 0 ? -1 : Math.abs(sorted[high] - wanted) < Math.abs(sorted[low] - wanted) ? high : low;
}

function keys(svg, move) {
  svg.addEventListener('keydown', event => {
    const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!way) return;
    event.preventDefault();
    move(...way);
  });
}
