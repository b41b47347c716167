// A posterior along one input: mean, band and observations, evaluated for what is visible.

const Z95 = 1.959963984540054;
const DOTS = 4; // observations a column of pixels up to which each is a dot

// Polynomials on cells, by their values at Chebyshev's points.
class Pieces {
  constructor(values, degree) {
    Object.assign(this, { values, degree });
    this.nodes = Array.from({ length: degree + 1 }, (_, j) => 0.5 - 0.5 * Math.cos((Math.PI * j) / degree));
    this.weights = this.nodes.map((_, j) => (j % 2 ? -1 : 1) * (j === 0 || j === degree ? 0.5 : 1));
  }

  // At s in [0, 1] of a cell, by the barycentric formula.
  at(cell, s) {
    const first = cell * this.degree;
    let above = 0, below = 0;
    for (let j = 0; j <= this.degree; j++) {
      const distance = s - this.nodes[j];
      if (distance === 0) return this.values[first + j];
      const share = this.weights[j] / distance;
      above += share * this.values[first + j];
      below += share;
    }
    return above / below;
  }
}

class Curve {
  constructor(data) {
    Object.assign(this, data);
    this.exact = data.degree !== undefined;
    if (this.exact) {
      this.mean = new Pieces(unpack(data.mean, Float32Array), data.degree);
      this.variance = new Pieces(unpack(data.variance, Float32Array), 2 * data.degree);
      this.count = this.mean.values.length;
    } else {
      for (const name of ["low", "high", "spread"]) this[name] = unpack(data[name], Float32Array);
      this.count = this.low.length;
    }
  }

  // Width of what is known: a node, or several cells together.
  get width() {
    const cell = (this.upper - this.lower) / this.cells;
    return this.exact ? cell / this.degree : cell * this.together;
  }

  // Mean and standard deviation at a place.
  at(x) {
    const t = clamp(((x - this.lower) / (this.upper - this.lower)) * this.cells, 0, this.cells);
    if (this.exact) {
      const cell = Math.min(Math.floor(t), this.cells - 1);
      const mean = this.mean.at(cell, t - cell);
      const std = Math.sqrt(Math.max(this.variance.at(cell, t - cell), 0));
      return [this.offset + this.scale * mean, this.scale * std];
    }
    const i = Math.min(Math.floor(t / this.together), this.count - 1);
    const middle = (this.low[i] + this.high[i]) / 2;
    return [this.offset + this.scale * middle, this.scale * this.spread[i]];
  }

  // Range of the mean and of the band over an interval, from all that is known there.
  range(from, to, reach) {
    const perNode = 1 / this.width;
    const first = clamp(Math.floor((from - this.lower) * perNode), 0, this.count - 1);
    const last = clamp(Math.ceil((to - this.lower) * perNode), first, this.count - 1);
    let low = Infinity, high = -Infinity, bottom = Infinity, top = -Infinity;
    for (let i = first; i <= last; i++) {
      const [a, b, std] = this.exact
        ? [this.mean.values[i], this.mean.values[i], Math.sqrt(Math.max(this.variance.values[2 * i], 0))]
        : [this.low[i], this.high[i], this.spread[i]];
      const half = reach(this.scale * std) / this.scale;
      if (a < low) low = a;
      if (b > high) high = b;
      if (a - half < bottom) bottom = a - half;
      if (b + half > top) top = b + half;
    }
    return [low, high, bottom, top].map((value) => this.offset + this.scale * value);
  }

  // For every column of pixels its place, mean (twice, where it has a range) and band.
  trace(start, stop, columns, noise) {
    const reach = (std) => Z95 * Math.sqrt(std * std + noise);
    const step = (stop - start) / columns;
    const coarse = !this.exact || step > this.width;
    const out = { coarse, x: [], low: [], high: [], bottom: [], top: [] };
    for (let i = 0; i < columns + !coarse; i++) {
      const x = start + (coarse ? i + 0.5 : i) * step;
      let parts;
      if (coarse) {
        parts = this.range(x - step / 2, x + step / 2, reach);
      } else {
        const [mean, std] = this.at(x);
        parts = [mean, mean, mean - reach(std), mean + reach(std)];
      }
      out.x.push(x);
      ["low", "high", "bottom", "top"].forEach((name, j) => out[name].push(parts[j]));
    }
    return out;
  }
}

class Cloud {
  constructor(data) {
    Object.assign(this, data);
    this.dots = data.x !== undefined;
    if (this.dots) {
      this.x = unpack(data.x, Float64Array);
      this.y = unpack(data.y, Float32Array);
    } else {
      for (const name of ["seen", "number"]) this[name] = unpack(data[name], Uint32Array);
      for (const name of ["low", "high", "mean"]) this[name] = unpack(data[name], Float32Array);
    }
  }

  value(v) { return this.offset + this.scale * v; }

  // Dots where there are few, else the range and the mean of every column of pixels.
  trace(start, stop, columns, lower, upper) {
    const width = this.dots ? 0 : (upper - lower) / this.columns; // of what is known together
    const [first, last] = this.dots
      ? [search(this.x, start), search(this.x, stop + 1e-12 * (upper - lower))]
      : [search(this.seen, Math.floor((start - lower) / width)), search(this.seen, Math.ceil((stop - lower) / width))];
    const step = (stop - start) / columns;
    if (this.dots && last - first <= DOTS * columns) {
      const dots = [];
      for (let i = first; i < last; i++) dots.push([this.x[i], this.value(this.y[i])]);
      return { dots, bars: [], number: last - first, width: 0 };
    }
    const bars = [];
    let bar = null, number = 0;
    for (let i = first; i < last; i++) {
      const x = this.dots ? this.x[i] : lower + this.seen[i] * width;
      const [low, high, mean, weight] = this.dots
        ? [this.y[i], this.y[i], this.y[i], 1]
        : [this.low[i], this.high[i], this.mean[i], this.number[i]];
      const column = Math.floor((x - start) / Math.max(step, width));
      if (!bar || bar.column !== column) {
        bar = { column, x, low, high, sum: 0, weight: 0 };
        bars.push(bar);
      }
      bar.low = Math.min(bar.low, low);
      bar.high = Math.max(bar.high, high);
      bar.sum += weight * mean;
      bar.weight += weight;
      number += weight;
    }
    const wide = Math.max(step, width);
    return {
      dots: [],
      bars: bars.map((one) => ({
        x: width > step ? one.x : start + one.column * step,
        low: this.value(one.low),
        high: this.value(one.high),
        mean: this.value(one.sum / one.weight),
      })),
      number,
      width: wide,
    };
  }
}

// The first index whose value is not below `x`.
function search(values, x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

const EDGE = { left: 62, right: 14, top: 12, bottom: 40 };

class CurvePanel {
  constructor(figure, data, visible) {
    Object.assign(this, { figure, visible, label: data.target, noise: data.noise, pointer: null });
    this.curve = new Curve(data.curve);
    this.cloud = data.data ? new Cloud(data.data) : null;
    this.scale = new Scale(data.axis);
    this.canvas = figure.querySelector("canvas");
    this.readout = figure.querySelector("output");
    this.key = figure.querySelector(".key");
    this.noisy = figure.querySelector("input.noisy");
    this.sheet = new Sheet(this.canvas, (pen, width, height) => this.paint(pen, width, height));
    visible.listeners.push(() => this.sheet.later());
    listen(this.canvas, [visible], (x, y) => this.inside(x, y), (at) => this.hover(at));
    this.noisy?.addEventListener("change", () => this.sheet.later());
    for (const button of figure.querySelectorAll("button[data-act]")) {
      const act = { in: () => visible.zoom(0.5), out: () => visible.zoom(2), all: () => visible.reset() };
      button.addEventListener("click", act[button.dataset.act]);
    }
  }

  inside(x, y) {
    const width = this.canvas.clientWidth - EDGE.left - EDGE.right;
    return [(x - EDGE.left) / width, y / this.canvas.clientHeight];
  }

  hover(at) {
    const share = at && at[0] >= 0 && at[0] <= 1 ? at[0] : null;
    this.pointer = share;
    this.sheet.later();
  }

  paint(pen, width, height) {
    const ink = colours(this.canvas);
    const { start, stop, span } = this.visible;
    const plot = { x: EDGE.left, y: EDGE.top, w: width - EDGE.left - EDGE.right, h: height - EDGE.top - EDGE.bottom };
    const columns = Math.max(Math.round(plot.w), 10);
    const extra = this.noisy?.checked ? this.noise : 0;
    const line = this.curve.trace(start, stop, columns, extra);
    const cloud = this.cloud?.trace(start, stop, columns, this.curve.lower, this.curve.upper);
    const [low, high] = this.limits(line, cloud);
    const across = (x) => plot.x + ((x - start) / span) * plot.w;
    const up = (y) => plot.y + plot.h - ((y - low) / (high - low)) * plot.h;

    drawFrame(pen, plot, ink, this.scale, [start, stop], [low, high], this.label);
    pen.save();
    pen.beginPath();
    pen.rect(plot.x, plot.y, plot.w, plot.h);
    pen.clip();
    if (cloud) this.drawCloud(pen, cloud, across, up, ink);
    this.drawCurve(pen, line, across, up, ink);
    pen.restore();
    this.tell(pen, plot, across, up, ink, line, cloud, span / columns);
  }

  limits(line, cloud) {
    let low = Infinity, high = -Infinity;
    for (const value of line.bottom) if (value < low) low = value;
    for (const value of line.top) if (value > high) high = value;
    for (const [, value] of cloud?.dots ?? []) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    for (const bar of cloud?.bars ?? []) {
      low = Math.min(low, bar.low);
      high = Math.max(high, bar.high);
    }
    const room = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
    return [low - room, high + room];
  }

  drawCurve(pen, line, across, up, ink) {
    const xs = line.x.map(across);
    pen.beginPath();
    xs.forEach((x, i) => pen.lineTo(x, up(line.top[i])));
    for (let i = xs.length - 1; i >= 0; i--) pen.lineTo(xs[i], up(line.bottom[i]));
    pen.closePath();
    pen.fillStyle = ink("band");
    pen.fill();
    pen.beginPath();
    xs.forEach((x, i) => {
      pen.lineTo(x, up(line.low[i]));
      if (line.high[i] !== line.low[i]) pen.lineTo(x, up(line.high[i]));
    });
    pen.strokeStyle = ink("model");
    pen.lineWidth = 1.5;
    pen.lineJoin = "round";
    pen.stroke();
  }

  drawCloud(pen, cloud, across, up, ink) {
    const wide = Math.max(across(this.visible.start + cloud.width) - across(this.visible.start), 1);
    pen.fillStyle = ink("range");
    for (const bar of cloud.bars) {
      const top = up(bar.high);
      pen.fillRect(across(bar.x), top, wide, Math.max(up(bar.low) - top, 1));
    }
    pen.fillStyle = ink("dots");
    for (const bar of cloud.bars) pen.fillRect(across(bar.x), up(bar.mean) - 1, wide, 2);
    const size = cloud.dots.length > 600 ? 1.3 : 2;
    for (const [x, y] of cloud.dots) {
      pen.beginPath();
      pen.arc(across(x), up(y), size, 0, 7);
      pen.fill();
    }
  }

  // The read-out, at the pointer or in the middle, and what the marks mean.
  tell(pen, plot, across, up, ink, line, cloud, step) {
    const { start, stop, span } = this.visible;
    const x = start + (this.pointer ?? 0.5) * span;
    const [mean, std] = this.curve.at(x);
    if (this.pointer !== null) {
      pen.strokeStyle = ink("faint");
      pen.beginPath();
      pen.moveTo(across(x), plot.y);
      pen.lineTo(across(x), plot.y + plot.h);
      pen.stroke();
      pen.fillStyle = ink("model");
      pen.beginPath();
      pen.arc(across(x), up(mean), 3.5, 0, 7);
      pen.fill();
    }
    const reach = Z95 * Math.sqrt(std ** 2 + (this.noisy?.checked ? this.noise : 0));
    const digit = 10 ** Math.floor(Math.log10(Math.max(reach, 1e-300)) - 1);
    const text = (value) => decimals(value, digit);
    const where = this.pointer === null ? "in the middle, " : "";
    this.readout.textContent =
      `${where}${this.scale.text(x, step)}: ${text(mean)} ± ${text(reach)}`;
    const data = this.canvas.dataset;
    Object.assign(data, { from: start, to: stop, x, mean, std, detail: line.coarse ? "columns" : "curve" });
    if (cloud) data.shown = cloud.dots.length ? "dots" : "ranges";
    this.key.textContent = this.meaning(line, cloud, step);
  }

  meaning(line, cloud, step) {
    const parts = [];
    if (line.coarse) {
      parts.push(this.curve.exact
        ? "Line: range of the mean in every column of pixels; zoom in for the curve itself."
        : `Line: range of the mean over ${this.curve.together} cells together, all that this page carries.`);
    } else {
      parts.push(this.curve.near
        ? "Line: the posterior mean, to within 0.01 standard deviations."
        : "Line: the posterior mean itself, evaluated here.");
    }
    if (cloud) {
      const number = cloud.number.toLocaleString("en-GB");
      parts.push(cloud.bars.length
        ? `Grey: range and mean of ${number} ${this.cloud.what} here.`
        : `Dots: ${number} ${this.cloud.what} here.`);
    }
    return parts.join(" ");
  }
}

function drawFrame(pen, plot, ink, scale, [start, stop], [low, high], label) {
  const across = (x) => plot.x + ((x - start) / (stop - start)) * plot.w;
  const up = (y) => plot.y + plot.h - ((y - low) / (high - low)) * plot.h;
  pen.lineWidth = 1;
  pen.strokeStyle = ink("grid");
  pen.fillStyle = ink("soft");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  let levels = numberTicks(low, high, plot.h / 45);
  const widest = (ticks) => Math.max(...ticks.map((tick) => pen.measureText(tick.text).width), 0);
  if (levels.length > 1 && widest(levels) > EDGE.left - 28) { // or they would meet the label
    const powers = inPowers(levels, levels[1].at - levels[0].at);
    if (widest(powers) < widest(levels)) levels = powers;
  }
  for (const tick of levels) {
    if (tick.at < low || tick.at > high) continue;
    pen.beginPath();
    pen.moveTo(plot.x, up(tick.at));
    pen.lineTo(plot.x + plot.w, up(tick.at));
    pen.stroke();
    pen.fillText(tick.text, plot.x - 6, up(tick.at));
  }
  pen.textBaseline = "top";
  pen.textAlign = "center";
  let free = -Infinity;
  for (const tick of scale.ticks(start, stop, plot.w / 90)) {
    const x = across(tick.at);
    pen.beginPath();
    pen.moveTo(x, plot.y);
    pen.lineTo(x, plot.y + plot.h);
    pen.stroke();
    const half = pen.measureText(tick.text).width / 2;
    if (x - half < free || x + half > plot.x + plot.w + EDGE.right) continue;
    free = x + half + 8;
    pen.fillText(tick.text, x, plot.y + plot.h + 6);
  }
  pen.fillStyle = ink("ink");
  pen.fillText(scale.label, plot.x + plot.w / 2, plot.y + plot.h + 23);
  pen.save();
  pen.translate(8, plot.y + plot.h / 2);
  pen.rotate(-Math.PI / 2);
  pen.textBaseline = "middle";
  pen.fillText(label, 0, 0, plot.h);
  pen.restore();
}
