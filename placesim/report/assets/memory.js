// The memory page: a card for each device, with the curve over the steps and a table of who holds most at the peak.

const study = JSON.parse(byId("study").textContent);
const WIDTH = 1000;
const HEIGHT = 160;
const HEADROOM = 1.08;

/** A name that may break behind what joins its parts, and nowhere else. */
const breakable = (name) => name.split(/(?<=[/_])/).flatMap((part, i) => (i ? [make("wbr"), part] : [part]));

/** The curve as steps; the limit as a line where it is near enough to be seen beside it. */
function curve(device) {
  const { curve: points, limit, peak } = device;
  const top = HEADROOM * (limit !== null && limit <= 4 * peak ? Math.max(limit, peak) : Math.max(peak, 1));
  const x = (i) => (WIDTH * i) / Math.max(points.length, 1);
  const y = (bytes) => HEIGHT * (1 - bytes / top);
  const path = points.map((bytes, i) => `L${x(i)} ${y(bytes)}H${x(i + 1)}`).join("");
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `Memory of ${study.short[device.device]} over the steps` });
  svg.append(draw("path", { class: "area", d: `M0 ${HEIGHT}${path}V${HEIGHT}Z` }));
  svg.append(draw("path", { class: "edge", d: `M0 ${HEIGHT}${path}` }));
  const isSeen = limit !== null && limit <= top;
  if (isSeen) svg.append(draw("line", { class: "limit", x1: 0, x2: WIDTH, y1: y(limit), y2: y(limit) }));
  const mark = draw("line", { class: "at", y1: 0, y2: HEIGHT, visibility: "hidden" });
  svg.append(mark);
  const rest = `peak ${bytesText(peak)} at ${device.peak_node}` + (isSeen ? `; dashed: limit ${bytesText(limit)}` : "");
  const caption = make("figcaption", {}, rest);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const i = Math.min(points.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * points.length)));
    mark.setAttribute("x1", x(i + 0.5));
    mark.setAttribute("x2", x(i + 0.5));
    mark.setAttribute("visibility", "visible");
    caption.textContent = `${bytesText(points[i])} in use in part ${i + 1} of ${points.length}`;
  });
  svg.addEventListener("pointerleave", () => {
    mark.setAttribute("visibility", "hidden");
    caption.textContent = rest;
  });
  return make("figure", {}, svg, caption);
}

function facts(device) {
  const room = device.room;
  const rows = [
    ["limit", device.limit === null ? "none" : bytesText(device.limit)],
    ["peak", bytesText(device.peak)],
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
    make("th", {}), make("th", { class: "time" }, "since"), make("th", { class: "time" }, "until"));
  const body = make("tbody");
  for (const row of device.holders) {
    const bar = make("span", { class: `share ${row.kind}` });
    bar.style.width = `${(100 * row.size) / most}%`;
    body.append(make("tr", {},
      make("td", {}, row.kind), make("td", {}, ...breakable(row.name || "all")), make("td", { class: "number" }, row.number.toLocaleString("en")),
      make("td", { class: "number", title: `${row.size} bytes, requested: ${row.requested}` }, bytesText(row.size)), make("td", { class: "bar" }, bar),
      make("td", { class: "time" }, ...breakable(row.since)), make("td", { class: row.until ? "time" : "time whole" }, ...breakable(row.until ?? "stays"))));
  }
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body));
}

function card(device) {
  const parts = [make("h2", {}, study.short[device.device]), make("p", { class: "sub" }, `${device.device} · ${device.allocator}`), facts(device), curve(device)];
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
