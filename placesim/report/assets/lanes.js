// The lanes: what ran when, drawn over time on one canvas, with the memory of each device under its lanes.
//
// Boxes that are too narrow to be seen alone are drawn together, a column of points as high as the share of it in which anything
// ran.  So a picture takes as long as it is wide, however many spans there are.  Two pictures may share one `TimeAxis`.

const RULER = 24;
const HEADING = 24;
const ROW = 18;
const ROW_GAP = 2;
const LEAST_ROW = 4;
/** A host's rows are thinner where they would be higher than this together. */
const MAX_LANE = 240;
const CURVE = 44;
const GAP = 8;
const HEADROOM = 1.08;
/** Narrower boxes are drawn together. */
const LEAST_BOX = 2;
const LABELLED_BOX = 24;
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const MAX_ARROWS = 300;
/** Arrows of all transfers are drawn where no more are seen, each at least so wide. */
const MAX_TRANSFERS = 60;
const LEAST_TRANSFER = 4;
/** Of so many boxes that share a column the colours are looked at. */
const SAMPLED = 12;
const REACH = 4;
/** How pale a box is that is not on the critical path, and the name in it, which has to be read. */
const FAINT = 0.45;
const FAINT_TEXT = 0.72;

/** How much nearer a key or a button goes. */
const ZOOM = 1.5;
/** Beyond so many nodes no more are looked for. */
const MOST_FOUND = 1000;
/** How long after the last selection the address follows, in milliseconds. */
const ADDRESS_MS = 150;
const LANE_WAYS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/** The keys of a page with lanes: it has `focusTime`, `along`, `toCause` and `toggle`. */
const laneKeys = (page, axis) => ({
  "/": () => byId("search").focus(),
  "?": () => byId("keys").showModal(),
  "+": () => axis().zoom(ZOOM, page.focusTime()),
  "=": () => axis().zoom(ZOOM, page.focusTime()),
  "-": () => axis().zoom(1 / ZOOM, page.focusTime()),
  f: () => axis().fit(),
  "[": () => axis().pan(-axis().length / 5),
  "]": () => axis().pan(axis().length / 5),
  n: () => page.along(1),
  p: () => page.along(-1),
  w: () => page.toCause(),
  c: () => page.toggle("lit"),
  a: () => page.toggle("arrows"),
});

class LanesView {
  /** `actions`: `select(span)`, `zoomTo(span)`, `hover(hit, event)`; `most` is how high a lane may be. */
  constructor(container, model, axis, actions, most = MAX_LANE) {
    Object.assign(this, { container, model, axis, actions, most });
    this.chosen = NONE;
    this.hovered = null;
    this.isLit = true;
    this.marked = null;
    this.hasArrows = true;
    this.inner = element("div", { className: "lanes-inner" });
    this.canvas = element("canvas", { className: "lanes-canvas", tabIndex: 0, role: "application" });
    this.canvas.setAttribute("aria-label", "Timeline. Arrow keys move between nodes, Enter zooms in; the panel describes the selection, the tables below list the slowest nodes.");
    this.labels = element("div", { className: "lanes-labels" });
    const corner = element("div", { className: "lanes-corner" }, [element("div", {}, ["time"])]);
    this.inner.append(corner, this.canvas, this.labels);
    container.append(this.inner);
    this.layOut();
    this.listen();
    axis.listeners.push(() => this.draw());
  }

  // --- what stands where

  layOut() {
    const { model } = this;
    const rows = laneRows(model);
    this.strips = [];
    this.stripOf = new Int32Array(2 * model.count).fill(NONE);
    this.placeIn = new Int32Array(2 * model.count);
    let y = RULER;
    const add = (strip) => {
      this.strips.push({ ...strip, y });
      y += strip.height + (strip.kind === "row" ? 0 : strip.gap ?? 0);
    };
    const lit = this.pathRows();
    add({ kind: "heading", height: HEADING, text: "Critical path", more: "determines the step time" });
    add({ kind: "row", height: ROW + ROW_GAP, row: lit, label: "path", isPath: true });
    y += GAP;
    let lane = 0;
    model.groups.forEach((group) => {
      const names = group.devices.map((device) => model.short[device]).join(", ");
      add({ kind: "heading", height: HEADING, text: names || group.lanes[0].name, more: this.groupText(group) });
      for (const { label } of group.lanes) {
        const found = rows[lane++];
        const height = found.length * (ROW + ROW_GAP) > this.most ? Math.max(LEAST_ROW, Math.floor(this.most / found.length)) : ROW + ROW_GAP;
        found.forEach((row, i) => add({ kind: "row", height, row, label: i ? "" : label, lane: lane - 1 }));
        y += 2;
      }
      for (const curve of model.memory.filter((curve) => group.devices.includes(curve.device))) {
        add({ kind: "curve", height: CURVE, curve, label: group.devices.length > 1 ? `${model.short[curve.device]} memory` : "memory", gap: 2 });
      }
      y += GAP;
    });
    this.height = y;
    this.inner.style.height = `${y}px`;
    const heading = ({ text, more, y: top }) => {
      const found = element("div", { className: "lane-heading" }, [element("strong", {}, [text]), element("small", {}, [more])]);
      found.style.top = `${top}px`;
      return found;
    };
    const label = ({ label: text, y: top, height, curve }) => {
      const found = element("div", { className: curve ? "lane-label curve" : "lane-label", title: text }, [text, ...(curve ? this.curveLines(curve) : [])]);
      found.style.top = `${top}px`;
      found.style.height = `${Math.max(height, ROW)}px`;
      return found;
    };
    this.labels.replaceChildren(...this.strips.filter((strip) => strip.text || strip.label).map((strip) => (strip.kind === "heading" ? heading(strip) : label(strip))));
    this.strips.forEach((strip, number) => {
      if (strip.kind !== "row" || strip.isPath) return;
      strip.row.boxes.forEach((box, i) => {
        if (this.stripOf[box] === NONE) [this.stripOf[box], this.placeIn[box]] = [number, i];
      });
    });
  }

  /** `[strip, place]` of a box on the first row that it is on; null where it is on none. */
  rowOf(box) {
    return this.stripOf[box] === NONE ? null : [this.stripOf[box], this.placeIn[box]];
  }

  groupText(group) {
    const rows = group.devices.map((device) => this.model.devices[device]);
    const busy = rows.length ? `busy ${shareText(rows[0].busy)}` : "";
    return [group.processor, busy].filter(Boolean).join(" · ");
  }

  curveLines(curve) {
    const { peak, limit, own } = this.model.memoryTexts(curve.device);
    return [[peak, limit].filter(Boolean).join(" "), own].filter(Boolean).map((line) => element("small", {}, [line]));
  }

  /** The critical path as one row, and what of it stands on each of the others. */
  pathRows() {
    const { model } = this;
    const boxes = model.path.map(([span, launched]) => 2 * span + launched);
    this.onPath = new Set(boxes);
    return new Row(model, boxes);
  }

  /** Spans to light up in place of the critical path; null for that. */
  light(spans) {
    this.marked = spans && new Set(spans.flatMap((span) => [2 * span, 2 * span + 1]));
    this.draw();
  }

  /** The boxes that are lit up, where the others are pale; null where all are alike. */
  get shownLit() {
    if (this.marked) return this.marked;
    return this.isLit && this.onPath.size ? this.onPath : null;
  }

  /** What of a row is lit up. */
  litRow(strip) {
    if (strip.litBy !== this.shownLit) {
      strip.litBy = this.shownLit;
      strip.lit = new Row(this.model, Array.from(strip.row.boxes).filter((box) => strip.litBy.has(box)));
    }
    return strip.lit;
  }

  // --- where it is scrolled to

  /** `[device's heading, points below it]` of what stands at the top. */
  get scrolled() {
    const top = this.container.scrollTop + RULER;
    const heading = this.strips.findLast((strip) => strip.kind === "heading" && strip.y <= top) ?? this.strips[0];
    return [heading.text, top - heading.y];
  }

  /** Scrolls to the same device as another picture, as far below its heading as it is high. */
  scrollAs([text, below]) {
    const at = this.strips.findIndex((strip) => strip.kind === "heading" && strip.text === text);
    if (at < 0) return;
    const next = this.strips.find((strip, i) => i > at && strip.kind === "heading")?.y ?? this.height;
    const { y } = this.strips[at];
    this.container.scrollTop = Math.min(y + below, Math.max(y, next - HEADING)) - RULER;
  }

  // --- where a time is on the canvas, and what is at a point

  get labelWidth() {
    return this.labels.offsetWidth;
  }

  x(time) {
    return this.left + ((time - this.axis.from) / this.axis.length) * this.width;
  }

  time(x) {
    return this.axis.from + ((x - this.left) / this.width) * this.axis.length;
  }

  /** What is at a point of the canvas: a strip, a box or nothing, and the time. */
  hit(x, y) {
    const at = y + this.container.scrollTop;
    if (y < RULER || x < this.left) return null;
    const strip = this.strips.find((each) => at >= each.y && at < each.y + each.height);
    if (!strip || strip.kind === "heading") return null;
    const time = this.time(x);
    const found = strip.kind === "row" ? strip.row.near(time, (REACH * this.axis.length) / this.width) : NONE;
    return { strip, time, at: found, box: found === NONE ? NONE : strip.row.boxes[found] };
  }

  /** The middle of a box's row on the canvas. */
  rowMiddle(box) {
    const at = this.rowOf(box);
    if (!at) return null;
    const strip = this.strips[at[0]];
    return strip.y + (strip.height - ROW_GAP) / 2 - this.container.scrollTop;
  }

  // --- looks

  /** `mode`: the looks, and of each box the number of its look. */
  setLooks(mode, colours) {
    this.mode = mode;
    this.colours = colours;
    this.paints = mode.looks.map((look) => {
      const full = { solid: look.colour, fill: mix(look.colour, colours.surface, colours.isDark ? 0.46 : 0.36), edge: mix(look.colour, colours.text, 0.72), alpha: 1 };
      const pale = (colour) => mix(colour, colours.lane, FAINT);
      return { full, pale: { solid: pale(full.solid), fill: pale(full.fill), edge: pale(full.edge), alpha: FAINT }, pattern: this.patternOf(look) };
    });
    this.draw();
  }

  /** A look's pattern on its colour, for canvas. */
  patternOf(look) {
    const tile = element("canvas", { width: 8, height: 8 });
    const pen = tile.getContext("2d");
    pen.fillStyle = look.colour;
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = pen.fillStyle = isDark(look.colour) ? "#fffc" : "#000b";
    pen.lineWidth = 1.3;
    for (const [, d] of PATTERNS[look.pattern].matchAll(/ d="([^"]*)"/g)) pen.stroke(new Path2D(d));
    for (const [, x, y, r] of PATTERNS[look.pattern].matchAll(/cx="([^"]*)" cy="([^"]*)" r="([^"]*)"/g)) {
      pen.beginPath();
      pen.arc(Number(x), Number(y), Number(r), 0, 7);
      pen.fill();
    }
    return tile;
  }

  // --- drawing

  resize() {
    const [width, height] = [this.container.clientWidth, this.container.clientHeight];
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.left = this.labelWidth;
    this.right = width;
    this.width = Math.max(1, width - this.left - 1);
    this.scale = scale;
  }

  draw() {
    if (this.waiting || !this.mode) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  paint() {
    this.resize();
    const pen = (this.pen = this.canvas.getContext("2d"));
    const { colours } = this;
    pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    pen.font = FONT;
    pen.textBaseline = "middle";
    pen.fillStyle = colours.surface;
    const [width, height] = [this.container.clientWidth, this.container.clientHeight];
    pen.fillRect(0, 0, width, height);
    const top = this.container.scrollTop;
    // a heading is wider than its column, and would stand on the ruler
    this.labels.style.clipPath = `inset(${top + RULER}px -100vw 0 0)`;
    pen.save();
    pen.beginPath();
    pen.rect(this.left, RULER, this.width + 1, height - RULER);
    pen.clip();
    this.grid(height);
    for (const strip of this.strips) {
      const y = strip.y - top;
      if (y + strip.height < RULER || y > height) continue;
      if (strip.kind === "heading") this.heading(y);
      else if (strip.kind === "curve") this.curve(strip, y);
      else this.row(strip, y);
    }
    this.afterwards(height);
    this.arrows();
    this.outline(this.hovered?.box ?? NONE, colours.text, 1);
    if (this.chosen !== NONE) {
      this.outline(2 * this.chosen, colours.accent, 2.5);
      if (this.model.hasLaunch(this.chosen)) this.outline(2 * this.chosen + 1, colours.accent, 2);
    }
    if (this.hovered) this.hair(this.x(this.hovered.time), height);
    pen.restore();
    this.ruler();
    this.painted = (this.painted ?? 0) + 1;
  }

  grid(height) {
    const { pen } = this;
    pen.fillStyle = this.colours.line;
    for (const [time] of this.rulerTimes()) pen.fillRect(Math.round(this.x(time)), RULER, 1, height);
  }

  rulerTimes() {
    return rulerTimes(this.axis.from, this.axis.to, Math.max(2, Math.floor(this.width / 110)));
  }

  ruler() {
    const { pen, colours } = this;
    pen.fillStyle = colours.ground;
    pen.fillRect(this.left, 0, this.width + 1, RULER);
    pen.fillStyle = colours.soft;
    for (const [time, text] of this.rulerTimes()) {
      const x = Math.round(this.x(time));
      pen.fillRect(x, RULER - 5, 1, 5);
      const room = this.right - x - 4;
      if (pen.measureText(text).width < room) pen.fillText(text, x + 4, RULER / 2 - 2);
    }
    // which part of the whole is seen
    pen.fillStyle = colours.line;
    pen.fillRect(this.left, RULER - 2, this.width, 2);
    pen.fillStyle = colours.accent;
    const { from, length, seconds } = this.axis;
    pen.fillRect(this.left + (from / seconds) * this.width, RULER - 3, Math.max(3, (length / seconds) * this.width), 3);
  }

  /** Where the axis goes on for a longer step that is shown beside this one. */
  afterwards(height) {
    const { model, pen, colours, axis } = this;
    if (model.seconds >= axis.seconds || model.seconds >= axis.to) return;
    const x = Math.max(this.left, Math.round(this.x(model.seconds)));
    pen.fillStyle = colours.ground;
    pen.fillRect(x, RULER, this.right - x, height);
    pen.fillStyle = colours.accent;
    pen.fillRect(x, RULER, 2, height);
    const text = `ends at ${secondsText(model.seconds)}`;
    const left = Math.max(x, this.labels.firstElementChild.offsetWidth) + 8; // the first heading lies over the canvas
    if (pen.measureText(text).width < this.right - left - 4) pen.fillText(text, left, RULER + 12);
  }

  heading(y) {
    this.pen.fillStyle = this.colours.ground;
    this.pen.fillRect(this.left, y, this.width + 1, HEADING - 4);
  }

  hair(x, height) {
    this.pen.fillStyle = this.colours.soft;
    this.pen.fillRect(Math.round(x), RULER, 1, height);
  }

  row(strip, y) {
    const height = strip.height > LEAST_ROW + ROW_GAP ? strip.height - ROW_GAP : strip.height - 1;
    const isLit = this.shownLit !== null && !strip.isPath;
    this.pen.fillStyle = this.colours.lane;
    this.pen.fillRect(this.left, y, this.width + 1, height);
    this.tone = isLit ? "pale" : "full";
    this.boxes(strip.row, y, height);
    this.tone = "full";
    if (isLit) this.boxes(this.litRow(strip), y, height, true);
  }

  /** The boxes of a row: those that are wide enough each by itself, the others a column at a time. */
  boxes(row, y, height, isLit = false) {
    const { axis } = this;
    const seconds = axis.length / this.width;
    const end = placeOf(row.starts, axis.to);
    let at = row.after(axis.from);
    while (at < end) {
      const wide = (row.ends[at] - row.starts[at]) / seconds;
      // columns stand fast in time, so that they don't flicker as the picture moves
      const column = Math.floor(row.starts[at] / (LEAST_BOX * seconds));
      const [from, to] = [column * LEAST_BOX * seconds, (column + 1) * LEAST_BOX * seconds];
      if (wide >= LEAST_BOX || ((at + 1 === row.boxes.length || row.starts[at + 1] >= to) && (at === 0 || row.ends[at - 1] <= from))) {
        this.box(row.boxes[at], row.starts[at], row.ends[at], y, height, isLit);
        at += 1;
      } else {
        let next = Math.max(at + 1, placeOf(row.starts, to));
        // only the last one that begins in a column can be a wide one
        if (next - 1 > at && row.ends[next - 1] - row.starts[next - 1] >= LEAST_BOX * seconds) next -= 1;
        this.column(row, at, next, from, to, y, height, isLit);
        at = next;
      }
    }
  }

  column(row, first, last, from, to, y, height, isLit) {
    const { pen, mode } = this;
    const share = Math.min(1, Math.max(0, row.busyBetween(from, to) / (to - from)));
    const high = Math.max(2, Math.round(share * height));
    const counts = new Map();
    const stride = Math.max(1, Math.floor((last - first) / SAMPLED));
    for (let i = first; i < last; i += stride) {
      const look = mode.lookOf(row.boxes[i]);
      counts.set(look, (counts.get(look) ?? 0) + row.ends[i] - row.starts[i]);
    }
    let best = mode.lookOf(row.boxes[first]);
    for (const [look, seconds] of counts) if (seconds > counts.get(best)) best = look;
    pen.fillStyle = this.paints[best][this.tone].solid;
    pen.fillRect(this.x(from), y + height - high, LEAST_BOX, high);
    if (isLit) this.litMark(this.x(from), LEAST_BOX, y, height);
  }

  box(box, start, end, y, height, isLit) {
    const { pen } = this;
    const paint = this.paints[this.mode.lookOf(box)];
    const tone = paint[this.tone];
    const x = Math.max(this.left - 2, this.x(start));
    const wide = Math.min(this.right + 2, this.x(end)) - x;
    if (wide < 5) {
      pen.fillStyle = tone.solid;
      pen.fillRect(x, y, Math.max(1, wide - (wide > 3 ? 1 : 0)), height);
    } else {
      pen.fillStyle = tone.edge;
      pen.fillRect(x, y, wide - 1, height);
      pen.fillStyle = tone.fill;
      pen.fillRect(x + 1, y + 1, wide - 3, height - 2);
      const band = wide > 16 ? 7 : Math.min(3, wide - 3);
      this.tile(paint, x + 1, y + 1, band, height - 2);
    }
    if (isLit) this.litMark(x, Math.max(2, wide - 1), y, height);
    if (wide >= LABELLED_BOX && height >= 12) this.text(box, x, wide, y + height / 2 + 0.5);
  }

  /** A look's colour and pattern, which moves with its box. */
  tile(paint, x, y, width, height) {
    if (width <= 0 || height <= 0) return;
    const { pen } = this;
    paint.fillPattern ??= pen.createPattern(paint.pattern, "repeat");
    pen.save();
    pen.translate(x, y);
    pen.globalAlpha = paint[this.tone].alpha;
    pen.fillStyle = paint.fillPattern;
    pen.fillRect(0, 0, width, height);
    pen.restore();
  }

  /** What lies on the critical path has a heavy line above and below, beside its full colour. */
  litMark(x, width, y, height) {
    this.pen.fillStyle = this.colours.text;
    this.pen.fillRect(x, y, width, 2);
    this.pen.fillRect(x, y + height - 2, width, 2);
  }

  /** A box's name as far as there is room: in full, its last part, or the beginning of that. */
  text(box, x, wide, y) {
    const { pen, model } = this;
    const span = spanOf(box);
    const left = Math.max(x, this.left) + 11;
    const room = Math.min(x + wide, this.right) - left - 4;
    if (room < 10) return;
    const before = isLaunch(box) ? "launch " : "";
    const shown = [before + model.name(span), before + model.label(span), model.label(span)].find((text) => text.length * 6.4 <= room || (text.length * 4 <= room && pen.measureText(text).width <= room));
    const text = shown ?? shorten(pen, model.label(span), room);
    if (!text) return;
    pen.globalAlpha = this.tone === "pale" ? FAINT_TEXT : 1;
    pen.fillStyle = this.colours.text;
    pen.fillText(text, left, y);
    pen.globalAlpha = 1;
  }

  /** A device's memory as steps, its limit as a dashed line where it is near enough to be seen beside it. */
  curve({ curve }, y) {
    const { pen, colours, axis } = this;
    const { limit, bytes, times } = curve;
    const height = CURVE - 4;
    curve.peak ??= bytes.reduce((most, held) => Math.max(most, held), 0);
    const isSeen = limit !== null && limit <= 4 * curve.peak;
    const most = HEADROOM * Math.max(1, isSeen ? Math.max(limit, curve.peak) : curve.peak);
    const at = (held) => y + height * (1 - held / most);
    pen.fillStyle = colours.lane;
    pen.fillRect(this.left, y, this.width + 1, height);
    let i = Math.max(0, placeOf(times, axis.from, true) - 1);
    const path = new Path2D();
    let held = times.length && times[i] <= axis.from ? bytes[i++] : 0;
    path.moveTo(this.left, at(held));
    while (i < times.length && times[i] < axis.to) {
      // a column of points shows the least and the most of its time
      const column = Math.round(this.x(times[i]));
      path.lineTo(column, at(held));
      let [low, high] = [held, held];
      for (const until = this.time(column + 0.5); i < times.length && times[i] <= until; i++) {
        held = bytes[i];
        low = Math.min(low, held);
        high = Math.max(high, held);
      }
      path.lineTo(column, at(high));
      path.lineTo(column, at(low));
      path.lineTo(column, at(held));
    }
    path.lineTo(this.right, at(held));
    const area = new Path2D(path);
    area.lineTo(this.right, y + height);
    area.lineTo(this.left, y + height);
    pen.globalAlpha = 0.22;
    pen.fillStyle = colours.accent;
    pen.fill(area);
    pen.globalAlpha = 1;
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 1.5;
    pen.stroke(path);
    if (isSeen) {
      pen.strokeStyle = pen.fillStyle = colours.copy;
      pen.setLineDash([6, 4]);
      pen.beginPath();
      pen.moveTo(this.left, at(limit));
      pen.lineTo(this.right, at(limit));
      pen.stroke();
      pen.setLineDash([]);
      pen.fillText("limit", this.left + 4, at(limit) + (at(limit) < y + 12 ? 8 : -7));
    }
  }

  outline(box, colour, width) {
    if (box === NONE) return;
    const { pen, model } = this;
    const [from, to] = [model.boxStart(box), model.boxEnd(box)];
    if (to < this.axis.from || from > this.axis.to) return;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    for (const strip of this.stripsOf(box)) {
      const x = Math.max(this.left - 4, this.x(from));
      pen.strokeRect(x - 0.5, strip.y - this.container.scrollTop - 0.5, Math.max(3, Math.min(this.right + 4, this.x(to)) - x), strip.height - 1);
    }
  }

  /** All rows on which a box is drawn; a copy between two GPUs is on one of each. */
  stripsOf(box) {
    const first = this.rowOf(box);
    const strips = first === null ? [] : [this.strips[first[0]]];
    if (isLaunch(box)) return strips;
    const lanes = this.model.lanesOf(spanOf(box));
    return lanes.length < 2 ? strips : this.strips.filter((strip) => strip.kind === "row" && !strip.isPath && lanes.includes(strip.lane));
  }

  /** From what a span waited for to it, and from it to what waits for it; of all transfers that are seen, where they are few. */
  arrows() {
    const { model, colours } = this;
    if (this.hasArrows) this.transferArrows();
    if (this.chosen === NONE) return;
    const [time, y] = this.beginOf(this.chosen);
    for (const source of model.inputs(this.chosen).subarray(0, MAX_ARROWS)) {
      const isLast = source === model.before[this.chosen] || source === model.launchBefore[this.chosen];
      this.arrow(model.end[source], this.rowMiddle(2 * source), time, y, colours.accent, isLast ? 2.4 : 1.3);
    }
    for (const reader of model.readers(this.chosen).subarray(0, MAX_ARROWS)) {
      this.arrow(model.end[this.chosen], this.rowMiddle(2 * this.chosen), ...this.beginOf(reader), colours.accent, 1.3);
    }
  }

  /** From what made a tensor to its transfer, and on to the first that waits for it. */
  transferArrows() {
    const { model, axis } = this;
    const seen = new Set();
    for (const { kind, lane, row } of this.strips) {
      const label = kind === "row" && lane !== undefined ? model.lanes[lane].label : "";
      if (!label || label === "host" || label === "compute") continue;
      const end = placeOf(row.starts, axis.to);
      for (let i = row.after(axis.from); i < end && seen.size <= MAX_TRANSFERS; i++) {
        if (((row.ends[i] - row.starts[i]) * this.width) / axis.length >= LEAST_TRANSFER) seen.add(spanOf(row.boxes[i]));
      }
    }
    if (seen.size > MAX_TRANSFERS) return;
    this.pen.globalAlpha = 0.7;
    for (const span of seen) {
      const middle = this.rowMiddle(2 * span);
      const [source] = model.inputs(span);
      const [reader] = model.readers(span);
      if (source !== undefined) this.arrow(model.end[source], this.rowMiddle(2 * source), model.start[span], middle, this.colours.copy, 1);
      if (reader !== undefined) this.arrow(model.end[span], middle, ...this.beginOf(reader), this.colours.copy, 1);
    }
    this.pen.globalAlpha = 1;
  }

  /** When a span began, its launch where it has one, and the middle of that row. */
  beginOf(span) {
    const box = 2 * span + (this.model.hasLaunch(span) ? 1 : 0);
    return [this.model.boxStart(box), this.rowMiddle(box)];
  }

  arrow(from, fromY, to, toY, colour, width) {
    if (fromY === null || toY === null || fromY === toY) return;
    const [x1, x2] = [this.x(from), this.x(to)];
    if (Math.max(x1, x2) < this.left || Math.min(x1, x2) > this.right) return;
    const { pen } = this;
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = width;
    const bend = Math.min(60, Math.max(8, Math.abs(x2 - x1) / 2));
    pen.beginPath();
    pen.moveTo(x1, fromY);
    pen.bezierCurveTo(x1 + bend, fromY, x2 - bend, toY, x2, toY);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(x2, toY);
    pen.lineTo(x2 - 6, toY - 3);
    pen.lineTo(x2 - 6, toY + 3);
    pen.fill();
  }

  // --- what is chosen

  choose(span, isNear = false, isRevealed = true) {
    this.chosen = span;
    if (span !== NONE) {
      const box = 2 * span;
      this.cursor = this.rowOf(box);
      // where it is not, another picture on the same axis says what is seen
      if (isRevealed) this.axis.reveal(this.model.start[span], this.model.end[span], isNear ? 0.04 : 0);
      const strip = this.cursor && this.strips[this.cursor[0]];
      if (strip) {
        const { scrollTop, clientHeight } = this.container;
        if (strip.y - RULER < scrollTop) this.container.scrollTop = strip.y - RULER - HEADING;
        else if (strip.y + strip.height > scrollTop + clientHeight) this.container.scrollTop = strip.y + strip.height - clientHeight + GAP;
      }
    }
    this.draw();
  }

  zoomTo(span) {
    const { model } = this;
    const start = model.hasLaunch(span) ? model.launchStart[span] : model.start[span];
    const length = Math.max(model.end[span] - start, 4 * model.tick);
    this.axis.show(start - 0.6 * length, start + 1.6 * length);
  }

  /** The next span on the same row, or that nearest in time on the next row that has any. */
  neighbour(dx, dy) {
    const rows = this.strips.map((strip, number) => [strip, number]).filter(([strip]) => strip.kind === "row" && !strip.isPath && strip.row.boxes.length);
    if (!rows.length) return NONE;
    const middle = (this.axis.from + this.axis.to) / 2;
    if (this.chosen === NONE || !this.cursor) return spanOf(this.nearest(rows[0][0].row, middle));
    const [number, at] = this.cursor;
    if (dx) {
      const { row } = this.strips[number];
      // a launch is a part of its span, which stands elsewhere
      let next = at + dx;
      while (next >= 0 && next < row.boxes.length && isLaunch(row.boxes[next])) next += dx;
      return next >= 0 && next < row.boxes.length ? spanOf(row.boxes[next]) : this.chosen;
    }
    const time = this.model.start[this.chosen];
    const further = rows.filter(([, other]) => (dy > 0 ? other > number : other < number));
    if (dy < 0) further.reverse();
    for (const [strip] of further) {
      const box = this.nearest(strip.row, time);
      if (box !== NONE) return spanOf(box);
    }
    return this.chosen;
  }

  /** The box of a row that is nearest in time and no launch. */
  nearest(row, time) {
    const from = placeOf(row.starts, time, true) - 1;
    for (let step = 0; step <= row.boxes.length; step++) {
      for (const i of [from - step, from + 1 + step]) if (i >= 0 && i < row.boxes.length && !isLaunch(row.boxes[i])) return row.boxes[i];
    }
    return NONE;
  }

  // --- what the user does with a pointer

  listen() {
    const { canvas, container } = this;
    new ResizeObserver(() => this.draw()).observe(container);
    container.addEventListener("scroll", () => this.draw());
    canvas.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    this.pointers = new Map();
    canvas.addEventListener("pointerdown", (event) => this.pressed(event));
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => this.released(event, kind));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("dblclick", (event) => {
      const found = this.hit(...this.place(event));
      if (found && found.box !== NONE) this.actions.zoomTo(spanOf(found.box));
    });
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  wheeled(event) {
    const [x] = this.place(event);
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const sideways = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
    if (x < this.left) return; // the names scroll
    if (event.deltaY > 0 && !sideways && this.axis.length === this.axis.seconds) return; // as does the page, where all is seen
    event.preventDefault();
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) this.axis.pan((sideways * unit * this.axis.length) / this.width);
    else this.axis.zoom(Math.exp((-event.deltaY * unit) / (event.ctrlKey ? 100 : 400)), this.time(x));
  }

  pressed(event) {
    const [x, y] = this.place(event);
    if (event.button) return;
    try {
      this.canvas.setPointerCapture(event.pointerId);
    } catch {
      // the pointer is gone already
    }
    this.pointers.set(event.pointerId, { x, y });
    this.dragged = { x, y, far: false, from: y < RULER ? this.time(x) : null };
  }

  moved(event) {
    const [x, y] = this.place(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) return this.hover(this.hit(x, y), event);
    if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      const [was, is] = [Math.abs(before.x - other.x), Math.abs(x - other.x)];
      if (was > 8 && is > 8) this.axis.zoom(is / was, this.time((x + other.x) / 2));
      this.dragged.far = true;
    } else if (Math.hypot(x - this.dragged.x, y - this.dragged.y) > 4 || this.dragged.far) {
      this.dragged.far = true;
      this.hover(null);
      if (this.dragged.from === null) {
        this.axis.pan(((before.x - x) * this.axis.length) / this.width);
        if (event.pointerType === "mouse") this.container.scrollTop += before.y - y;
      }
    }
    this.pointers.set(event.pointerId, { x, y });
    return undefined;
  }

  released(event, kind) {
    const [x, y] = this.place(event);
    const isLast = this.pointers.delete(event.pointerId) && !this.pointers.size;
    if (!isLast || kind === "pointercancel") return;
    const { far, from } = this.dragged;
    if (from !== null && far) this.axis.show(Math.min(from, this.time(x)), Math.max(from, this.time(x)));
    else if (from !== null) this.axis.pan(((x - this.left) / this.width) * this.axis.seconds - (this.axis.from + this.axis.to) / 2);
    else if (!far) {
      const found = this.hit(x, y);
      this.actions.select(found && found.box !== NONE ? spanOf(found.box) : NONE);
      if (found && found.box !== NONE && !found.strip.isPath && !isLaunch(found.box)) this.cursor = [this.strips.indexOf(found.strip), found.at];
    }
  }

  hover(found, event) {
    this.hovered = found;
    this.canvas.style.cursor = found && found.box !== NONE ? "pointer" : "default";
    this.actions.hover(found, event);
    this.draw();
  }
}

/** The beginning of a text, with a sign that there is more; nothing where not even three letters have room. */
function shorten(pen, text, room) {
  let length = Math.min(text.length, Math.floor(room / 4));
  while (length > 2 && pen.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return length > 2 ? `${text.slice(0, length)}…` : "";
}
