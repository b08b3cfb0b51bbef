// The search for a faster placement: its settings, its best so far as it improves, and its edits to accept.

const CURVE_SIZE = [300, 70];

class PlanPanel {
  /** `actions`: `start(search)`, `stop()`, `preview(state or null)`, `accept(state, label)`, `requested()` (how many device edits there are), `chosen()` (the paths that are selected), `tell(text)`. */
  constructor(actions) {
    Object.assign(this, { actions, section: byId("plan"), body: byId("plan-body"), isRunning: false });
    byId("plan-open").addEventListener("click", () => this.toggle());
  }

  toggle(isOpen = this.section.hidden) {
    if (!isOpen && this.isRunning) this.actions.stop();
    if (!isOpen) this.actions.preview(null);
    this.section.hidden = !isOpen;
    byId("plan-open").setAttribute("aria-expanded", isOpen);
    if (isOpen) this.ask();
    else byId("plan-open").focus();
  }

  /** The settings of a search. */
  ask() {
    const seconds = element("input", { type: "number", id: "plan-seconds", min: 1, max: 3600, value: this.seconds ?? 10 });
    const free = element("select", { id: "plan-free" }, [
      element("option", { value: "*", textContent: "all nodes" }),
      ...(this.actions.chosen().length ? [element("option", { value: "chosen", textContent: "the selection, and nodes without a request" })] : []),
      element("option", { value: "", textContent: "nodes without a request" }),
    ]);
    const go = element("button", { type: "button", id: "plan-start", className: "main", textContent: "Start" });
    go.addEventListener("click", () => {
      this.seconds = Number(seconds.value) || 10;
      this.begin({ free: free.value === "chosen" ? this.actions.chosen() : free.value ? ["*"] : [], seconds: this.seconds });
    });
    const field = (text, input) => element("div", { className: "field" }, [element("label", { htmlFor: input.id }, [text]), input]);
    this.body.replaceChildren(element("div", { className: "fields" }, [field("Move", free), field("Seconds", seconds), go, this.closeButton()]));
    go.focus();
  }

  closeButton() {
    const found = element("button", { type: "button", textContent: "Close" });
    found.addEventListener("click", () => this.toggle(false));
    return found;
  }

  begin(search) {
    Object.assign(this, { isRunning: true, points: [], found: null });
    this.bar = element("progress", { id: "plan-progress", max: search.seconds, value: 0 });
    this.bar.setAttribute("aria-label", "Time of the search");
    this.line = element("p", { id: "plan-line" }, ["Searching …"]);
    this.curve = element("div", { className: "plan-curve" });
    this.edits = element("div", { id: "plan-edits" });
    const stop = element("button", { type: "button", id: "plan-stop", textContent: "Stop" });
    stop.addEventListener("click", () => this.actions.stop());
    this.body.replaceChildren(element("div", { className: "plan-running" }, [this.bar, stop]), this.line, this.curve, this.edits);
    stop.focus();
    this.actions.start(search);
  }

  progress({ seconds, limit, value, bound }) {
    if (!this.isRunning) return;
    Object.assign(this.bar, { max: limit, value: Math.min(seconds, limit) });
    this.line.textContent = `${value === null ? "Searching" : `Best so far ${secondsText(value)}, at least ${secondsText(bound)}`} (${Math.round(seconds)} of ${Math.round(limit)} s)`;
    if (value !== null) this.addPoint(seconds, value, bound, limit);
  }

  addPoint(seconds, value, bound, limit) {
    this.points.push([seconds, value]);
    this.drawCurve(bound, limit);
  }

  /** The best value over the time of the search, and the bound below it. */
  drawCurve(bound, limit) {
    const [width, height] = CURVE_SIZE;
    const values = this.points.map(([, value]) => value);
    const [most, least] = [Math.max(...values, this.found?.before ?? 0), Math.min(bound || values[0], ...values)];
    const x = (seconds) => (width * Math.min(seconds, limit)) / limit;
    const y = (value) => 4 + (height - 8) * (most === least ? 0.5 : (most - value) / (most - least));
    const path = this.points.map(([seconds, value], i) => (i ? `H${x(seconds).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(seconds).toFixed(1)} ${y(value).toFixed(1)}`)).join("");
    this.curve.replaceChildren(draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `Best value over time: ${secondsText(values[0])} at first, ${secondsText(values.at(-1))} now` },
      draw("path", { class: "bound", d: `M0 ${y(least)}H${width}` }), draw("path", { class: "best", d: `${path}H${x(this.points.at(-1)[0]).toFixed(1)}` })));
  }

  /** A better plan was found, and is drawn on the devices. */
  best(found) {
    if (!this.isRunning) return;
    this.found = found;
    this.listEdits(false);
    if (found.base) this.actions.preview(this.accepted());
  }

  done(found) {
    if (!this.isRunning) return; // the search of another tab
    this.isRunning = false;
    this.found = found;
    const { base, edits, value, before, bound, note, is_interrupted: isStopped } = found;
    const isBetter = before === null || (value < before && isOtherTime(value, before));
    const change = before === null ? "" : `, ${shareText((before - value) / before)} less than ${secondsText(before)}`;
    const result = !base ? "No plan." : !edits.length || !isBetter ? `Nothing faster was found than ${secondsText(value)}` : `A step takes ${secondsText(value)} with this plan${change}`;
    this.line.textContent = [isStopped ? "Stopped." : "", base ? `${result}; no plan takes less than ${secondsText(bound)}.` : result, note].filter(Boolean).join(" ");
    this.actions.tell(`The search has ended. ${this.line.textContent}`);
    this.body.querySelector(".plan-running")?.remove();
    this.listEdits(true);
    if (base) this.actions.preview(this.accepted());
  }

  failed(problem) {
    this.isRunning = false;
    this.body.replaceChildren(element("p", { className: "over" }, [problem]), this.closeButton());
  }

  /** The plan's edits; at the end each can be left out. */
  listEdits(isDone) {
    const { base, edits } = this.found;
    const rows = edits.map((edit, i) => {
      const id = `plan-edit-${i}`;
      const box = element("input", { type: "checkbox", id, checked: true, disabled: !isDone });
      box.addEventListener("change", () => this.actions.preview(this.accepted()));
      return element("li", {}, [box, element("label", { htmlFor: id }, [`${edit.title} → ${edit.device}`]), element("span", { className: "size" }, [countText(edit.nodes, "node")])]);
    });
    const dropped = base ? base.devices.slice(this.actions.requested()).map(([path]) => (path === "*" ? "all nodes" : path)) : [];
    const parts = rows.length ? [element("p", { className: "sub" }, [dropped.length ? `The requests of ${dropped.join(", ")} are dropped, and then:` : "Beside the present requests:"]), element("ul", { className: "items" }, rows)] : [];
    if (isDone) {
      const accept = element("button", { type: "button", id: "plan-accept", className: "main", textContent: "Accept" });
      accept.addEventListener("click", () => {
        this.actions.accept(this.accepted(), "plan accepted");
        this.toggle(false);
      });
      const again = element("button", { type: "button", textContent: "Search again" });
      again.addEventListener("click", () => {
        this.actions.preview(null);
        this.ask();
      });
      parts.push(element("div", { className: "buttons" }, [...(base && edits.length ? [accept] : []), again, this.closeButton()]));
    }
    this.edits.replaceChildren(...parts);
    if (isDone) this.edits.querySelector("button")?.focus();
  }

  /** The state with the edits that are ticked. */
  accepted() {
    const { base, edits } = this.found;
    const boxes = [...this.edits.querySelectorAll("input")];
    const taken = edits.filter((_, i) => boxes[i]?.checked ?? true);
    return { ...base, devices: [...base.devices, ...taken.flatMap(({ devices }) => devices)] };
  }
}
