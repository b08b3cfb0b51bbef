// The search field and what it finds.

const MAX_FOUND = 50;

class Finder {
  /**
   * `find(words)` gives numbers of what has all words, the best first, `row(item)` what a line of the list shows, `take(item)`
   * is called with what is chosen, `focused()` tells what has the focus then.
   */
  constructor({ find, row, take, focused }) {
    Object.assign(this, { find, row, take, focused, field: byId("search"), box: byId("found"), at: 0, found: [] });
    for (const kind of ["input", "focus"]) this.field.addEventListener(kind, () => this.search());
    this.field.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.field.addEventListener("keydown", (event) => this.pressed(event));
    this.box.addEventListener("mousedown", (event) => {
      const row = event.target.closest("[data-item]");
      event.preventDefault();
      if (row) this.choose(Number(row.dataset.item));
    });
  }

  search() {
    const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = words.length ? this.find(words) : [];
    this.at = 0;
    const rows = this.found.slice(0, MAX_FOUND).map((item, i) => {
      const row = element("li", { role: "option", id: `found${i}` }, this.row(item, words));
      row.dataset.item = item;
      return row;
    });
    const more = this.found.length - rows.length;
    if (more > 0) rows.push(element("li", { className: "more" }, [element("small", {}, [`and ${this.found.isCut ? "at least " : ""}${more.toLocaleString("en")} more`])]));
    if (words.length && !rows.length) rows.push(element("li", {}, [element("small", {}, ["no match in names, op types or devices"])]));
    this.box.replaceChildren(...rows);
    this.box.hidden = !words.length;
    this.field.setAttribute("aria-expanded", !this.box.hidden);
    this.move(0);
  }

  move(by) {
    const rows = this.box.querySelectorAll("[data-item]");
    if (!rows.length) return;
    this.at = (this.at + by + rows.length) % rows.length;
    rows.forEach((row, i) => row.setAttribute("aria-selected", i === this.at));
    rows[this.at].scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", rows[this.at].id);
  }

  choose(item) {
    this.field.blur();
    this.close();
    this.take(item);
    this.focused().focus({ preventScroll: true });
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
      Enter: () => this.found.length && this.choose(this.found[this.at]),
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
