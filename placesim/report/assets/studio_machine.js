// The machine and the options of the session as fields.

/** Options that are always seen; the others are behind "More". */
const FIRST_OPTIONS = ["gpu", "gpu_model", "link", "batch", "soft_placement"];

class MachineForm {
  /** `start` has the options that the server offers, and their first values; `change(name, value)` is called with null where a field is emptied. */
  constructor({ options: fields, gpu_models: gpuModels, state }, change) {
    Object.assign(this, { fields, gpuModels, change, first: state.options, container: byId("machine"), inputs: new Map() });
    this.container.addEventListener("submit", (event) => event.preventDefault());
    const rank = ({ name }) => FIRST_OPTIONS.indexOf(name);
    const first = fields.filter((field) => rank(field) >= 0).sort((a, b) => rank(a) - rank(b));
    const others = fields.filter((field) => rank(field) < 0);
    this.container.append(...first.map((field) => this.field(field)));
    if (others.length) this.container.append(element("details", { id: "more-options" }, [element("summary", {}, ["Session options"]), element("div", { className: "fields" }, others.map((field) => this.field(field)))]));
    if (gpuModels.length) {
      const note = ([name, bytes, capability]) => element("option", { value: name, label: `${bytesText(bytes)}, compute capability ${capability}` });
      this.container.append(element("datalist", { id: "gpu-models" }, gpuModels.map(note)));
    }
  }

  field(field) {
    const { name, label, help } = field;
    if (name === "link") {
      this.links = new LinkForm((texts) => this.change("link", texts.length ? texts : null));
      return this.links.element;
    }
    const id = `option-${name}`;
    const input = this.input(field);
    Object.assign(input, { id, title: help });
    this.inputs.set(name, input);
    const caption = element("label", { htmlFor: id, title: help }, [label]);
    const parts = field.kind === "flag" ? [input, caption] : [caption, input];
    if (field.kind === "count" && name === "gpu") parts.push(this.stepButton(input, -1, "Remove a GPU"), this.stepButton(input, 1, "Add a GPU"));
    return element("div", { className: `field ${field.kind}` }, parts);
  }

  input({ name, kind, choices }) {
    const tell = (value) => this.change(name, value);
    if (kind === "flag") {
      const found = element("input", { type: "checkbox" });
      found.addEventListener("change", () => tell(found.checked));
      return found;
    }
    if (kind === "choice") {
      const found = element("select", {}, [element("option", { value: "" , textContent: "as in the file" }), ...choices.map((choice) => element("option", { value: choice, textContent: choice }))]);
      found.addEventListener("change", () => tell(found.value || null));
      return found;
    }
    const found = element("input", { type: kind === "count" ? "number" : "text", autocomplete: "off", spellcheck: false });
    if (kind === "count") Object.assign(found, { min: 0, step: 1 });
    if (name === "gpu_model" && this.gpuModels.length) found.setAttribute("list", "gpu-models");
    if (kind === "texts") found.placeholder = "separated by ;";
    found.addEventListener("change", () => tell(this.valueOf(kind, found.value.trim())));
    return found;
  }

  valueOf(kind, text) {
    if (!text) return null;
    if (kind === "count") return Number(text);
    return kind === "texts" ? text.split(";").map((part) => part.trim()).filter(Boolean) : text;
  }

  stepButton(input, by, title) {
    const found = element("button", { type: "button", className: "step", textContent: by > 0 ? "+" : "−", title });
    found.setAttribute("aria-label", title);
    found.addEventListener("click", () => {
      const next = Number(input.value || 0) + by;
      if (next >= 0) this.change("gpu", next);
    });
    return found;
  }

  /** `options` are those of the state, `settings` the values in effect, `ends` the devices that links may join. */
  show(options, settings, ends) {
    this.links.show(options.link ?? [], ends);
    this.links.element.classList.toggle("changed", optionText(options.link) !== optionText(this.first.link));
    for (const { name, kind } of this.fields.filter((field) => field.name !== "link")) {
      const input = this.inputs.get(name);
      const shown = options[name] ?? settings[name] ?? null;
      if (kind === "flag") input.checked = shown === true;
      else input.value = Array.isArray(shown) ? shown.join("; ") : shown ?? "";
      input.closest(".field").classList.toggle("changed", optionText(options[name]) !== optionText(this.first[name]));
    }
  }
}
