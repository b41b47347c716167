// Ticks and labels of numbers and of times, and numbers packed into the page.

function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

// Minus signs, and no digits beyond the step.
function decimals(value, step) {
  const size = Math.max(Math.abs(value), step);
  if (size >= 1e7 || size < 1e-4) {
    const digits = clamp(Math.ceil(Math.log10(size / step)), 0, 8);
    return value === 0 ? "0" : value.toExponential(digits).replaceAll("-", "−");
  }
  const digits = clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 12);
  const text = Math.abs(value).toFixed(digits);
  const [whole, rest] = text.split(".");
  const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
  return (value < 0 && Number(text) !== 0 ? "−" : "") + grouped + (rest ? "." + rest : "");
}

function niceStep(span, count) {
  const raw = span / Math.max(count, 1);
  const unit = 10 ** Math.floor(Math.log10(raw));
  return unit * ([1, 2, 5, 10].find((times) => times * unit >= raw * 0.999) ?? 10);
}

function numberTicks(low, high, count) {
  const step = niceStep(high - low, count);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
    ticks.push({ at: i * step, text: decimals(i * step, step) });
  }
  return ticks;
}

// The same numbers with powers of ten: shorter where all are small.
function inPowers(ticks, step) {
  return ticks.map(({ at }) => {
    const digits = clamp(Math.round(Math.log10(Math.max(Math.abs(at), step) / step) - 0.3), 0, 8);
    const text = Math.abs(at) < 0.5 * step ? "0" : Number(at.toExponential(digits)).toExponential();
    return { at, text: text.replaceAll("-", "−").replace("+", "") };
  });
}

// ---------------------------------------------------------------- times

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const SECOND = 1e3, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14].map((n) => n * DAY),
];
const MONTH_STEPS = [1, 2, 3, 6, 12];

// Times are milliseconds since 1970 in UTC; a clock turns them into what clocks on walls show.
class Clock {
  constructor(time) {
    this.origin = time.origin;
    this.format = null;
    if (time.zone) {
      const parts = { year: "numeric", month: "numeric", day: "numeric" };
      Object.assign(parts, { hour: "numeric", minute: "numeric", second: "numeric" });
      try {
        const options = { timeZone: time.zone, hourCycle: "h23", ...parts };
        this.format = new Intl.DateTimeFormat("en-GB", options);
      } catch {
        this.format = null; // a zone that this browser does not know: UTC
      }
    }
  }

  offset(instant) {
    if (!this.format) return 0;
    const whole = Math.floor(instant / 1000) * 1000;
    const part = {};
    for (const { type, value } of this.format.formatToParts(whole)) part[type] = Number(value);
    const { year, month, day, hour, minute, second } = part;
    return Date.UTC(year, month - 1, day, hour, minute, second) - whole;
  }

  local(x) {
    const instant = this.origin + 1000 * x;
    return instant + this.offset(instant);
  }

  // Seconds since the origin, of a time on the wall.
  place(local) {
    const guess = local - this.offset(local);
    return (local - this.offset(guess) - this.origin) / 1000;
  }

  text(x, step) {
    const local = this.local(x);
    const date = new Date(Math.floor(local + 1e-4));
    const iso = date.toISOString();
    if (step >= DAY / 1000) return iso.slice(0, 10);
    if (step >= MINUTE / 1000) return `${iso.slice(0, 10)} ${iso.slice(11, 16)}`;
    if (step >= 1) return `${iso.slice(0, 10)} ${iso.slice(11, 19)}`;
    const seconds = (((local % MINUTE) + MINUTE) % MINUTE) / 1000;
    const digits = clamp(Math.ceil(-Math.log10(step)), 1, 6);
    const rest = seconds.toFixed(digits).padStart(digits + 3, "0");
    return `${iso.slice(0, 10)} ${iso.slice(11, 17)}${rest}`;
  }

  ticks(low, high, count) {
    const raw = (1000 * (high - low)) / Math.max(count, 1);
    const from = this.local(low), to = this.local(high);
    const found = [];
    if (raw < SECOND) {
      const step = 1000 * niceStep(high - low, count);
      const base = Math.floor(from / MINUTE) * MINUTE;
      for (let i = Math.ceil((from - base) / step - 1e-9); base + i * step <= to; i++) {
        const local = base + i * step;
        found.push([local, this.text(this.place(local), step / 1000).slice(11)]);
      }
    } else if (raw <= 20 * DAY) {
      const step = STEPS.find((size) => size >= raw) ?? 14 * DAY;
      const shift = step >= 7 * DAY ? 4 * DAY : 0; // weeks begin on Mondays
      for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) {
        found.push([at, clockLabel(new Date(at), step)]);
      }
    } else {
      const months = raw / (30.4 * DAY);
      const step = MONTH_STEPS.find((size) => size >= months) ?? 12 * niceStep(months, 12);
      const first = new Date(from);
      let month = first.getUTCFullYear() * 12 + first.getUTCMonth();
      for (month = Math.ceil(month / step) * step; ; month += step) {
        const at = Date.UTC(2000, month - 24000, 1);
        if (at > to) break;
        const name = step < 12 && month % 12 ? MONTHS[month % 12] : String(Math.floor(month / 12));
        if (at >= from) found.push([at, name]);
      }
    }
    return found.map(([local, text]) => ({ at: this.place(local), text }));
  }
}

function clockLabel(date, step) {
  const iso = date.toISOString();
  const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  if (step >= DAY) return date.getUTCMonth() === 0 && date.getUTCDate() < 8 && step >= 7 * DAY
    ? `${day} ${date.getUTCFullYear()}` : day;
  if (iso.slice(11, 19) === "00:00:00") return day;
  return step >= MINUTE ? iso.slice(11, 16) : iso.slice(11, 19);
}

// An axis of the page: numbers, or times.
class Scale {
  constructor(axis) {
    this.label = axis.label;
    this.clock = axis.time ? new Clock(axis.time) : null;
  }

  ticks(low, high, count) {
    return this.clock ? this.clock.ticks(low, high, count) : numberTicks(low, high, count);
  }

  text(x, step) {
    return this.clock ? this.clock.text(x, step) : decimals(x, 10 ** Math.floor(Math.log10(step)));
  }
}
