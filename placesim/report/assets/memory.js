// The memory page: a card for each device, the fullest first, with the curve over the steps and a table of who holds most at the peak.

const study = JSON.parse(byId("study").textContent);
const WIDTH = 1000;
const HEIGHT = 160;
const HEADROOM = 1.08;

/** A name that may break behind what joins its parts, and nowhere else. */
const breakable = (name) => name.split(/(?<=[/_])/).flatMap((part, i) => (i ? [make("wbr"), part] : [part]));

/** The curve as steps between axes, and the limit as a line: at the upper edge, not to scale, where it is far above the peak. */
function curve(device) {
  const { curve: points, limit, peak, peak_with_workspaces: most } = device;
  const isNear = limit !== null && limit <= 4 * peak;
  const top = HEADROOM * Math.max(peak, 1, isNear ? limit : 0);
  const x = (i) => (WIDTH * i) / Math.max(points.length, 1);
  const y = (bytes) => HEIGHT * (1 - bytes / top);
  const path = points.map((bytes, i) => `L${x(i)} ${y(bytes)}H${x(i + 1)}`).join("");
  const svg = draw("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", tabindex: 0, role: "slider", "aria-label": `Memory of ${study.short[device.device]} over the steps`,
    "aria-valuemin": 1, "aria-valuemax": points.length, "aria-valuenow": points.indexOf(peak) + 1, "aria-valuetext": `peak ${bytesText(peak)}`,
  });
  const marks = ticks(0, top, false, true);
  for (const bytes of marks) svg.append(draw("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(bytes), y2: y(bytes) }));
  svg.append(draw("path", { class: "area", d: `M0 ${HEIGHT}${path}V${HEIGHT}Z` }));
  svg.append(draw("path", { class: "edge", d: `M0 ${HEIGHT}${path}` }));
  const height = isNear ? y(limit) : 1;
  if (limit !== null) svg.append(draw("line", { class: "limit", x1: 0, x2: WIDTH, y1: height, y2: height }));
  const mark = draw("line", { class: "at", y1: 0, y2: HEIGHT, visibility: "hidden" });
  svg.append(mark);
  const labels = [...marks.map((bytes) => [y(bytes), bytes ? bytesText(bytes) : "0"])].map(([at, text]) => placed(at, make("span", {}, text)));
  const plot = make("div", { class: "plot" }, svg);
  if (limit !== null) plot.append(placed(height, make("span", { class: "limited" }, `limit ${distinctTexts(limit, peak)[0]}${isNear ? "" : ", not to scale"}`)));
  const rest = `peak ${distinctTexts(peak, limit ?? peak)[0]}${most === null ? "" : `, up to ${bytesText(most)} with cuDNN workspaces,`} at ${device.peak_node}`;
  const caption = make("figcaption", {}, rest);
  const show = (at) => {
    const i = Math.min(points.length - 1, Math.max(0, at));
    mark.setAttribute("x1", x(i + 0.5));
    mark.setAttribute("x2", x(i + 0.5));
    mark.setAttribute("visibility", "visible");
    caption.textContent = `${bytesText(points[i])} in use in part ${i + 1} of ${points.length}`;
    svg.setAttribute("aria-valuenow", i + 1);
    svg.setAttribute("aria-valuetext", caption.textContent);
  };
  const hide = () => {
    mark.setAttribute("visibility", "hidden");
    caption.textContent = rest;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    show(Math.floor(((event.clientX - box.left) / box.width) * points.length));
  });
  svg.addEventListener("keydown", (event) => {
    const now = Number(svg.getAttribute("aria-valuenow")) - 1;
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: points.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    show(next);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  const ends = make("div", { class: "ends" }, make("span", {}, "start of the first step"), make("span", {}, "end of the last"));
  return make("figure", {}, make("div", { class: "scale", "aria-hidden": "true" }, ...labels), plot, ends, caption);
}

/** A label at a height of the curve. */
function placed(at, label) {
  label.style.top = `${(100 * at) / HEIGHT}%`;
  return label;
}

/** What is in use at the peak by category, as parts of one bar. */
function categories(device) {
  const found = Object.entries(device.categories).filter(([, bytes]) => bytes > 0);
  const bar = make("div", { class: "parts", "aria-hidden": "true" });
  const list = make("ul", { class: "categories", "aria-label": "At the peak, by category" });
  for (const [name, bytes] of found) {
    const part = make("span", { class: name });
    part.style.flexGrow = bytes;
    bar.append(part);
    list.append(make("li", {}, make("span", { class: `key ${name}` }), `${name} ${bytesText(bytes)}`));
  }
  return [bar, list];
}

function facts(device) {
  const room = device.room;
  const [limit, peak, most] = distinctTexts(device.limit ?? device.peak, device.peak, device.peak_with_workspaces ?? device.peak);
  const rows = [
    ["limit", device.limit === null ? "none" : limit],
    [study.fits || device.limit === null ? "peak" : "peak without limit", peak],
    device.peak_with_workspaces === null ? null : ["with cuDNN workspaces up to", most],
    room === null ? null : room < 0 ? ["over", bytesText(-room)] : ["room left", bytesText(room)],
    device.fragmentation === null ? null : ["fragmentation at the peak", `${(100 * device.fragmentation).toFixed(1)} %`],
    ["allocations", device.allocations.toLocaleString("en")],
  ];
  const list = make("dl", { class: "facts" });
  for (const row of rows.filter(Boolean)) {
    const value = make("dd", row[0] === "over" ? { class: "short" } : {}, row[1]);
    list.append(make("div", {}, make("dt", {}, row[0]), value));
  }
  return list;
}

function holders(device) {
  const most = Math.max(1, ...device.holders.map((row) => row.size));
  const head = make("tr", {},
    make("th", {}, "held by"), make("th", {}, "owner"), make("th", { class: "number" }, "number"), make("th", { class: "number" }, "bytes"),
    make("td"), make("th", { class: "time" }, "since"), make("th", { class: "time" }, "until"));
  const body = make("tbody");
  for (const row of device.holders) {
    const bar = make("span", { class: `share ${row.kind}` });
    bar.style.width = `${(100 * row.size) / most}%`;
    body.append(make("tr", {},
      make("td", {}, row.kind), make("td", {}, ...breakable(row.name || "all")), make("td", { class: "number" }, row.number.toLocaleString("en")),
      make("td", { class: "number", title: `${row.size} bytes, requested: ${row.requested}` }, bytesText(row.size)), make("td", { class: "bar" }, bar),
      make("td", { class: "time" }, ...breakable(row.since)), make("td", { class: row.until ? "time" : "time whole" }, ...breakable(row.until ?? "stays"))));
  }
  const caption = make("caption", {}, `Largest holders at the peak${study.fits ? "" : ", in a run without limits"}`);
  return scrolling(make("table", {}, caption, make("thead", {}, head), body));
}

function card(device) {
  const parts = [make("h2", {}, study.short[device.device]), make("p", { class: "sub" }, `${device.device} · ${device.allocator}`), facts(device), curve(device), ...categories(device)];
  if (device.holders.length) parts.push(holders(device));
  if (device.dump) parts.push(make("details", {}, make("summary", {}, "TensorFlow's allocator dump"), make("pre", {}, device.dump.join("\n"))));
  return make("section", { class: "card", "aria-label": study.short[device.device] }, ...parts);
}

const outcome = study.fits ? "fits" : "does not fit";
byId("facts").textContent = `${outcome} · ${countText(study.devices.length, "device")}${study.batch === null ? "" : ` · batch ${study.batch}`}`;
if (study.error) showError(errorText(study.error));
const needs = byId("needs");
if (study.requirements.length) {
  needs.className = "card";
  needs.append(make("h2", {}, "What would fit"), make("ul", {}, ...study.requirements.map((line) => make("li", {}, line))));
}
byId("devices").append(...study.devices.map(card));
new Theme();
offerPictures(() => new Drawn(byId("devices")));
markReady();
