// How things look, in the colours and patterns of `report/palette.py`.

const RAMP = ["#C6DBEF", "#9ECAE1", "#6BAED6", "#3182BD", "#08519C", "#08306B"];
const BYTE_STEPS = [1024, 32 * 1024, 1024 ** 2, 32 * 1024 ** 2, 1024 ** 3];
const MAX_OPS = 13;

/** The look of the i-th of many: no two of the first forty-two are alike. */
const look = (i, label) => ({
  label,
  colour: PALETTE[i % PALETTE.length],
  pattern: ((i % PALETTE.length) + 2 * Math.floor(i / PALETTE.length)) % PATTERNS.length,
});

const isDark = (colour) => {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 150;
};

/** `share` of one colour in another. */
function mix(colour, other, share) {
  const part = (text, i) => parseInt(text.slice(i, i + 2), 16);
  return "#" + [1, 3, 5].map((i) => Math.round(part(colour, i) * share + part(other, i) * (1 - share)).toString(16).padStart(2, "0")).join("");
}

/** A bar as an SVG image's address: `parts` are `[look, weight]`, side by side. */
function barImage(parts, width, height, radius = 2) {
  const total = parts.reduce((sum, [, weight]) => sum + weight, 0) || 1;
  let x = 0;
  let defs = `<clipPath id="c"><rect width="${width}" height="${height}" rx="${radius}"/></clipPath>`;
  let body = "";
  parts.forEach(([{ colour, pattern }, weight], i) => {
    const part = (width * weight) / total;
    body += `<rect x="${x}" width="${part}" height="${height}" fill="${colour}"/>`;
    if (PATTERNS[pattern]) {
      const ink = isDark(colour) ? "#fff" : "#000";
      defs += `<pattern id="p${i}" width="8" height="8" patternUnits="userSpaceOnUse"><g stroke="${ink}" stroke-opacity=".75" stroke-width="1.3" fill="none">${PATTERNS[pattern].replaceAll("<circle", `<circle fill="${ink}" fill-opacity=".75" stroke="none"`)}</g></pattern>`;
      body += `<rect x="${x}" width="${part}" height="${height}" fill="url(#p${i})"/>`;
    }
    if (i) body += `<path d="M${x} 0V${height}" stroke="#fff" stroke-opacity=".9"/>`;
    x += part;
  });
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><defs>${defs}</defs><g clip-path="url(#c)">${body}</g></svg>`;
  return "data:image/svg+xml;utf8," + encodeURIComponent(svg);
}

/** A look as a small picture. */
function swatch(shown) {
  return element("img", { src: barImage([[shown, 1]], 16, 12), alt: "", width: 16, height: 12 });
}

/** A way to colour: the looks of its kinds, and each node's kind by index. */
class Mode {
  constructor(looks, kindOf, model) {
    this.looks = looks;
    this.kindOf = kindOf;
    this._model = model;
    this._parts = new Map();
  }

  /** What an item holds: `[look, nodes]`, in the order of the looks. */
  parts(item) {
    let found = this._parts.get(item);
    if (!found) {
      found = this.count(this._model.nodesIn(item));
      this._parts.set(item, found);
    }
    return found;
  }

  /** The same of any nodes. */
  count(nodes) {
    const counts = new Map();
    for (const node of nodes) counts.set(this.kindOf(node), (counts.get(this.kindOf(node)) ?? 0) + 1);
    return [...counts].sort((a, b) => a[0] - b[0]).map(([kind, count]) => [this.looks[kind], count]);
  }
}

/** The first device is grey, as in `report/palette.py`. */
function deviceMode(model) {
  const looks = model.devices.map(({ short }, i) => (i ? look(i - 1, short) : { label: short, colour: GREY, pattern: 0 }));
  looks.push({ label: "not placed", colour: "#FFFFFF", pattern: 6 });
  return new Mode(looks, (node) => (model.nodes.device[node] < 0 ? looks.length - 1 : model.nodes.device[node]), model);
}

function opMode(model) {
  const counts = new Map();
  for (const op of model.nodes.op) counts.set(op, (counts.get(op) ?? 0) + 1);
  const frequent = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MAX_OPS).map(([op]) => op);
  const kinds = new Map(frequent.map((op, i) => [op, i]));
  const looks = [...frequent.map((op, i) => look(i, model.ops[op])), { label: "other ops", colour: GREY, pattern: 0 }];
  return new Mode(looks, (node) => kinds.get(model.nodes.op[node]) ?? looks.length - 1, model);
}

/** A request that allows one device has that device's look, wherever it is seen; the others follow after the devices. */
function requestedMode(model) {
  const devices = deviceMode(model).looks;
  let others = model.devices.length;
  const looks = model.requests.map(([request, ...allowed]) =>
    !request ? { label: "no device", colour: "#FFFFFF", pattern: 0 } : allowed.length === 1 ? { ...devices[allowed[0]], label: request } : look(others++, request));
  return new Mode(looks, (node) => model.nodes.requested[node], model);
}

const MOVED = [
  { label: "not on the requested device", colour: PALETTE[5], pattern: 1 },
  { label: "on the requested device", colour: PALETTE[3], pattern: 0 },
  { label: "no device requested", colour: GREY, pattern: 0 },
  { label: "not placed", colour: "#FFFFFF", pattern: 6 },
];

function movedMode(model) {
  return new Mode(MOVED, (node) => {
    const [request, ...allowed] = model.requests[model.nodes.requested[node]];
    const device = model.nodes.device[node];
    return device < 0 ? 3 : !request ? 2 : allowed.includes(device) ? 1 : 0;
  }, model);
}

function bytesMode(model) {
  const labels = BYTE_STEPS.map((step) => `< ${bytesText(step).replace(".0", "")}`);
  const looks = [...labels, `${bytesText(BYTE_STEPS.at(-1)).replace(".0", "")} and more`].map((label, i) => ({ label, colour: RAMP[i], pattern: 0 }));
  looks.push({ label: "unknown", colour: GREY, pattern: 1 });
  const kind = (bytes) => {
    if (bytes === null) return looks.length - 1;
    const step = BYTE_STEPS.findIndex((limit) => bytes < limit);
    return step < 0 ? BYTE_STEPS.length : step;
  };
  return new Mode(looks, (node) => kind(model.nodes.bytes[node]), model);
}

const MODES = { device: deviceMode, moved: movedMode, op: opMode, requested: requestedMode, bytes: bytesMode };
