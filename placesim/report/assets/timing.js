// The page of a step's time: what is selected and how it is coloured, the same in lanes, panel and address.

const byId = (id) => document.getElementById(id);
const MAX_FOUND = 50;
/** A look by itself for the most frequent ops or scopes, one for the others. */
const MAX_KINDS = 13;
const ZOOM = 1.5;

/** A way to colour boxes: looks, and the number of each box's look; launches and transfers have their own in all ways. */
class BoxMode {
  constructor(looks, lookOfSpan, model, copyColour) {
    this.looks = [...looks, { label: "launched by the host", colour: GREY, pattern: 5 }, { label: "copied between devices", colour: copyColour, pattern: 3 }];
    this.used = new Set();
    const [launch, copy] = [looks.length, looks.length + 1];
    this.numbers = new Uint8Array(2 * model.count);
    for (let span = 0; span < model.count; span++) {
      this.numbers[2 * span] = model.isTransfer(span) ? copy : lookOfSpan(span);
      this.numbers[2 * span + 1] = launch;
      this.used.add(this.numbers[2 * span]);
      if (model.hasLaunch(span)) this.used.add(launch);
    }
  }

  lookOf(box) {
    return this.numbers[box];
  }
}

/** Looks for the kinds that most seconds go to; `kindOf` gives a span's. */
function dearestKinds(model, kindOf, rest) {
  const seconds = new Map();
  for (let span = 0; span < model.count; span++) {
    if (!model.isTransfer(span)) seconds.set(kindOf(span), (seconds.get(kindOf(span)) ?? 0) + model.end[span] - model.start[span]);
  }
  const kinds = [...seconds].sort((a, b) => b[1] - a[1]).slice(0, MAX_KINDS).map(([kind]) => kind);
  const numbers = new Map(kinds.map((kind, i) => [kind, i]));
  const looks = kinds.map((kind, i) => look(i, kind));
  return [[...looks, { label: rest, colour: GREY, pattern: 0 }], (span) => numbers.get(kindOf(span)) ?? looks.length];
}

const BOX_MODES = {
  op: (model) => dearestKinds(model, (span) => model.op(span), "other ops"),
  scope: (model) => {
    const scopes = model.names.map((name) => (name.includes("/") ? `${name.split("/")[0]}/` : "outside scopes"));
    return dearestKinds(model, (span) => scopes[model.spans.name[span]], "other scopes");
  },
  kind: (model) => [
    [look(0, "computed on a GPU"), { label: "computed on a host", colour: PALETTE[5], pattern: 1 }],
    (span) => (model.isUncertain(span) ? 1 : 0),
  ],
};

class TimingPage {
  constructor(model) {
    this.model = model;
    this.chosen = NONE;
    this.axis = new TimeAxis(model.seconds, model.tick);
    const actions = {
      select: (span) => this.select(span),
      zoomTo: (span) => this.zoomTo(span),
      hover: (found, event) => this.tell(found, event),
      along: (by) => this.along(by),
    };
    this.lanes = new LanesView(byId("lanes"), model, this.axis, actions);
    this.panel = new TimingPanel(byId("panel"), model, actions);
    this.tables = new TimingTables(model, actions);
    this.finder = new SpanFinder(model, (span) => this.select(span, true));
    byId("cards").append(...this.tables.cards());
    byId("headline").replaceChildren(...this.headline());
    byId("facts").textContent = `${countText(model.count, "part")} on ${countText(model.devices.length, "device")}`;
    if (model.error) {
      byId("error").textContent = model.error.message.split("\nHint:")[0].replaceAll(/\{\{(node [^}]*)\}\}/g, "$1") + " – the times are those without a limit of memory.";
      byId("error").hidden = false;
    }
    this.listen();
    this.fitHeight();
    this.repaint();
    this.followAddress();
  }

  headline() {
    const { model } = this;
    const bound = model.bounds.reduce((most, each) => (each.seconds > most.seconds ? each : most));
    const never = model.seconds ? `; never below ${secondsText(bound.seconds)} (${shareText(bound.share)}): ${bound.what}` : "";
    return ["A step takes ", element("strong", {}, [secondsText(model.seconds)]), ` (${secondsText(model.low)} to ${secondsText(model.high)})${never}`];
  }

  // --- what is selected

  select(span, isNear = true) {
    this.chosen = span;
    this.lanes.choose(span, isNear);
    this.panel.show(span, this.lanes.mode);
    history.replaceState(null, "", span === NONE ? "#" : "#" + encodeURIComponent(this.model.name(span)));
    if (span === NONE) return;
    const { model } = this;
    byId("said").textContent = `${model.name(span)}, ${model.kind(span)}, on ${model.lanes[model.lanesOf(span)[0]].name}, from ${secondsText(model.start[span])}, took ${secondsText(model.end[span] - model.start[span])}`;
  }

  zoomTo(span) {
    if (span === NONE) return;
    this.select(span);
    this.lanes.zoomTo(span);
  }

  /** The next part of the critical path, or the one before; where nothing is selected the first, or the last. */
  along(by) {
    const { path } = this.model;
    if (!path.length) return;
    let part = this.chosen === NONE ? (by > 0 ? 0 : path.length - 1) : this.model.partNear(this.chosen);
    if (this.chosen !== NONE) {
      const isOn = this.model.pathAt.has(this.chosen);
      do part += by > 0 || isOn ? by : 0; while (path[part]?.[0] === this.chosen);
    }
    if (path[part]) this.select(path[part][0]);
  }

  followAddress() {
    const name = decodeURIComponent(location.hash.slice(1));
    const number = name ? this.model.names.indexOf(name) : NONE;
    const span = number < 0 ? NONE : this.model.spans.name.indexOf(number);
    if (span !== this.chosen || span === NONE) this.select(span);
  }

  // --- looks

  get isDark() {
    return byId("theme").dataset.chosen ? byId("theme").dataset.chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /** The other of light and dark: the rules for dark stand once in the styles, and are made to hold always or never. */
  turnTheme() {
    const chosen = this.isDark ? "light" : "dark";
    byId("theme").dataset.chosen = chosen;
    document.documentElement.style.colorScheme = chosen;
    for (const rule of [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])) {
      if (rule instanceof CSSMediaRule && (rule.media.mediaText.includes("prefers-color-scheme") || this.themed === rule)) {
        this.themed = rule;
        rule.media.mediaText = chosen === "dark" ? "screen" : "not all";
      }
    }
    this.repaint();
  }

  repaint() {
    const css = getComputedStyle(document.documentElement);
    const names = ["ground", "surface", "line", "text", "soft", "copy", "accent", "wash"];
    const colours = Object.fromEntries(names.map((name) => [name, hexColour(css.getPropertyValue(`--${name}`).trim())]));
    const [looks, lookOf] = BOX_MODES[byId("mode").value](this.model);
    const mode = new BoxMode(looks, lookOf, this.model, colours.copy);
    this.lanes.setLooks(mode, { ...colours, lane: mix(colours.wash, colours.surface, 0.55), isDark: isDark(colours.surface) });
    const kinds = mode.looks.filter((_, number) => mode.used.has(number));
    byId("legend").replaceChildren(...kinds.map((each) => element("span", {}, [element("img", { src: barImage([[each, 1]], 16, 12), alt: "", width: 16, height: 12 }), each.label])));
    this.panel.show(this.chosen, mode);
  }

  /** The lanes are as high as what is in them, up to a share of the window. */
  fitHeight() {
    const isNarrow = innerWidth <= 900;
    const height = Math.round(Math.min(this.lanes.height, Math.max(240, innerHeight * (isNarrow ? 0.6 : 0.66))));
    byId("lanes").style.height = `${height}px`;
    byId("panel").style.maxHeight = isNarrow ? "" : `${Math.max(height, 320)}px`;
    this.lanes.draw();
  }

  /** What is under the pointer. */
  tell(found, event) {
    const tip = byId("tip");
    const lines = found ? this.linesOf(found) : [];
    tip.hidden = !lines.length;
    if (tip.hidden || !event) return;
    tip.replaceChildren(...lines.map((line, i) => element("p", { className: i > 1 ? "sub" : "" }, [line])));
    const { offsetWidth, offsetHeight } = tip;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - offsetWidth - 8))}px`;
    tip.style.top = `${event.clientY + 18 + offsetHeight > innerHeight ? event.clientY - offsetHeight - 12 : event.clientY + 18}px`;
  }

  linesOf({ strip, box, time }) {
    const { model } = this;
    if (strip.kind === "curve") {
      const held = model.held(strip.curve, time);
      return held === null ? [] : [`${bytesText(held)} in use on ${model.short[strip.curve.device]}`, `at ${secondsText(time, 4)}`];
    }
    if (box === NONE) return [];
    const span = spanOf(box);
    const [start, end] = [model.boxStart(box), model.boxEnd(box)];
    const mark = model.isUncertain(span) ? "?" : "";
    const lines = [element("strong", {}, [model.name(span)]), (isLaunch(box) ? "launch of " : "") + model.kind(span)];
    lines.push(`${secondsText(end - start)}${isLaunch(box) ? "" : mark}, from ${secondsText(start, 4)} to ${secondsText(end, 4)}`);
    if (!model.isTransfer(span) && !isLaunch(box)) {
      const [, low, high] = model.cost(span);
      lines.push(`interval ${secondsText(low)} – ${secondsText(high)}${mark ? ", host assumed" : ""}`);
    } else if (model.isTransfer(span)) lines.push(bytesText(model.cost(span)[0]));
    if (this.lanes.onPath.has(box)) lines.push("on the critical path");
    return lines;
  }

  // --- what the user does

  toggle(name) {
    const isOn = byId(name).getAttribute("aria-pressed") !== "true";
    byId(name).setAttribute("aria-pressed", isOn);
    if (name === "lit") this.lanes.isLit = isOn;
    else this.lanes.hasArrows = isOn;
    this.lanes.draw();
  }

  listen() {
    const { axis } = this;
    const clicks = {
      nearer: () => axis.zoom(ZOOM),
      farther: () => axis.zoom(1 / ZOOM),
      fit: () => axis.fit(),
      lit: () => this.toggle("lit"),
      arrows: () => this.toggle("arrows"),
      theme: () => this.turnTheme(),
      help: () => byId("keys").showModal(),
    };
    for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", act);
    byId("mode").addEventListener("change", () => this.repaint());
    for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", () => this.repaint());
    addEventListener("beforeprint", () => this.lanes.paint());
    addEventListener("hashchange", () => this.followAddress());
    addEventListener("resize", () => this.fitHeight());
    byId("lanes").addEventListener("keydown", (event) => this.pressedInLanes(event));
    addEventListener("keydown", (event) => this.pressed(event));
  }

  pressed(event) {
    if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    const { axis } = this;
    const keys = {
      "/": () => byId("search").focus(),
      "?": () => byId("keys").showModal(),
      "+": () => axis.zoom(ZOOM, this.focusTime()),
      "=": () => axis.zoom(ZOOM, this.focusTime()),
      "-": () => axis.zoom(1 / ZOOM, this.focusTime()),
      f: () => axis.fit(),
      "[": () => axis.pan(-axis.length / 5),
      "]": () => axis.pan(axis.length / 5),
      n: () => this.along(1),
      p: () => this.along(-1),
      w: () => this.toCause(),
      c: () => this.toggle("lit"),
      a: () => this.toggle("arrows"),
      t: () => this.turnTheme(),
      Escape: () => this.select(NONE),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  /** Where the keys zoom: at what is selected, if that is seen. */
  focusTime() {
    const time = this.chosen === NONE ? NaN : (this.model.start[this.chosen] + this.model.end[this.chosen]) / 2;
    return time >= this.axis.from && time <= this.axis.to ? time : undefined;
  }

  toCause() {
    if (this.chosen === NONE) return;
    const { before, launchBefore, spans } = this.model;
    const cause = spans.wait[this.chosen] === WAIT.launch ? launchBefore[this.chosen] : before[this.chosen];
    if (cause !== NONE) this.select(cause);
  }

  pressedInLanes(event) {
    const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (way && !event.shiftKey) {
      const next = this.lanes.neighbour(...way);
      if (next !== NONE) this.select(next, false);
    } else if (event.key === "Enter") this.zoomTo(this.chosen);
    else return;
    event.preventDefault();
  }
}

/** A colour of the styles, as `mix` reads it. */
function hexColour(text) {
  return /^#[0-9a-f]{3}$/i.test(text) ? "#" + [...text.slice(1)].map((digit) => digit + digit).join("") : text;
}

/** The search field: nodes and tensors whose name, op or device has all the words. */
class SpanFinder {
  constructor(model, take) {
    Object.assign(this, { model, field: byId("search"), box: byId("found"), at: 0, found: [] });
    this.take = (span) => {
      this.field.blur();
      this.close();
      take(span);
      document.querySelector(".lanes-canvas").focus({ preventScroll: true });
    };
    for (const kind of ["input", "focus"]) this.field.addEventListener(kind, () => this.search());
    this.field.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.field.addEventListener("keydown", (event) => this.pressed(event));
    this.box.addEventListener("mousedown", (event) => {
      const row = event.target.closest("[data-span]");
      event.preventDefault();
      if (row) this.take(Number(row.dataset.span));
    });
  }

  /** The first run of each that has all words, whole names before others. */
  find(words) {
    const { model } = this;
    const matches = (text) => words.every((word) => text.includes(word));
    const [whole, others, seen] = [[], [], new Set()];
    for (let span = 0; span < model.count && others.length < 20 * MAX_FOUND; span++) {
      const key = model.spans.name[span] * model.devices.length + model.spans.device[span];
      if (seen.has(key)) continue;
      const name = model.name(span).toLowerCase();
      if (!matches(`${name} ${model.kind(span)} ${model.device(span)}`.toLowerCase())) continue;
      seen.add(key);
      (name === words[0] || name.split("/").pop() === words[0] ? whole : others).push(span);
    }
    return [...whole, ...others];
  }

  search() {
    const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = words.length ? this.find(words) : [];
    this.at = 0;
    const { model } = this;
    const rows = this.found.slice(0, MAX_FOUND).map((span, i) => {
      const row = element("li", { role: "option", id: `found${i}` }, [element("span", { className: "name", title: model.name(span) }, [model.name(span)]), element("small", {}, [`${model.kind(span)} · ${secondsText(model.end[span] - model.start[span])}`])]);
      row.dataset.span = span;
      return row;
    });
    if (this.found.length > rows.length) rows.push(element("li", { className: "more" }, [element("small", {}, ["and more"])]));
    if (words.length && !rows.length) rows.push(element("li", {}, [element("small", {}, ["nothing has all these words in its name, op type or device"])]));
    this.box.replaceChildren(...rows);
    this.box.hidden = !words.length;
    this.field.setAttribute("aria-expanded", !this.box.hidden);
    this.move(0);
  }

  move(by) {
    const rows = this.box.querySelectorAll("[data-span]");
    if (!rows.length) return;
    this.at = (this.at + by + rows.length) % rows.length;
    rows.forEach((row, i) => row.setAttribute("aria-selected", i === this.at));
    rows[this.at].scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", rows[this.at].id);
  }

  close() {
    this.box.hidden = true;
    this.field.setAttribute("aria-expanded", false);
    this.field.removeAttribute("aria-activedescendant");
  }

  pressed(event) {
    const keys = {
      ArrowDown: () => this.move(1),
      ArrowUp: () => this.move(-1),
      Enter: () => this.found.length && this.take(this.found[this.at]),
      Escape: () => {
        this.field.value = "";
        this.field.blur();
        this.close();
      },
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  }
}

let timing;
unpack("packed-data").then((data) => {
  timing = new TimingPage(new StepModel(JSON.parse(data)));
  document.documentElement.dataset.ready = "true";
}).catch((error) => {
  byId("error").textContent = `The page could not be drawn: ${error.message}. It needs a browser of 2023 or later.`;
  byId("error").hidden = false;
  throw error;
});
