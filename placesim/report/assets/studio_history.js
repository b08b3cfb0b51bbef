// The states that the page went through, and the edits between two of them. A state is never changed, only replaced.

const sameState = (one, two) => JSON.stringify(one) === JSON.stringify(two);

class History {
  constructor(state) {
    this.entries = [{ state, label: "start" }];
    this.at = 0;
  }

  get start() {
    return this.entries[0].state;
  }

  get now() {
    return this.entries[this.at].state;
  }

  /** Goes on from here with another state; one that `joins` takes the place of the entry before it. */
  push(state, label, joins = false) {
    this.entries.length = this.at + 1;
    if (joins && this.at) this.entries[this.at] = { state, label };
    else this.at = this.entries.push({ state, label }) - 1;
  }

  /** Goes back or forward by one entry, and returns the label of the edit that this takes back or makes again. */
  step(by) {
    const to = this.at + by;
    if (to < 0 || to >= this.entries.length) return null;
    const { label } = this.entries[Math.max(this.at, to)];
    this.at = to;
    return label;
  }
}

/** Adds a device edit. What it covers is dropped: an edit of the same path, and with a scope those inside. */
function withDevice(state, path, device) {
  const isCovered = ([other]) => other === path || (path.endsWith("/") && other.startsWith(path));
  const kept = state.devices.filter((edit) => !isCovered(edit));
  return { ...state, devices: device === null ? kept : [...kept, [path, device]] };
}

/** Sets an option; null takes it back to the command line's value. */
function withOption(state, name, value) {
  const options = { ...state.options };
  if (value === null) delete options[name];
  else options[name] = value;
  return { ...state, options };
}

/** How many lines of one text differ from another's, between what both begin and end with. */
function linesChanged(before, after) {
  const [one, two] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < one.length && start < two.length && one[start] === two[start]) start++;
  let end = 0;
  while (end < one.length - start && end < two.length - start && one.at(-1 - end) === two.at(-1 - end)) end++;
  return [two.length - start - end, one.length - start - end];
}

/** A request in few letters, as `/gpu:1` in "GPU:1"; the empty one takes a node's own request away. */
const deviceText = (request) => request.replace(/^\/(?:device:)?(\w+:\d+)$/, (_, device) => device.toUpperCase()) || "no device";
const optionText = (value) => (value === null || value === undefined ? "not set" : value === true ? "on" : value === false ? "off" : Array.isArray(value) ? value.join(", ") || "none" : String(value));

/** The edits that lead from one state to another: `{text, edit, without}`, where `edit` is the number of a device edit or -1, and `without` makes the state that lacks it; `settings` are the options' values at the start. */
function editsBetween(start, now, fields, settings) {
  const found = [];
  if (start.text !== now.text) {
    const [added, removed] = linesChanged(start.text ?? "", now.text ?? "");
    found.push({ text: `Graph file: ${countText(added, "line")} in place of ${removed}`, edit: -1, without: (state) => ({ ...state, text: start.text }) });
  }
  for (const name of new Set([...Object.keys(start.options), ...Object.keys(now.options)])) {
    const [was, is] = [start.options[name], now.options[name]];
    if (JSON.stringify(was) === JSON.stringify(is)) continue;
    const field = fields.get(name);
    found.push({
      text: `${field?.label ?? name}: ${optionText(was ?? settings[name])} → ${optionText(is ?? settings[name])}`,
      edit: -1,
      without: (state) => withOption(state, name, was ?? null),
    });
  }
  const had = new Set(start.devices.map((edit) => JSON.stringify(edit)));
  now.devices.forEach(([path, device], edit) => {
    if (had.has(JSON.stringify([path, device]))) return;
    found.push({ text: `${path} → ${deviceText(device)}`, edit, without: (state) => withDevice(state, path, null) });
  });
  const kept = new Set(now.devices.map(([path]) => path));
  for (const [path, device] of start.devices.filter(([path]) => !kept.has(path))) {
    found.push({ text: `${path} → ${deviceText(device)} taken back`, edit: -1, without: (state) => withDevice(state, path, device) });
  }
  return found;
}
