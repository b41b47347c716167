// A posterior over two inputs: images of its mean, its standard deviation and the observations.

const MISSING = 65535;
const PALETTES = {
  viridis: ["440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725"],
  magma: ["000004", "1c1044", "4f127b", "812581", "b5367a", "e55064", "fb8761", "fec287", "fcfdbf"],
};

function ramp(name, share) {
  const anchors = PALETTES[name];
  const t = clamp(share, 0, 1) * (anchors.length - 1);
  const i = Math.min(Math.floor(t), anchors.length - 2);
  const channel = (text, c) => parseInt(text.slice(2 * c, 2 * c + 2), 16);
  return [0, 1, 2].map((c) =>
    Math.round(channel(anchors[i], c) * (i + 1 - t) + channel(anchors[i + 1], c) * (t - i)));
}

class Layer {
  constructor(data) {
    Object.assign(this, data);
    this.steps = unpack(data.values, Uint16Array);
    const image = new ImageData(data.columns, data.rows);
    const [low, high] = data.limits;
    for (let i = 0; i < this.steps.length; i++) {
      if (this.steps[i] === MISSING) continue;
      const share = (this.value(i) - low) / (high - low || 1);
      const row = data.rows - 1 - Math.floor(i / data.columns); // the first row is the lowest
      image.data.set([...ramp(data.palette, share), 255], 4 * (row * data.columns + (i % data.columns)));
    }
    this.picture = document.createElement("canvas");
    Object.assign(this.picture, { width: data.columns, height: data.rows });
    this.picture.getContext("2d").putImageData(image, 0, 0);
  }

  value(i) {
    if (this.steps[i] === MISSING) return null;
    return this.low + (this.steps[i] / (MISSING - 1)) * (this.high - this.low);
  }

  at(x, y) {
    const column = clamp(Math.floor(x * this.columns), 0, this.columns - 1);
    const row = clamp(Math.floor(y * this.rows), 0, this.rows - 1);
    return this.value(row * this.columns + column);
  }
}

// Panels of one figure share what is visible, and the pointer.
class MapFigure {
  constructor(figure, data) {
    Object.assign(this, { figure, data, pointer: null });
    this.readout = figure.querySelector("output");
    this.scales = data.axes.map((axis) => new Scale(axis));
    this.ends = data.axes.map((axis) => [axis.lower, axis.upper]);
    this.visible = data.axes.map((axis) => new Visible(axis.lower, axis.upper, (axis.upper - axis.lower) / 50));
    this.sheets = [...figure.querySelectorAll("canvas")].map((canvas, i) => {
      const layer = new Layer(data.layers[i]);
      const sheet = new Sheet(canvas, (pen, w, h) => this.paint(pen, w, h, canvas, layer));
      listen(canvas, this.visible, (x, y) => this.inside(canvas, x, y), (at) => this.hover(at));
      return Object.assign(sheet, { layer });
    });
    for (const one of this.visible) one.listeners.push(() => this.later());
    this.tell();
  }

  later() { for (const sheet of this.sheets) sheet.later(); }

  plot(width, height) {
    return { x: EDGE.left, y: 8, w: width - EDGE.left - 68, h: height - 8 - EDGE.bottom };
  }

  inside(canvas, x, y) {
    const plot = this.plot(canvas.clientWidth, canvas.clientHeight);
    return [(x - plot.x) / plot.w, 1 - (y - plot.y) / plot.h];
  }

  hover(at) {
    this.pointer = at && at.every((share) => share >= 0 && share <= 1) ? at : null;
    this.tell();
    this.later();
  }

  tell() {
    const at = this.pointer ?? [0.5, 0.5];
    const places = this.visible.map((one, i) => one.start + at[i] * one.span);
    const shares = places.map((place, i) => (place - this.ends[i][0]) / (this.ends[i][1] - this.ends[i][0]));
    const where = this.scales.map((scale, i) => `${scale.label} ${scale.text(places[i], this.visible[i].span / 300)}`);
    const values = this.sheets.map(({ layer }) => {
      const value = layer.at(...shares);
      const digit = 10 ** Math.floor(Math.log10((layer.limits[1] - layer.limits[0]) / 500 || 1));
      return `${layer.name} ${value === null ? "none" : decimals(value, digit)}`;
    });
    this.readout.textContent = `${this.pointer ? "" : "in the middle, "}${where.join(", ")}: ${values.join("; ")}`;
    this.figure.dataset.values = JSON.stringify(this.sheets.map(({ layer }) => layer.at(...shares)));
    this.figure.dataset.place = JSON.stringify(places);
  }

  paint(pen, width, height, canvas, layer) {
    const ink = colours(canvas);
    const plot = this.plot(width, height);
    const [x, y] = this.visible;
    pen.fillStyle = ink("hole");
    pen.fillRect(plot.x, plot.y, plot.w, plot.h);
    pen.save();
    pen.beginPath();
    pen.rect(plot.x, plot.y, plot.w, plot.h);
    pen.clip();
    pen.imageSmoothingEnabled = layer.smooth;
    const [w, h] = [plot.w * ((x.upper - x.lower) / x.span), plot.h * ((y.upper - y.lower) / y.span)];
    const left = plot.x - ((x.start - x.lower) / x.span) * plot.w;
    const top = plot.y - ((y.upper - y.stop) / y.span) * plot.h;
    pen.drawImage(layer.picture, left, top, w, h);
    if (this.pointer) {
      pen.strokeStyle = "#fff";
      pen.globalCompositeOperation = "difference";
      pen.strokeRect(plot.x + this.pointer[0] * plot.w - 5, plot.y + (1 - this.pointer[1]) * plot.h - 5, 10, 10);
    }
    pen.restore();
    this.drawSides(pen, plot, ink);
    this.drawBar(pen, plot, ink, layer);
    Object.assign(canvas.dataset, { from: x.start, to: x.stop });
  }

  drawSides(pen, plot, ink) {
    const [x, y] = this.visible;
    pen.fillStyle = ink("soft");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    let free = -Infinity;
    for (const tick of this.scales[0].ticks(x.start, x.stop, plot.w / 60)) {
      const at = plot.x + ((tick.at - x.start) / x.span) * plot.w;
      const half = pen.measureText(tick.text).width / 2;
      if (at - half < free || at > plot.x + plot.w) continue;
      free = at + half + 8;
      pen.fillText(tick.text, at, plot.y + plot.h + 6);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const tick of this.scales[1].ticks(y.start, y.stop, plot.h / 45)) {
      const at = plot.y + plot.h - ((tick.at - y.start) / y.span) * plot.h;
      if (at >= plot.y - 1 && at <= plot.y + plot.h + 1) pen.fillText(tick.text, plot.x - 6, at);
    }
    pen.fillStyle = ink("ink");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    pen.fillText(this.scales[0].label, plot.x + plot.w / 2, plot.y + plot.h + 23);
    pen.save();
    pen.translate(11, plot.y + plot.h / 2);
    pen.rotate(-Math.PI / 2);
    pen.textBaseline = "middle";
    pen.fillText(this.scales[1].label, 0, 0, plot.h);
    pen.restore();
  }

  drawBar(pen, plot, ink, layer) {
    const [low, high] = layer.limits;
    const x = plot.x + plot.w + 10;
    for (let i = 0; i < plot.h; i++) {
      pen.fillStyle = `rgb(${ramp(layer.palette, 1 - i / plot.h).join()})`;
      pen.fillRect(x, plot.y + i, 12, 1.5);
    }
    pen.fillStyle = ink("soft");
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    for (const tick of numberTicks(low, high, plot.h / 45)) {
      if (tick.at < low || tick.at > high) continue;
      pen.fillText(tick.text, x + 16, plot.y + plot.h * (1 - (tick.at - low) / (high - low || 1)), 46);
    }
  }
}
