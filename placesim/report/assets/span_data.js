// The packed columns -> what ran when and where, as the lanes and the panel ask for it.
//
// A span is a node that ran or a tensor on its way; a box is a span on a row, 2 * span, or its launch, 2 * span + 1.

const NONE = -1;
const spanOf = (box) => box >> 1;
const isLaunch = (box) => (box & 1) === 1;
const WAIT = { nothing: 0, input: 1, launch: 2, turn: 3 };

/** Where a value stands in a rising array: how many entries are below it, or with `after`, not above it. */
function placeOf(values, value, after = false) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (after ? values[middle] <= value : values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

class StepModel {
  constructor(document) {
    Object.assign(this, document);
    const { spans, tick } = document;
    this.count = spans.name.length;
    const times = () => new Float64Array(this.count);
    [this.start, this.end, this.launchStart, this.launchEnd] = [times(), times(), times(), times()];
    this.before = new Int32Array(this.count);
    this.launchBefore = new Int32Array(this.count);
    this.firstSource = new Int32Array(this.count + 1);
    this.sources = new Int32Array(spans.sources.length);
    let ticks = 0;
    let source = 0;
    for (let span = 0; span < this.count; span++) {
      ticks += spans.start[span];
      const launched = ticks - spans.launch_gap[span];
      this.start[span] = ticks * tick;
      this.end[span] = (ticks + spans.ticks[span]) * tick;
      this.launchStart[span] = (launched - spans.launch_ticks[span]) * tick;
      this.launchEnd[span] = launched * tick;
      this.before[span] = spans.before[span] === null ? NONE : span - spans.before[span];
      this.launchBefore[span] = spans.launch_before[span] === null ? NONE : span - spans.launch_before[span];
      this.firstSource[span] = source;
      for (let i = 0; i < spans.inputs[span]; i++, source++) this.sources[source] = span - spans.sources[source];
    }
    this.firstSource[this.count] = source;
    this.lanes = this.groups.flatMap((group, number) => group.lanes.map((lane) => ({ ...lane, group: number })));
    this.memory.forEach((curve) => (curve.times = rising(curve.times, tick)));
    this.pathAt = new Map();
    this.path.forEach(([span], part) => this.pathAt.has(span) || this.pathAt.set(span, part));
  }

  /** The highest memory use of a device: its peak with one kernel at a time, as every table has it, and this step's as simulated, where that differs. */
  memoryTexts(number) {
    const { peak_bytes: peak, limit_bytes: limit } = this.devices[number];
    if (peak === null) return { peak: "–", limit: null, own: null };
    const [peakText, limitText] = distinctTexts(peak, limit ?? peak);
    const own = this.memory.find(({ device }) => device === number)?.bytes.reduce((most, held) => Math.max(most, held), 0) ?? peak;
    const differs = bytesText(own) !== bytesText(peak);
    return { peak: peakText, limit: limit === null ? null : `${peak > limit ? "over" : "of"} ${limitText}`, own: differs ? `${bytesText(own)} ${own > peak ? "in parallel" : "in this step"}` : null };
  }

  name(span) {
    return this.names[this.spans.name[span]];
  }

  label(span) {
    return this.name(span).split("/").pop();
  }

  op(span) {
    return this.ops[this.spans.op[span]];
  }

  isTransfer(span) {
    return this.op(span) === "";
  }

  hasLaunch(span) {
    return this.spans.launch_ticks[span] > 0;
  }

  isUncertain(span) {
    return !this.isTransfer(span) && this.cost(span)[3] === 1;
  }

  /** `[seconds, low, high, is uncertain]` of a node, `[bytes, sender]` of a tensor on its way. */
  cost(span) {
    return this.costs[this.spans.cost[span]];
  }

  device(span) {
    return this.short[this.spans.device[span]];
  }

  /** The lanes that a span takes, by number. */
  lanesOf(span) {
    return this.lane_sets[this.spans.lanes[span]].filter((lane) => lane >= 0);
  }

  hostLane(span) {
    return -1 - this.lane_sets[this.spans.lanes[span]].find((lane) => lane < 0);
  }

  /** What a span is in words: its op, or where its tensor comes from and goes to. */
  kind(span) {
    return this.isTransfer(span) ? `copied ${this.short[this.cost(span)[1]]} → ${this.device(span)}` : this.op(span);
  }

  boxStart(box) {
    return isLaunch(box) ? this.launchStart[spanOf(box)] : this.start[spanOf(box)];
  }

  boxEnd(box) {
    return isLaunch(box) ? this.launchEnd[spanOf(box)] : this.end[spanOf(box)];
  }

  inputs(span) {
    return this.sources.subarray(this.firstSource[span], this.firstSource[span + 1]);
  }

  /** The spans that wait for one. */
  readers(span) {
    if (!this._firstReader) this._indexReaders();
    return this._readers.subarray(this._firstReader[span], this._firstReader[span + 1]);
  }

  _indexReaders() {
    this._firstReader = new Int32Array(this.count + 1);
    for (const source of this.sources) this._firstReader[source + 1] += 1;
    for (let span = 0; span < this.count; span++) this._firstReader[span + 1] += this._firstReader[span];
    const next = this._firstReader.slice();
    this._readers = new Int32Array(this.sources.length);
    for (let span = 0; span < this.count; span++) for (const source of this.inputs(span)) this._readers[next[source]++] = span;
  }

  /** The spans of a name on a device, in their order. */
  runs(name, device) {
    const [wanted, on] = [this.names.indexOf(name), this.devices.findIndex((row) => row.device === device)];
    const found = [];
    for (let span = 0; span < this.count; span++) if (this.spans.name[span] === wanted && this.spans.device[span] === on) found.push(span);
    return found;
  }

  /** The part of the critical path that a span is, or else the last one that begins no later. */
  partNear(span) {
    const part = this.pathAt.get(span);
    if (part !== undefined) return part;
    this._partStarts ??= Float64Array.from(this.path, ([at, launched]) => this.boxStart(2 * at + launched));
    return placeOf(this._partStarts, this.start[span], true) - 1;
  }

  /** The span that is next on the critical path after one, or before it; where that is none the first, or the last. */
  along(span, by) {
    const { path } = this;
    if (!path.length) return NONE;
    let part = span === NONE ? (by > 0 ? 0 : path.length - 1) : this.partNear(span);
    if (span !== NONE) {
      const isOn = this.pathAt.has(span);
      do part += by > 0 || isOn ? by : 0; while (path[part]?.[0] === span);
    }
    return path[part]?.[0] ?? NONE;
  }

  /** What a span waited for, or its launch where it waited for that. */
  cause(span) {
    return this.spans.wait[span] === WAIT.launch ? this.launchBefore[span] : this.before[span];
  }

  /** How much a device held at a time; null where nothing is known. */
  held(curve, time) {
    const at = placeOf(curve.times, time, true) - 1;
    return at < 0 ? null : curve.bytes[at];
  }
}

function rising(differences, tick) {
  let ticks = 0;
  return Float64Array.from(differences, (difference) => (ticks += difference) * tick);
}
