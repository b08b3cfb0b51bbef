// The studio: a graph and a machine that are edited, and what happens then. The page keeps the states, the server answers for each.

/** How long after the last key a text is sent, and how soon a next edit of the text joins the one before, in milliseconds. */
const TYPING_MS = 250;
const JOIN_MS = 2000;
const TYPED = "text edited";

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
    this.lanesOf = new WeakMap();
    this.lanes = new StepView({
      select: (path) => this.graph.numbers.has(path) && this.select(path, false),
      redraw: () => this.showLanes(),
    });
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
      explain: (node) => this.server.ask("explain", { state: this.asked, node }),
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
    if (start.baseline_lanes) this.lanesOf.set(start.baseline_state, start.baseline_lanes);
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
      if (this.shown !== state || !this.isLive) return this.isLive ? undefined : this.showMeasure(this.start.measure);
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
    this.showProblems(problems, error);
    this.showErrors(error, state.text === null ? problems : [], warnings);
    if (picture) {
      this.asked = state;
      this.words.placement = this.graph = new Placement(picture);
      this.machine?.show(state.options, answer.settings, this.graph.short);
    }
    const isStale = this.placement ? !picture || this.graph.isPartial : false;
    document.body.classList.toggle("stale", isStale);
    if (isStale) {
      this.showPanel();
      this.showHeadline();
      const why = picture ? "TensorFlow refuses the graph" : `The graph can't be read: ${countText(problems.length, "error")}`;
      this.tell(`${this.said ? `${this.said}. ` : ""}${why}. The last placement stays.`);
      return;
    }
    this.shown = state;
    this.placement = this.graph;
    this.placements.set(state, this.placement);
    this.board.show(this.placement, changes, state.devices, answer.devices);
    const before = this.placements.get(compared);
    this.changes.show(changes, this.placement, before, this.isAgainstStart || !this.isLive ? "start" : "last edit");
    this.showPanel();
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
    const again = changes.added.filter((name) => placementBefore?.numbers.has(name)).length;
    if (again) parts.push(`${again} placed again`);
    if (changes.added.length > again) parts.push(`${changes.added.length - again} added`);
    if (changes.removed.length) parts.push(`${changes.removed.length} removed`);
    if (before !== after) parts.push(`${Math.abs(after - before)} ${after > before ? "more" : "fewer"} copied between devices`);
    return parts.join(", ");
  }

  showProblems(problems, error) {
    const marked = [...problems, ...(error ? [{ ...error, message: unmarked(error.summary), help: [] }] : [])];
    this.editor?.setProblems(marked.filter(({ line }) => line > 0).map((problem) => ({ ...problem, message: [problem.message, ...problem.help].join("\n") })));
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
    this.lanesOf.set(this.shown, measure.lanes);
    const { error, assumptions, lanes } = measure;
    byId("step").hidden = !measure.now;
    byId("step-note").textContent = error?.summary ?? (lanes ? "" : "The step has too many parts to draw.");
    byId("assumptions").hidden = !assumptions.length;
    byId("assumptions").lastElementChild.replaceChildren(...assumptions.map((line) => element("li", {}, [line])));
    this.showLanes();
    const { now, before } = measure;
    if (now && this.said) {
      const took = before && isOtherTime(before.step.seconds, now.step.seconds) ? ` instead of ${secondsText(before.step.seconds)}` : "";
      this.tell(`${this.news}. A step takes ${secondsText(now.step.seconds)}${took}.`);
    }
  }

  showHeadline() {
    const { now, before, note, error } = this.measure ?? {};
    if (this.answer.error || !now) return byId("headline").replaceChildren(this.answer.error ? "There is no step: TensorFlow refuses the graph." : note ?? "");
    const { seconds, low, high, bound, bound_reason: why } = now.step;
    const was = before?.step.seconds;
    const change = was && isOtherTime(was, seconds) ? [`, ${secondsText(was)} before: `, element("span", { className: seconds < was ? "better" : "worse" }, [`${shareText(Math.abs(seconds - was) / was)} ${seconds < was ? "less" : "more"}`])] : [];
    byId("headline").replaceChildren("A step takes ", element("strong", {}, [secondsText(seconds)]), ...change, ...(error ? [element("span", { className: "over" }, [", but a device has too little memory (the time is without limits)"])] : []), element("span", { className: "sub" }, [` (${secondsText(low)} to ${secondsText(high)}; at least ${secondsText(bound)}${why ? `: ${why}` : ""})`]));
    return undefined;
  }

  /** Draws the lanes, and above them those of the state that is compared with, if they are asked for. */
  async showLanes() {
    const { lanes, before } = this.measure;
    const { compared } = this;
    const hasBefore = Boolean(lanes && before && !sameState(compared, this.shown));
    byId("lanes-before").hidden = !hasBefore;
    const draw = (earlier) => this.lanes.show(lanes, earlier, before?.step.seconds ?? 0, [...this.board.chosen][0]);
    const known = this.lanesOf.get(compared);
    const isWanted = hasBefore && this.lanes.hasBefore;
    draw(isWanted ? known : null);
    if (!isWanted || known) return;
    const { measure } = this;
    const found = await this.server.ask("measure", { state: compared }).catch(() => null);
    if (!found) return;
    this.lanesOf.set(compared, found.lanes);
    if (measure === this.measure) draw(found.lanes);
  }

  repaint() {
    this.board.drawLinks();
    this.lanes.repaint();
  }

  // --- what is chosen

  choose(paths, isFromLanes = false) {
    this.showPanel();
    if (!isFromLanes) this.lanes.choose(paths[0]);
  }

  select(path, isInLanes = true) {
    if (!this.graph.nodesAt(path).length) return;
    this.board.reveal(path);
    this.board.choose([path], false);
    this.choose([path], !isInLanes);
    const devices = this.graph.devicesAt(path).map(([name]) => name).join(", ");
    this.tell(`${path}: ${devices}`);
  }

  explain(path) {
    this.board.choose([path]);
    byId("panel").focus();
  }

  showPanel() {
    if (this.placement) this.panel.show([...this.board.chosen].filter((path) => this.graph.nodesAt(path).length), this.graph, this.asked.devices);
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
      const { graph } = this;
      const paths = graph.nodes.name.filter((_, node) => graph.lineOf(node) === line);
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
    const results = this.asked === history.now ? this.answer?.edits ?? [] : [];
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
