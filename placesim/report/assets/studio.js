// The studio: a graph and a machine that are edited, and what happens then. The page keeps the states, the server answers for each.

/** How long after the last key a text is sent, and how soon a next edit of the text joins the one before, in milliseconds. */
const TYPING_MS = 250;
const JOIN_MS = 2000;
const TYPED = "text edited";
const LANES_LEAST = 150;

class StudioPage {
  constructor(start) {
    this.start = start;
    this.isLive = start.is_live;
    document.body.classList.toggle("shared", !this.isLive);
    this.fields = new Map(start.options.map((field) => [field.name, field]));
    this.history = new History(start.state);
    this.baseline = start.baseline_state;
    this.shown = this.kept = start.state;
    this.server = new Server();
    this.answers = new Answers();
    this.measures = new Answers();
    this.placements = new WeakMap();
    this.words = new GraphWords();
    this.board = new Board({
      choose: (paths) => this.choose(paths),
      explain: (path) => this.explain(path),
      move: (paths, device) => this.move(paths, this.requestOf(device)),
      offer: (paths, near) => this.offerDevices(paths, near),
    }, this.isLive);
    this.changes = new ChangesView({ select: (path) => this.select(path) });
    this.panel = new SelectionPanel({
      select: (path) => this.select(path),
      offer: (paths, near) => this.offerDevices(paths, near),
      unset: (paths) => this.edit(paths.reduce((state, path) => withDevice(state, path, null), this.now), `${paths.join(", ")}: edit taken back`),
      goTo: start.state.text === null ? null : (line) => this.goTo(line),
      explain: (node) => this.server.ask("explain", { state: this.shown, node }),
      apply: ({ text, line, devices, options }) => !devices && !options ? this.goTo(line) : this.edit({ ...this.now, devices: [...this.now.devices, ...(devices ?? [])], options: { ...this.now.options, ...options } }, text),
    }, this.isLive);
    this.theme = new Theme(() => this.repaint());
    offerPictures(() => new Drawn(byId("work")));
    byId("source-name").textContent = start.name;
    if (this.isLive) this.beginEditing();
    else this.showText(start.state.text);
    this.listen();
    this.answers.put(start.state, start.baseline_state, start.answer);
    if (start.measure) this.measures.put(start.state, start.baseline_state, start.measure);
    this.refresh(start.state);
  }

  get now() {
    return this.history.now;
  }

  // --- states and their answers

  /** Goes on with another state; `joins` takes the place of the edit before it. */
  edit(state, label, joins = false) {
    if (sameState(state, this.now)) return;
    this.put(state, label, joins);
    this.refresh(state);
  }

  put(state, label, joins) {
    if (!joins) this.baseline = this.isPreview ? this.now : this.shown;
    this.markPreview(false);
    this.history.push(state, label, joins);
    this.said = label;
  }

  step(by) {
    const label = this.history.step(by);
    if (label === null) return;
    this.baseline = this.shown;
    this.markPreview(false);
    this.said = `${by < 0 ? "Undone" : "Made again"}: ${label}`;
    this.refresh(this.now);
  }

  /** The state with which the shown one is compared. */
  get compared() {
    return this.isAgainstStart ? this.history.start : this.baseline;
  }

  async ask(route, kept, state, baseline) {
    const found = kept.find(state, baseline);
    if (found) return found;
    const answer = await this.server.ask(route, { state, baseline });
    if (answer) kept.put(state, baseline, answer);
    return answer;
  }

  /** Shows a state as soon as it is answered for: the placement first, then the time and the memory of its step. */
  async refresh(state) {
    clearTimeout(this.typing);
    this.typing = 0;
    this.wanted = state;
    this.showHistory();
    if (this.editor && state.text !== null) this.editor.setText(state.text);
    try {
      const { compared } = this;
      document.body.classList.add("busy");
      const answer = await this.ask("answer", this.answers, state, compared);
      if (!answer || this.wanted !== state) return;
      this.showAnswer(state, answer, compared);
      if (!answer.picture || !this.isLive) return this.isLive ? undefined : this.showMeasure(this.start.measure);
      const measure = await this.ask("measure", this.measures, state, compared);
      if (measure && this.wanted === state) this.showMeasure(measure);
    } catch (error) {
      showError(error.message);
    } finally {
      if (this.wanted === state) document.body.classList.remove("busy");
    }
    return undefined;
  }

  showAnswer(state, answer, compared) {
    const { problems, error, warnings, picture, changes } = answer;
    this.answer = answer;
    this.showProblems(problems);
    this.showErrors(error, state.text === null ? problems : [], warnings);
    document.body.classList.toggle("stale", !picture);
    if (!picture) {
      this.tell(`${this.said ? `${this.said}. ` : ""}The graph can't be read: ${countText(problems.length, "error")}. The last placement stays.`);
      return;
    }
    this.shown = state;
    this.placement = new Placement(picture);
    this.placements.set(state, this.placement);
    this.words.placement = this.placement;
    this.board.show(this.placement, changes, state.devices, answer.devices);
    const before = this.placements.get(compared);
    this.changes.show(changes, this.placement, before, this.isAgainstStart || !this.isLive ? "start" : "last edit");
    this.showPanel();
    this.machine?.show(state.options, answer.settings);
    this.showHistory();
    byId("facts").textContent = `${countText(this.placement.count, "node")} on ${countText(this.placement.devices.length, "device")}`;
    this.news = !this.isLive ? "Shared from the studio, to look at: edits and plans need placesim studio." : [this.said, this.changesText(changes, before)].filter(Boolean).join(": ");
    this.tell(this.news);
  }

  /** An error of TensorFlow's or of the options in full; warnings are folded away. */
  showErrors(error, problems, warnings) {
    showError([...(error ? [unmarked(error.text || error.summary)] : []), ...problems.map(({ message }) => message)].join("\n"));
    if (error?.node) this.offerReason(error.node);
    const box = byId("error");
    box.tabIndex = box.scrollHeight > box.clientHeight ? 0 : -1; // keys scroll it where it does not fit
    byId("warnings").hidden = !warnings.length;
    byId("warnings").firstElementChild.textContent = countText(warnings.length, "warning");
    byId("warnings").lastElementChild.replaceChildren(...warnings.map((line) => element("li", {}, [line])));
  }

  /** A way from an error to the node that it names, and to what would help there. */
  offerReason(node) {
    const button = element("button", { textContent: `Why ${node}, and what would help` });
    button.addEventListener("click", () => {
      this.select(node);
      byId("panel").focus();
    });
    byId("error").append("\n", button);
  }

  changesText(changes, placementBefore) {
    if (!changes || !this.said) return "";
    const moved = changes.moved.reduce((sum, { nodes }) => sum + nodes, 0);
    const [before, after] = ["before", "after"].map((side) => changes.transfers.reduce((sum, change) => sum + change[side][0], 0));
    const parts = [moved ? `${countText(moved, "node")} moved` : "no node moved"];
    const lost = changes.removed.filter((name) => this.placement.numbers.has(name)).length;
    const again = changes.added.filter((name) => placementBefore?.numbers.has(name)).length;
    if (again) parts.push(`${again} placed again`);
    if (changes.added.length > again) parts.push(`${changes.added.length - again} added`);
    if (lost) parts.push(`${lost} not placed any more`);
    if (changes.removed.length > lost) parts.push(`${changes.removed.length - lost} removed`);
    if (before !== after) parts.push(`${Math.abs(after - before)} ${after > before ? "more" : "fewer"} copied between devices`);
    return parts.join(", ");
  }

  showProblems(problems) {
    this.editor?.setProblems(problems.filter(({ line }) => line > 0).map((problem) => ({ ...problem, message: [problem.message, ...problem.help].join("\n") })));
    byId("problems").replaceChildren(...(this.start.state.text === null ? [] : problems).map(({ line, column, message }) => {
      const go = line ? actionLink(`line ${line}`, () => this.goTo(line, column)) : "";
      return element("li", {}, [go, `${line ? ": " : ""}${message}`]);
    }));
  }

  // --- the step

  showMeasure(measure) {
    this.measure = measure;
    this.board.measure(measure);
    this.showHeadline();
    if (!measure) return;
    const { lanes, error, assumptions } = measure;
    byId("step-note").textContent = error?.summary ?? "";
    byId("assumptions").hidden = !assumptions.length;
    byId("assumptions").lastElementChild.replaceChildren(...assumptions.map((line) => element("li", {}, [line])));
    this.showLanes(lanes);
    const { now, before } = measure;
    if (now && this.said) {
      const took = before && isOtherTime(before.step.seconds, now.step.seconds) ? ` instead of ${secondsText(before.step.seconds)}` : "";
      this.tell(`${this.news}. A step takes ${secondsText(now.step.seconds)}${took}.`);
    }
  }

  showHeadline() {
    const { now, before, note, error } = this.measure ?? {};
    if (!now) return byId("headline").replaceChildren(this.answer?.error ? "There is no step: TensorFlow refuses the graph." : note ?? "");
    const { seconds, low, high, bound, bound_reason: why } = now.step;
    const was = before?.step.seconds;
    const change = was && isOtherTime(was, seconds) ? [`, ${secondsText(was)} before: `, element("span", { className: seconds < was ? "better" : "worse" }, [`${shareText(Math.abs(seconds - was) / was)} ${seconds < was ? "less" : "more"}`])] : [];
    byId("headline").replaceChildren("A step takes ", element("strong", {}, [secondsText(seconds)]), ...change, ...(error ? [element("span", { className: "over" }, [", but a device has too little memory (the time is without limits)"])] : []), element("span", { className: "sub" }, [` (${secondsText(low)} to ${secondsText(high)}; at least ${secondsText(bound)}${why ? `: ${why}` : ""})`]));
    return undefined;
  }

  showLanes(document) {
    this.lanes = null;
    // a fresh place each time, so that nothing listens for the picture before
    const place = element("div", { className: "lanes" });
    byId("lanes").replaceChildren(place);
    byId("legend").replaceChildren();
    byId("step").classList.toggle("empty", !document);
    if (!document) return;
    const model = new StepModel(document);
    const was = this.measure.before?.step.seconds ?? 0;
    const axis = new TimeAxis(Math.max(model.seconds, was), model.tick);
    this.lanes = new LanesView(place, model, axis, {
      select: (span) => this.selectSpan(span),
      zoomTo: (span) => span !== NONE && this.lanes.zoomTo(span),
      hover: (found, event) => tellOf(this.lanes, found, event),
    });
    this.lanes.canvas.setAttribute("aria-label", "Timeline of the step. Select a node above to find it here.");
    this.fitLanes();
    this.repaint();
    this.chooseSpan();
  }

  fitLanes() {
    if (this.lanes) this.lanes.container.style.height = `${Math.max(LANES_LEAST, Math.min(this.lanes.height, innerHeight * 0.5))}px`;
  }

  repaint() {
    this.board.drawLinks();
    if (!this.lanes) return;
    const { colours, modes, legend } = boxLooks("op", [this.lanes.model]);
    this.lanes.setLooks(modes[0], colours);
    byId("legend").replaceChildren(...legend);
  }

  selectSpan(span) {
    if (span === NONE) return this.lanes.choose(NONE);
    const name = this.lanes.model.name(span).replace(/:\d+$/, "");
    this.lanes.choose(span);
    return this.placement.numbers.has(name) ? this.select(name, false) : undefined;
  }

  /** Marks the first run of what is chosen in the lanes. */
  chooseSpan() {
    if (!this.lanes) return;
    const { model } = this.lanes;
    const number = model.names.indexOf([...this.board.chosen][0] ?? "");
    this.lanes.choose(number < 0 ? NONE : model.spans.name.indexOf(number));
  }

  // --- what is chosen

  choose(paths, isFromLanes = false) {
    this.showPanel();
    if (!isFromLanes) this.chooseSpan();
  }

  select(path, isInLanes = true) {
    if (!this.placement.nodesAt(path).length) return;
    this.board.reveal(path);
    this.board.choose([path], false);
    this.choose([path], !isInLanes);
    const device = this.placement.devicesAt(path).map(([name]) => name).join(", ");
    this.tell(`${path} on ${device}`);
  }

  explain(path) {
    this.board.choose([path]);
    byId("panel").focus();
  }

  showPanel() {
    if (this.placement) this.panel.show([...this.board.chosen], this.placement, this.shown.devices);
  }

  // --- edits of devices

  /** A device as a request has it. */
  requestOf(device) {
    return this.board.facts[device].request;
  }

  move(paths, request) {
    const state = paths.reduce((before, path) => withDevice(before, path, request), this.now);
    const what = paths.length > 2 ? `${paths[0]} and ${paths.length - 1} others` : paths.join(" and ");
    this.edit(state, `${what} to ${deviceText(request)}`);
  }

  /** A menu of the devices to move to, below `near`. */
  offerDevices(paths, near) {
    const { devices } = this.placement;
    const edited = new Set(this.now.devices.map(([path]) => path));
    const entries = devices.map(({ short }, device) => [short, () => this.move(paths, this.requestOf(device)), swatch(this.board.looks[device])]);
    if (paths.some((path) => edited.has(path))) entries.push(["Take the edit back", () => this.edit(paths.reduce((state, path) => withDevice(state, path, null), this.now), `${paths.join(", ")}: edit taken back`)]);
    openMenu(`Move ${paths.length > 1 ? `${paths.length} selected` : paths[0]} to`, entries, near);
  }

  // --- the left side

  beginEditing() {
    const { text } = this.start.state;
    if (text === null) byId("source").classList.add("textless");
    else {
      this.editor = StudioEditor.create(byId("editor"), {
        text,
        label: `Graph file ${this.start.name}`,
        complete: (shown, position, isExplicit) => this.words.complete(shown, position, isExplicit),
        tell: (shown, position) => this.words.tell(shown, position),
        changed: (changed) => this.typed(changed),
        moved: (line) => this.lookAt(line),
      });
      fetch("language").then((response) => response.json()).then((language) => this.words.learn(language), () => {});
    }
    this.machine = new MachineForm(this.start, (name, value) => this.setOption(name, value));
    this.plan = new PlanPanel({
      start: (search) => this.startPlan(search),
      stop: () => this.server.ask("plan/stop", { state: this.now }).catch(() => {}),
      preview: (state) => this.preview(state),
      accept: (state, label) => this.edit(state, label),
      requested: () => this.now.devices.length,
      chosen: () => [...this.board.chosen],
      tell: (said) => this.tell(said),
    });
    this.saves = new SaveMenu(this);
    this.server.listen({
      "plan-progress": (progress) => this.plan.progress(progress),
      "plan-best": (found) => this.plan.best(found),
      "plan-done": (found) => this.plan.done(found),
    });
  }

  showText(text) {
    byId("editor").append(element("pre", { className: "text", tabIndex: 0 }, [text ?? "The source is no graph file."]));
  }

  /** A text is a state at once, so that no other edit misses it, but it is asked about only after a pause. */
  typed(text) {
    const isNear = performance.now() - (this.typedAt ?? -Infinity) < JOIN_MS;
    const { label } = this.history.entries[this.history.at];
    this.typedAt = performance.now();
    this.put({ ...this.now, text }, TYPED, label === TYPED && (isNear || this.answer.problems.length > 0));
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.refresh(this.now), TYPING_MS);
  }

  /** Marks the nodes that a line of the text makes. */
  lookAt(line) {
    clearTimeout(this.looking);
    this.looking = setTimeout(() => {
      const { nodes } = this.placement;
      const paths = nodes.name.filter((_, node) => this.placement.lineOf(node) === line);
      if (paths.length) this.board.choose(paths.slice(0, ROWS_LISTED));
    }, TYPING_MS);
  }

  setOption(name, value) {
    const { label } = this.fields.get(name);
    this.edit(withOption(this.now, name, value), `${label}: ${optionText(value)}`);
  }

  goTo(line, column = 1) {
    this.editor?.goTo(line, column);
    this.editor?.focus();
  }

  showHistory() {
    const { history } = this;
    byId("undo").disabled = !history.at;
    byId("redo").disabled = history.at === history.entries.length - 1;
    const edits = editsBetween(this.isLive ? history.start : this.start.baseline_state, this.isLive ? history.now : this.start.state, this.fields, this.start.answer.settings);
    const results = this.shown === history.now ? this.answer?.edits ?? [] : [];
    const focused = [...byId("edits").querySelectorAll("button")].indexOf(document.activeElement);
    byId("edits").replaceChildren(...(edits.length ? edits.map((each) => this.editRow(each, results)) : [element("li", { className: "sub" }, ["none"])]));
    if (focused < 0) return;
    const buttons = byId("edits").querySelectorAll("button");
    (buttons[Math.min(focused, buttons.length - 1)] ?? byId("undo")).focus();
  }

  editRow({ text, edit, without }, results) {
    const parts = [element("span", { className: "edit-text" }, [text])];
    if (edit >= 0 && results[edit]?.problem) parts.push(element("span", { className: "over" }, [results[edit].problem]));
    if (this.isLive) {
      const remove = element("button", { textContent: "×", title: "Remove this edit" });
      remove.setAttribute("aria-label", `Remove: ${text}`);
      remove.addEventListener("click", () => this.edit(without(this.now), `removed: ${text}`));
      parts.push(remove);
    }
    return element("li", {}, parts);
  }

  // --- the plan

  startPlan(search) {
    this.server.ask("plan", { state: this.now, baseline: null, search }).catch((error) => this.plan.failed(error.message));
  }

  /** Draws another state without making it an edit; null for the present one again. */
  preview(state) {
    if (!state && !this.isPreview) return;
    this.markPreview(state !== null);
    this.said = state ? "Plan" : "Without the plan";
    this.baseline = state ? this.now : this.shown;
    this.refresh(state ?? this.now);
  }

  markPreview(isPreview) {
    this.isPreview = isPreview;
    document.body.classList.toggle("preview", isPreview);
  }

  // --- what the user does

  tell(text) {
    byId("said").textContent = text;
  }

  toggleAgainst() {
    this.isAgainstStart = !this.isAgainstStart;
    byId("against").setAttribute("aria-pressed", this.isAgainstStart);
    this.said = this.isAgainstStart ? "Compared with the start" : "Compared with the last edit";
    this.refresh(this.wanted);
  }

  listen() {
    addEventListener("resize", () => this.fitLanes());
    listenToClicks({ help: () => byId("keys").showModal() });
    if (!this.isLive) return;
    listenToClicks({
      undo: () => this.step(-1),
      redo: () => this.step(1),
      against: () => this.toggleAgainst(),
    });
    listenToKeys({
      "?": () => byId("keys").showModal(),
      b: () => this.toggleAgainst(),
      e: () => this.editor?.focus(),
      g: () => this.board.focus(),
      p: () => this.plan.toggle(),
      s: () => this.saves.offer(),
      Escape: () => this.board.choose([]),
    });
    // a browser asks before it closes a page with edits that are saved nowhere
    addEventListener("beforeunload", (event) => this.now !== this.kept && event.preventDefault());
    addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || event.target.closest?.(".cm-editor, input[type=text], input[type=number]")) return;
      const key = event.key.toLowerCase();
      if (key !== "z" && key !== "y") return;
      event.preventDefault();
      this.step(key === "z" && !event.shiftKey ? -1 : 1);
    });
  }
}

/** An error of TensorFlow's without its marks of nodes. */
const unmarked = (text) => text.replaceAll(/\{\{\w+ ([^}]*)\}\}/g, "$1");

/** Whether two times differ by more than is shown of them. */
const isOtherTime = (one, other) => secondsText(one) !== secondsText(other);

let studio;
async function main() {
  const start = JSON.parse(await unpack("packed-data"));
  studio = new StudioPage(start);
}

begin(main());
