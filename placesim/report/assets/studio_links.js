// The links of the machine as a list, and a small form that adds one; what is wrong is told at its field.

const LINK_TEXT = /^([^-><=]+?)\s*(->|>|-)\s*([^-><=]+)=([^@]+)(?:@(.+))?$/;
const BANDWIDTH = /^(free|none|PCIe\s*[1-5](\.0)?\s*x\s*(1|2|4|8|12|16|32)|\d+(\.\d+)?(e[+-]?\d+)?\s*([kMGT]?(B\/s|bit\/s)|[KMGT]iB\/s)?)$/i;
const LATENCY = /^(none|\d+(\.\d+)?(e[+-]?\d+)?\s*(s|ms|us|ns)?)$/i;
const HUB = /^(host|network(:[\w.]+)?|switch:[\w.]+)$/;

class LinkForm {
  /** `change(texts)` is called with all links as the option `--link` has them. */
  constructor(change) {
    Object.assign(this, { change, texts: [], ends: [] });
    this.summary = element("summary");
    this.list = element("ul", { className: "items" });
    const field = (name, label, properties = {}) => {
      const input = element("input", { type: "text", id: `link-${name}`, autocomplete: "off", spellcheck: false, ...properties });
      const wrong = element("p", { id: `link-${name}-wrong`, className: "over" });
      input.setAttribute("aria-describedby", wrong.id);
      input.addEventListener("input", () => this.mark(name, ""));
      this.fields[name] = { input, wrong };
      return element("div", { className: "link-field" }, [element("label", { htmlFor: input.id }, [label]), input, wrong]);
    };
    this.fields = {};
    this.known = element("datalist", { id: "link-ends" });
    this.isOneWay = element("input", { type: "checkbox", id: "link-one-way" });
    const parts = [
      field("from", "From", { placeholder: "GPU:0" }), field("to", "To", { placeholder: "GPU:1" }),
      field("bandwidth", "Bandwidth", { placeholder: "25GB/s" }), field("latency", "Latency", { placeholder: "default" }),
    ];
    for (const name of ["from", "to"]) this.fields[name].input.setAttribute("list", "link-ends");
    const form = element("form", { className: "fields", noValidate: true, ariaLabel: "New link" }, [
      ...parts, element("div", { className: "field flag" }, [this.isOneWay, element("label", { htmlFor: "link-one-way" }, ["one way"])]), element("button", { className: "main", textContent: "Add link" }), this.known,
    ]);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.add();
    });
    this.element = element("details", { id: "option-link" }, [this.summary, this.list, form]);
  }

  /** `texts` are the links of the state, `ends` the devices of the machine. */
  show(texts, ends) {
    Object.assign(this, { texts, ends: [...ends, "host", "network"] });
    this.summary.textContent = texts.length ? `Links (${texts.length})` : "Links";
    this.list.replaceChildren(...texts.map((text) => {
      const remove = element("button", { type: "button", textContent: "×", title: "Remove this link", ariaLabel: `Remove the link ${text}` });
      remove.addEventListener("click", () => {
        this.change(this.texts.filter((other) => other !== text));
        this.summary.focus();
      });
      return element("li", {}, [element("span", {}, [linkWords(text)]), remove]);
    }));
    this.known.replaceChildren(...this.ends.map((value) => element("option", { value })));
  }

  mark(name, problem) {
    const { input, wrong } = this.fields[name];
    wrong.textContent = problem;
    input.toggleAttribute("aria-invalid", Boolean(problem));
    return !problem;
  }

  /** Adds the link of the form, or tells at each wrong field what was expected. */
  add() {
    const values = Object.fromEntries(Object.entries(this.fields).map(([name, { input }]) => [name, input.value.trim()]));
    const problems = this.problems(values);
    for (const name of Object.keys(this.fields)) this.mark(name, problems[name] ?? "");
    const [first] = Object.keys(problems);
    if (first) return this.fields[first].input.focus();
    const { from, to, bandwidth, latency } = values;
    const ends = `${from}${this.isOneWay.checked ? ">" : "-"}${to}=`;
    const text = `${ends}${bandwidth}${latency ? `@${latency}` : ""}`;
    this.change([...this.texts.filter((other) => !other.startsWith(ends)), text]);
    for (const { input } of Object.values(this.fields)) input.value = "";
    return this.fields.from.input.focus();
  }

  problems({ from, to, bandwidth, latency }) {
    const found = {};
    for (const [name, end] of [["from", from], ["to", to]]) if (!this.isEnd(end)) found[name] = `${end ? `The machine has no ${end}` : "Name an end"}: expected ${listWords([...this.ends, "switch:NAME"])}.`;
    if (!found.to && from.toLowerCase() === to.toLowerCase() && !to.includes("*")) found.to = "A link needs two different ends.";
    if (!BANDWIDTH.test(bandwidth)) found.bandwidth = `${bandwidth ? `Cannot read ${bandwidth}` : "Give a bandwidth"}: expected 25GB/s, 100Gbit/s, PCIe 4.0 x16, free or none.`;
    if (latency && !LATENCY.test(latency)) found.latency = `Cannot read ${latency}: expected 5us, 0.1ms or none.`;
    return found;
  }

  isEnd(text) {
    const name = text.toLowerCase();
    return HUB.test(text) || this.ends.some((end) => end.toLowerCase() === name || end.toLowerCase().replace(/\d+$/, "*") === name);
  }
}

/** A link of the option `--link` in words; the text itself where it has another form. */
function linkWords(text) {
  const found = LINK_TEXT.exec(text);
  if (!found) return text;
  const [, from, way, to, bandwidth, latency] = found;
  return `${from} ${way === "-" ? "↔" : "→"} ${to}: ${bandwidth}${latency ? `, ${latency}` : ""}`;
}

const listWords = (words) => `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
