// Wheel, drag, pinch, keys and double-click, as changes of an interval.

// What is visible of a domain. Panels that share one move together.
class Visible {
  constructor(lower, upper, least) {
    Object.assign(this, { lower, upper, least, start: lower, stop: upper, listeners: [] });
  }

  get span() { return this.stop - this.start; }

  get whole() { return this.start <= this.lower && this.stop >= this.upper; }

  set(start, stop) {
    const span = clamp(stop - start, this.least, this.upper - this.lower);
    const middle = (start + stop) / 2;
    this.start = clamp(middle - span / 2, this.lower, this.upper - span);
    this.stop = this.start + span;
    for (const listener of this.listeners) listener();
  }

  // Zoom by a factor about a place given as a share of what is visible.
  zoom(factor, share = 0.5) {
    const at = this.start + share * this.span;
    const span = clamp(this.span * factor, this.least, this.upper - this.lower);
    this.set(at - share * span, at + (1 - share) * span);
  }

  pan(share) {
    const shift = share * this.span;
    this.set(this.start + shift, this.stop + shift);
  }

  reset() { this.set(this.lower, this.upper); }
}

// `along` are the intervals that gestures change: of curves x alone, of maps x and y.
// `inside` tells where on a canvas a pointer is, as shares of the plot.
function listen(canvas, along, inside, hover) {
  const pointers = new Map();
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return inside(event.clientX - box.left, event.clientY - box.top);
  };
  const zoom = (factor, at) => along.forEach((one, i) => one.zoom(factor, clamp(at[i], 0, 1)));

  canvas.addEventListener("wheel", (event) => {
    const factor = Math.exp(clamp(event.deltaY, -400, 400) * (event.deltaMode ? 0.05 : 0.002));
    if (factor > 1 && along.every((one) => one.whole)) return; // let the page scroll
    event.preventDefault();
    zoom(factor, place(event));
  }, { passive: false });

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = pointers.get(event.pointerId);
    hover(now);
    if (!before) return;
    if (pointers.size === 1) {
      along.forEach((one, i) => one.pan(before[i] - now[i]));
    } else {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const distance = (a, b) => Math.hypot(...along.map((_, i) => a[i] - b[i])) + 1e-3;
      zoom(distance(before, other) / distance(now, other), other);
    }
    pointers.set(event.pointerId, now);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("dblclick", () => along.forEach((one) => one.reset()));
  canvas.addEventListener("keydown", (event) => {
    const [x, y] = along;
    const act = {
      ArrowLeft: () => x.pan(-0.1),
      ArrowRight: () => x.pan(0.1),
      ArrowUp: y && (() => y.pan(0.1)),
      ArrowDown: y && (() => y.pan(-0.1)),
      "+": () => zoom(0.7, [0.5, 0.5]),
      "=": () => zoom(0.7, [0.5, 0.5]),
      "-": () => zoom(1 / 0.7, [0.5, 0.5]),
      0: () => along.forEach((one) => one.reset()),
      Home: () => along.forEach((one) => one.reset()),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
}

// A canvas as sharp as the screen, drawn at most once a frame.
class Sheet {
  constructor(canvas, paint) {
    Object.assign(this, { canvas, paint, waiting: false });
    new ResizeObserver(() => this.later()).observe(canvas);
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => this.now());
  }

  now() {
    this.waiting = false;
    const { canvas } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    this.paint(pen, width, height);
  }
}

function colours(element) {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}
