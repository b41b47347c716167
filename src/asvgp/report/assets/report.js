// The script of a report. uPlot draws the charts; this adds gestures, values under the pointer and colours.
const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const charts = [];
let domain = [0, 1]; // of the input, which all charts of a page share

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
const doubles = (text) => Array.from(new Float64Array(bytes(text)));
// Single precision above an offset; NaN stands for no value.
const singles = ({ offset, base64 }) => Array.from(new Float32Array(bytes(base64)), (v) => (isNaN(v) ? null : offset + v));
const plain = (value) => String(Number(value.toPrecision(6)));
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// Show an interval of the domain in all charts; `at` keeps its position where a limit is reached.
function show(start, stop, at = (start + stop) / 2) {
  const [lower, upper] = domain;
  const span = clamp(stop - start, (upper - lower) * 1e-7, upper - lower);
  const min = clamp(at - ((at - start) / (stop - start)) * span, lower, upper - span);
  for (const { plot } of charts) plot.setScale("x", { min, max: min + span });
}

// Multiply the width of what is shown, about a place, and move it by a share of that width.
function change(factor, share = 0, at = null) {
  const { min, max } = charts[0].plot.scales.x;
  const [fixed, shift] = [at ?? (min + max) / 2, share * (max - min)];
  show(fixed - (fixed - min) * factor + shift, fixed + (max - fixed) * factor + shift, fixed + shift);
}

function gestures(chart) {
  const over = chart.plot.over;
  const fingers = new Map(); // pointers that are down, by number
  const middle = (all) => (Math.min(...all) + Math.max(...all)) / 2;
  const spread = (all) => Math.max(Math.max(...all) - Math.min(...all), 1);
  const place = (x) => chart.plot.posToVal(x - over.getBoundingClientRect().left, "x");
  over.onwheel = (event) => {
    const { min, max } = chart.plot.scales.x;
    if (event.deltaY > 0 && max - min >= domain[1] - domain[0]) return; // let the page scroll
    event.preventDefault();
    change(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.002)), 0, place(event.clientX));
  };
  over.onpointerdown = (event) => {
    over.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event.clientX);
  };
  over.onpointerup = over.onpointercancel = (event) => fingers.delete(event.pointerId);
  over.onpointermove = (event) => {
    if (fingers.has(event.pointerId)) {
      const before = [...fingers.values()];
      const after = [...fingers.set(event.pointerId, event.clientX).values()];
      const { min, max } = chart.plot.scales.x;
      const factor = spread(before) / spread(after);
      const start = place(middle(before)) - (place(middle(after)) - min) * factor;
      show(start, start + (max - min) * factor);
    }
    read(chart, place(event.clientX));
  };
  over.ondblclick = () => show(...domain);
}

// Write the posterior at a place beneath the chart, between the two points of the page that are next to it.
function read({ curve: [xs, ...curve], date, figure }, x) {
  const stop = clamp(xs.findIndex((other) => other >= x), 1, xs.length - 1);
  const share = clamp((x - xs[stop - 1]) / (xs[stop] - xs[stop - 1]), 0, 1);
  const [mean, low, high] = curve.map((v) => plain(v[stop - 1] + share * (v[stop] - v[stop - 1])));
  const place = date ? uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}")(date(x)) : plain(x);
  figure.querySelector("output").textContent = `${place}: mean ${mean}, 95 % band ${low} to ${high}`;
}

// Observations, and the mean with the band of f or that of new observations.
function table(chart) {
  const { data, figure } = chart;
  const [x, mean, low, high] = [doubles(data.x), singles(data.mean), singles(data.low), singles(data.high)];
  const noise = figure.querySelector("input.noisy")?.checked ? 1.959963984540054 * Math.sqrt(data.noise) : 0;
  for (let i = 0; noise && i < x.length; i++) {
    const [centre, half] = [(low[i] + high[i]) / 2, Math.hypot((high[i] - low[i]) / 2, noise)];
    [low[i], high[i]] = [centre - half, centre + half];
  }
  chart.curve = [x, mean, low, high];
  chart.seen = data.seen ? [doubles(data.seen.x), ...data.seen.y.map(singles)] : null;
  return chart.seen ? uPlot.join([chart.seen, chart.curve]) : chart.curve;
}

// The range of the observations in every column, beneath the curve.
function ranges({ ctx, bbox, scales, valToPos }, [x, low, high]) {
  const edge = (value) => clamp(valToPos(value, "x", true), bbox.left, bbox.left + bbox.width);
  ctx.save();
  ctx.fillStyle = colour("range");
  for (let i = 0; i + 1 < x.length; i++) {
    if (low[i] === null || x[i + 1] < scales.x.min || x[i] > scales.x.max) continue;
    const [left, top] = [edge(x[i]), valToPos(high[i], "y", true)];
    ctx.fillRect(left, top - 0.5, Math.max(edge(x[i + 1]) - left, 1), valToPos(low[i], "y", true) - top + 1);
  }
  ctx.restore();
}

const TIMES = [ // distance of ticks in seconds, format, and a second line where a year or a day begins
  [31536000, "{YYYY}"],
  [2419200, "{MMM}", "\n{YYYY}"],
  [86400, "{D} {MMM}", "\n{YYYY}"],
  [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", "\n{D} {MMM}"],
  [1, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", "\n{D} {MMM}"],
  [0.001, "{HH}:{mm}:{ss}.{fff}", "\n{D} {MMM} {YYYY}", "\n{D} {MMM}"],
].map(([distance, format, year = null, day = null]) => [distance, format, year, null, day, null, null, null, 1]);

function draw(figure) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const host = figure.querySelector(".plot");
  const chart = { figure, data };
  if (data.zone) chart.date = (x) => uPlot.tzDate(new Date(x * 1e3), data.zone);
  const points = table(chart);
  const line = { stroke: () => colour("model"), width: 1.5, points: { show: false } };
  const hidden = { paths: () => null, points: { show: false } };
  const dots = { ...hidden, points: { show: true, size: 3.5, width: 0, fill: () => colour("dots") } };
  const seen = !chart.seen ? [] : chart.seen.length > 2 ? [hidden, hidden] : [dots];
  const [font, rule] = ["12px system-ui, sans-serif", { stroke: () => colour("grid"), width: 1 }];
  const look = { stroke: () => colour("soft"), grid: rule, ticks: rule, font, labelFont: font, labelSize: 20 };
  const numbers = (_, ticks) => ticks.map((tick) => (tick === null ? "" : plain(tick)));
  const room = (_, ticks) => 24 + 7 * Math.max(3, ...(ticks ?? []).map((tick) => tick.length));
  const size = () => ({ width: host.clientWidth, height: host.clientHeight });
  chart.plot = new uPlot({
    ...size(),
    tzDate: chart.date,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, bind: { dblclick: () => null } },
    scales: { x: { time: Boolean(data.zone) } },
    axes: [
      { ...look, label: data.label, space: 70, values: data.zone ? TIMES : numbers },
      { ...look, label: data.target, values: numbers, size: room },
    ],
    series: [{}, ...seen, line, { ...line, width: 0 }, { ...line, width: 0 }],
    bands: [{ series: [seen.length + 3, seen.length + 2], fill: () => colour("band") }],
    hooks: { drawAxes: seen.length > 1 ? [(plot) => ranges(plot, chart.seen)] : [] },
  }, points, host);
  charts.push(chart);
  domain = [chart.curve[0][0], chart.curve[0].at(-1)];
  gestures(chart);
  new ResizeObserver(() => chart.plot.setSize(size())).observe(host);
  figure.onchange = () => { // the only thing to change is the kind of band
    chart.plot.setData(table(chart), false);
    change(1);
  };
  const keys = { "+": [0.7], "-": [1 / 0.7], ArrowLeft: [1, -0.1], ArrowRight: [1, 0.1], 0: [1e9] };
  for (const button of figure.querySelectorAll("button")) button.onclick = () => change(...keys[button.dataset.key]);
  host.onkeydown = (event) => keys[event.key] && change(...keys[event.key]);
}

document.querySelectorAll("figure.chart").forEach(draw);

for (const block of document.querySelectorAll("div.code")) {
  const [button, code] = [block.querySelector("button"), block.querySelector("code")];
  button.hidden = false;
  button.onclick = () => {
    getSelection().selectAllChildren(code);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  };
}

const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
function paint(theme) {
  if (theme) root.dataset.theme = theme;
  button.textContent = dark() ? "Light" : "Dark";
  for (const { plot } of charts) plot.redraw(false);
}
button.hidden = false;
button.onclick = () => paint(dark() ? "light" : "dark");
system.onchange = () => paint();
window.onbeforeprint = () => paint("light"); // paper is white
paint();
