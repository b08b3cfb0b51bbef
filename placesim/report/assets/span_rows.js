// Spans -> the rows that lanes draw: boxes by time that do not overlap, with sums for what is too small to be seen alone.

class Row {
  /** `boxes` in the order of their starts, none of which overlap. */
  constructor(model, boxes) {
    this.boxes = Int32Array.from(boxes);
    this.starts = Float64Array.from(boxes, (box) => model.boxStart(box));
    this.ends = Float64Array.from(boxes, (box) => model.boxEnd(box));
    this.busy = new Float64Array(boxes.length + 1);
    for (let i = 0; i < boxes.length; i++) this.busy[i + 1] = this.busy[i] + this.ends[i] - this.starts[i];
  }

  /** The place of the first box that ends after a time. */
  after(time) {
    return placeOf(this.ends, time, true);
  }

  /** For how many seconds between two times anything ran. */
  busyBetween(from, to) {
    const [first, last] = [this.after(from), placeOf(this.starts, to)];
    if (first >= last) return 0;
    return this.busy[last] - this.busy[first] - Math.max(0, from - this.starts[first]) - Math.max(0, this.ends[last - 1] - to);
  }

  /** The place of the box that is nearest to a time and no farther than `reach`; -1 for none. */
  near(time, reach) {
    const at = placeOf(this.starts, time, true) - 1;
    let [found, best] = [NONE, reach];
    for (const i of [at, at + 1]) {
      if (i < 0 || i >= this.boxes.length) continue;
      const distance = Math.max(this.starts[i] - time, time - this.ends[i], 0);
      if (distance <= best && (found === NONE || distance < best)) [found, best] = [i, distance];
    }
    return found;
  }
}

/** The rows of each lane: one where a stream runs one thing at a time, as many as ran at once on a host. */
function laneRows(model) {
  const boxes = model.lanes.map(() => []);
  for (let span = 0; span < model.count; span++) {
    for (const lane of model.lanesOf(span)) boxes[lane].push(2 * span);
    if (model.hasLaunch(span)) boxes[model.hostLane(span)].push(2 * span + 1);
  }
  return boxes.map((found) => {
    if (found.some(isLaunch)) found.sort((a, b) => model.boxStart(a) - model.boxStart(b) || a - b);
    return spread(model, found);
  });
}

/** Boxes on as few rows as they need, each on the first that is free. */
function spread(model, boxes) {
  const slack = 1.5 * model.tick;
  const [rows, ends] = [[], []];
  for (const box of boxes) {
    const start = model.boxStart(box) + slack;
    let row = ends.findIndex((end) => end <= start);
    if (row < 0) row = rows.push([]) - 1;
    rows[row].push(box);
    ends[row] = model.boxEnd(box);
  }
  return (rows.length ? rows : [[]]).map((row) => new Row(model, row));
}

/** Where time lies on the screen, for all lanes that show the same: from, to and the longest of them, in seconds. */
class TimeAxis {
  constructor(seconds, tick) {
    this.seconds = seconds || tick;
    this.least = Math.min(this.seconds, 20 * tick);
    this.listeners = [];
    this.fit();
  }

  get length() {
    return this.to - this.from;
  }

  show(from, to) {
    const length = Math.min(this.seconds, Math.max(this.least, to - from));
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(0, middle - length / 2), this.seconds - length);
    this.to = this.from + length;
    this.listeners.forEach((tell) => tell());
  }

  fit() {
    this.show(0, this.seconds);
  }

  /** A `factor` above 1 goes nearer; what is at `time` stays where it is. */
  zoom(factor, time = (this.from + this.to) / 2) {
    const length = Math.min(this.seconds, Math.max(this.least, this.length / factor));
    const share = (time - this.from) / this.length;
    this.show(time - share * length, time + (1 - share) * length);
  }

  pan(seconds) {
    this.show(this.from + seconds, this.to + seconds);
  }

  /** The middle of a span, where it is seen. */
  timeOf(model, span) {
    const time = span === NONE ? NaN : (model.start[span] + model.end[span]) / 2;
    return time >= this.from && time <= this.to ? time : undefined;
  }

  /** So that a stretch is seen: moved where it is outside, and, with a `share`, never narrower than that, nor wider than the picture. */
  reveal(start, end, share = 0) {
    const length = end - start;
    const isApart = share && (length < share * this.length || length > this.length);
    const shown = isApart ? length / (length > this.length ? ROOMY : share) : this.length;
    if (isApart || end < this.from || start > this.to) this.show((start + end - shown) / 2, (start + end + shown) / 2);
  }
}

/** How much of the picture is taken by what would not fit in it. */
const ROOMY = 0.6;
const NICE = [1, 2, 5, 10];

/** The times that a ruler names, about `wanted` of them, each with its text. */
function rulerTimes(from, to, wanted) {
  const raw = (to - from) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * NICE.find((nice) => nice * power >= raw * 0.999);
  const [unit, name] = to >= 1 ? [1, "s"] : to >= 1e-3 ? [1e-3, "ms"] : to >= 1e-6 ? [1e-6, "µs"] : [1e-9, "ns"];
  const digits = Math.min(12, Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-6)));
  const found = [];
  for (let i = Math.ceil(from / step - 1e-6); i * step <= to * (1 + 1e-12); i++) found.push([i * step, `${((i * step) / unit).toFixed(digits)} ${name}`]);
  return found;
}
