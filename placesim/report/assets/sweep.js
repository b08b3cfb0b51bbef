// The sweep page: for each measure a small picture for each setting of the other keys, with a line for each value of one key,
// across the values of another; and a table of all combinations.

const sweep = JSON.parse(byId("sweep").textContent);
const WIDTH = 400;
const HEIGHT = 250;
const LEFT = 58;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 36;
const COLOURS = 8;
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const MOST_PANELS = 60;
const rows = sweep.rows;
const valuesOf = (key) => [...new Set(rows.map((row) => row[key]))];
const varied = sweep.keys.filter((key) => valuesOf(key).length > 1);
const MEASURES = [
  { key: "seconds", title: "Step time", low: "low", high: "high", text: secondsText },
  { key: "examples_per_second", title: "Throughput", text: (value) => `${numberText(value)}/s`, tick: roughText, note: "examples per second" },
  { key: "peak_bytes", title: "Peak memory", text: bytesText, limit: "limit_bytes", note: "on the device closest to its limit" },
];

const numberText = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });

/** `1200000` -> `1.2 M`. */
function roughText(value) {
  const power = Math.max(0, Math.min(4, Math.floor(Math.log10(value) / 3)));
  return `${Number((value / 1000 ** power).toPrecision(3))}${["", " k", " M", " G", " T"][power]}`;
}

const settingText = (value) => (typeof value === "boolean" ? (value ? "yes" : "no") : String(value));
/** A setting by itself: a model needs no word before it. */
const nameText = (key, value) => (key === "gpu-model" ? settingText(value) : `${key} ${settingText(value)}`);
const isNumeric = (key) => rows.every((row) => typeof row[key] === "number");

/** How many times the least is in the most. */
function spreadOf(key) {
  const known = rows.map((row) => row[key]).filter((value) => value > 0);
  return known.length ? Math.max(...known) / Math.min(...known) : 1;
}

/** The key whose values stand below the pictures: what is varied most often, GPUs first. */
const choices = {
  across: ["gpu", "batch", ...varied.filter(isNumeric), ...varied].find((key) => varied.includes(key)) ?? sweep.keys[0] ?? null,
  lines: null,
  scale: spreadOf("seconds") > 50 ? "log" : "linear",
};
choices.lines = ["batch", ...varied].find((key) => varied.includes(key) && key !== choices.across) ?? "";

/** From the values of the key that stands below to places. */
function placesOf(values) {
  const inner = WIDTH - LEFT - RIGHT;
  if (values.length === 1) return () => LEFT + inner / 2;
  const numbers = values.every((value) => typeof value === "number");
  const low = Math.min(...values);
  const high = Math.max(...values);
  const isLog = numbers && low > 0 && high / low >= 16;
  const scale = (value) => {
    if (!numbers) return values.indexOf(value) / (values.length - 1);
    return isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  };
  return (value) => LEFT + 14 + scale(value) * (inner - 28);
}

function story(row, measure) {
  const settings = sweep.keys.map((key) => `${key} ${settingText(row[key])}`).join(", ");
  if (row.seconds === null) return `${settings}: ${row.error}`;
  const interval = measure.low ? ` (${measure.text(row[measure.low])} to ${measure.text(row[measure.high])})` : "";
  const value = row[measure.key] === null ? "unknown" : measure.text(row[measure.key]);
  return `${settings}: ${value}${interval}; ${row.fits ? "fits" : `does not fit: ${row.error}`}; bound: ${row.bound}`;
}

function cross(x, y, size) {
  return draw("path", { class: "over", d: `M${x - size} ${y - size}L${x + size} ${y + size}M${x - size} ${y + size}L${x + size} ${y - size}` });
}

/** The ways of the arrow keys through a picture: to another series, and to another value of the key across. */
const WAYS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Tab reaches one value of a picture, and arrow keys the others. `values` has a list for each series, with gaps. */
function walkable(svg, values) {
  const all = values.flat().filter(Boolean);
  if (all.length) all[0].tabIndex = 0;
  svg.addEventListener("keydown", (event) => {
    const way = WAYS[event.key];
    const from = values.findIndex((own) => own.includes(event.target));
    if (!way || from < 0) return;
    event.preventDefault();
    let [i, at] = [from + way[0], values[from].indexOf(event.target) + way[1]];
    while (values[i] && at >= 0 && at < values[i].length && !values[i][at]) [i, at] = [i + way[0], at + way[1]];
    const next = values[i]?.[at];
    if (!next) return;
    for (const other of all) other.tabIndex = other === next ? 0 : -1;
    next.focus();
  });
}

function picture(panel, measure, across, series, range) {
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": [measure.title, panel.title].filter(Boolean).join(", ") });
  const x = placesOf(across);
  const isLog = choices.scale === "log";
  const [low, high] = range;
  const floor = HEIGHT - BOTTOM;
  const share = (value) => (isLog ? Math.log(value / low) / Math.log(high / low) : value / high);
  const y = (value) => floor - Math.min(1, Math.max(0, share(value))) * (floor - TOP);
  for (const tick of ticks(low, high, isLog, measure.key === "peak_bytes")) {
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }));
    svg.append(draw("text", { class: "axis", x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, tick ? (measure.tick ?? measure.text)(tick) : "0"));
  }
  const widest = Math.max(...across.map((value) => settingText(value).length));
  const every = Math.ceil((across.length * (widest * 6.5 + 8)) / (WIDTH - LEFT - RIGHT));
  across.forEach((value, i) => {
    const text = settingText(value);
    const shown = across.length > 1 && every > across.length / 2 && text.length > 12 ? `${text.slice(0, 11)}…` : text;
    if (i % Math.max(1, Math.min(every, Math.ceil(across.length / 2))) === 0) {
      svg.append(draw("text", { class: "axis", x: x(value), y: floor + 16, "text-anchor": "middle" }, shown));
    }
  });
  if (choices.across) svg.append(draw("text", { class: "axis", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, choices.across));
  const values = series.map(() => across.map(() => null));
  const say = (target, row, i, at) => {
    const text = story(row, measure);
    for (const [name, value] of Object.entries({ role: "img", "aria-label": text, tabindex: -1 })) target.setAttribute(name, value);
    target.append(draw("title", {}, text));
    for (const kind of ["pointerenter", "focus"]) target.addEventListener(kind, () => (byId("story").textContent = text));
    svg.append(target);
    values[i][at] = target;
  };
  series.forEach((value, i) => {
    const own = panel.rows.filter((row) => !choices.lines || row[choices.lines] === value);
    const points = across.map((at) => own.find((row) => choices.across === null || row[choices.across] === at) ?? null);
    const colour = `s${i % COLOURS}`;
    let path = "";
    points.forEach((row, at) => {
      const known = row !== null && row[measure.key] !== null;
      if (known) path += `${path && points[at - 1]?.[measure.key] != null ? "L" : "M"}${x(across[at])} ${y(row[measure.key])}`;
    });
    svg.append(draw("path", { class: `line ${colour}`, d: path, "stroke-dasharray": DASHES[Math.floor(i / COLOURS) % DASHES.length] }));
    points.forEach((row, at) => {
      if (row === null) return;
      const px = x(across[at]);
      if (row[measure.key] === null) {
        if (row.seconds === null) {
          svg.append(cross(px, floor - 6 - 9 * (i % 8), 3.5));
          say(draw("rect", { class: "hit", x: px - 7, y: floor - 13 - 9 * (i % 8), width: 14, height: 14 }), row, i, at);
        }
        return;
      }
      const py = y(row[measure.key]);
      if (measure.low) svg.append(draw("line", { class: `whisker ${colour}`, x1: px, x2: px, y1: y(row[measure.low]), y2: y(row[measure.high]) }));
      svg.append(draw("circle", { class: `${row.fits ? "dot" : "open"} ${colour}`, cx: px, cy: py, r: row.fits ? 4 : 5.5 }));
      if (!row.fits) svg.append(cross(px, py, 3));
      say(draw("circle", { class: "hit", cx: px, cy: py, r: 10 }), row, i, at);
    });
  });
  walkable(svg, values);
  const limits = measure.limit ? [...new Set(panel.rows.map((row) => row[measure.limit]).filter((value) => value !== null))] : [];
  if (limits.length === 1 && limits[0] <= high && limits[0] >= (isLog ? low : 0)) {
    const line = draw("line", { class: "limit", x1: LEFT, x2: WIDTH - RIGHT, y1: y(limits[0]), y2: y(limits[0]) }, draw("title", {}, `limit: ${measure.text(limits[0])}`));
    svg.append(line, draw("text", { class: "axis limited", x: LEFT + 4, y: y(limits[0]) - 4 }, `limit ${measure.text(limits[0])}`));
  }
  return make("figure", {}, ...(panel.title ? [make("h3", {}, panel.title)] : []), svg);
}

function panelsOf() {
  const others = varied.filter((key) => key !== choices.across && key !== choices.lines);
  const found = new Map();
  for (const row of rows) {
    const title = others.map((key) => nameText(key, row[key])).join(", ");
    if (!found.has(title)) found.set(title, { title, rows: [] });
    found.get(title).rows.push(row);
  }
  return [...found.values()];
}

function legend(series) {
  const place = byId("legend");
  const sign = (...parts) => draw("svg", { viewBox: "0 0 30 14", "aria-hidden": "true" }, ...parts);
  const entries = choices.lines
    ? series.map((value, i) => {
        const colour = `s${i % COLOURS}`;
        const dashes = DASHES[Math.floor(i / COLOURS) % DASHES.length];
        const parts = [draw("path", { class: `line ${colour}`, d: "M0 7H30", "stroke-dasharray": dashes }), draw("circle", { class: `dot ${colour}`, cx: 15, cy: 7, r: 4 })];
        return make("span", {}, sign(...parts), nameText(choices.lines, value));
      })
    : [];
  if (rows.some((row) => row.fits === false)) {
    entries.push(make("span", {}, sign(draw("circle", { class: "open s7", cx: 15, cy: 7, r: 5.5 }), cross(15, 7, 3)), "does not fit (time as if it did)"));
  }
  if (rows.some((row) => row.seconds === null)) entries.push(make("span", {}, sign(cross(15, 7, 3.5)), "not simulated"));
  place.replaceChildren(...entries);
  place.hidden = !entries.length;
}

function show() {
  const across = choices.across === null ? [""] : valuesOf(choices.across);
  if (across.every((value) => typeof value === "number")) across.sort((a, b) => a - b);
  const series = choices.lines ? valuesOf(choices.lines) : [""];
  const panels = panelsOf();
  legend(series);
  const parts = [];
  for (const measure of MEASURES) {
    const known = rows.filter((row) => row[measure.key] !== null);
    if (!known.length) continue;
    const highest = Math.max(...known.map((row) => row[measure.high ?? measure.key]));
    const lowest = Math.min(...known.map((row) => row[measure.low ?? measure.key]).filter((value) => value > 0));
    const range = [Number.isFinite(lowest) ? lowest / 1.15 : 1, (highest || 1) * 1.06];
    const small = panels.slice(0, MOST_PANELS).map((panel) => picture(panel, measure, across, series, range));
    const left = panels.length > MOST_PANELS ? [make("p", { class: "sub" }, `${panels.length - MOST_PANELS} more in the table only`)] : [];
    const heading = make("h2", {}, measure.title, ...(measure.note ? [" ", make("small", {}, measure.note)] : []));
    parts.push(make("section", { "aria-label": measure.title }, heading, make("div", { class: "panels" }, ...small), ...left));
  }
  byId("measures").replaceChildren(...parts);
}

function choose(name, label, options) {
  const select = make("select", { id: name });
  for (const [value, text] of options) select.append(make("option", { value }, text));
  select.value = choices[name] ?? "";
  select.addEventListener("change", () => {
    const before = choices[name];
    choices[name] = select.value;
    const other = name === "across" ? "lines" : "across";
    if (name !== "scale" && choices[other] === choices[name]) {
      choices[other] = before;
      byId(other).value = before ?? "";
    }
    show();
  });
  return make("label", {}, label, select);
}

const COLUMNS = [
  ...sweep.keys.map((key) => ({ key, title: key, text: (row) => settingText(row[key]), isNumber: isNumeric(key) })),
  { key: "seconds", title: "step time", text: (row) => secondsText(row.seconds), isNumber: true },
  { key: "high", title: "interval", text: (row) => `${secondsText(row.low)} to ${secondsText(row.high)}`, isNumber: true },
  { key: "examples_per_second", title: "examples/s", text: (row) => numberText(row.examples_per_second), isNumber: true },
  { key: "peak_bytes", title: "peak memory", text: (row) => bytesText(row.peak_bytes), isNumber: true },
  { key: "limit_bytes", title: "limit", text: (row) => bytesText(row.limit_bytes), isNumber: true },
  { key: "fits", title: "fits", text: (row) => (row.fits ? "yes" : "no"), isNumber: false },
  { key: "transfers", title: "transfers", text: (row) => row.transfers.toLocaleString("en"), isNumber: true },
  { key: "transfer_bytes", title: "copied", text: (row) => bytesText(row.transfer_bytes), isNumber: true },
  { key: "bound", title: "bound", text: (row) => `${row.bound}${row.bound_share === null ? "" : `, ${shareText(row.bound_share)}`}`, isNumber: false },
  { key: "error", title: "error", text: (row) => row.error, isNumber: false },
].filter((column) => sweep.keys.includes(column.key) || rows.some((row) => row[column.key] !== null));
const order = { key: null, isDown: false };

function table() {
  const head = make("tr");
  for (const column of COLUMNS) {
    const button = make("button", { type: "button" }, column.title, order.key === column.key ? (order.isDown ? " ▾" : " ▴") : "");
    button.addEventListener("click", () => {
      order.isDown = order.key === column.key && !order.isDown;
      order.key = column.key;
      table();
      document.querySelectorAll("th button")[COLUMNS.indexOf(column)].focus();
    });
    const sorted = order.key === column.key ? { "aria-sort": order.isDown ? "descending" : "ascending" } : {};
    head.append(make("th", { scope: "col", ...(column.isNumber ? { class: "number" } : {}), ...sorted }, button));
  }
  const sign = order.isDown ? -1 : 1;
  const compare = (a, b) => (a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -sign : sign);
  const listed = order.key === null ? rows : [...rows].sort((a, b) => compare(a[order.key], b[order.key]));
  const body = make("tbody");
  for (const row of listed) {
    const cells = COLUMNS.map((column) => {
      const style = column.key === "error" ? "why" : column.key === "fits" && row.fits === false ? "no" : column.isNumber ? "number" : "";
      const text = row[column.key] === null ? "" : column.text(row);
      return make("td", style ? { class: style } : {}, column.key === "error" && text ? make("span", { title: text }, text) : text);
    });
    body.append(make("tr", {}, ...cells));
  }
  const heading = make("h2", {}, "All combinations");
  byId("rows").replaceChildren(heading, scrolling(make("table", {}, make("thead", {}, head), body)));
}

const missing = rows.filter((row) => row.seconds === null).length;
const over = rows.filter((row) => row.fits === false).length;
const told = [countText(rows.length, "combination"), over ? `${over} do${over === 1 ? "es" : ""} not fit` : "", missing ? `${missing} failed` : ""];
byId("facts").textContent = told.filter(Boolean).join(" · ");
const names = varied.map((key) => [key, key]);
const places = make("div", { id: "choices" });
byId("facts").after(places);
if (names.length) places.append(choose("across", "across", names));
if (names.length > 1) places.append(choose("lines", "lines", [...names, ["", "none"]]));
places.append(choose("scale", "scale", [["linear", "from 0"], ["log", "logarithmic"]]));
show();
table();
new Theme();
offerPictures(() => new Drawn(byId("measures")));
markReady();
