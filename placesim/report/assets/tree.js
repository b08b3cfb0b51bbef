// The tree of scopes beside the drawing: the same items as rows of text, for the keyboard and for those who can't see the drawing.

class TreeView {
  /** `actions`: `select(item)`, `toggle(item)`. */
  constructor(container, model, actions) {
    this.container = container;
    this.model = model;
    this.actions = actions;
    container.addEventListener("click", (event) => this.clicked(event));
    container.addEventListener("dblclick", (event) => {
      const item = this.itemAt(event);
      if (item !== null && isScope(item)) actions.toggle(item);
    });
    container.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** Rows for all that is seen. */
  show(opened, mode, chosen) {
    this.opened = opened;
    this.items = this.model.visible(opened);
    const hadFocus = this.container.contains(document.activeElement);
    this.container.replaceChildren(...this.items.map((item) => this.row(item, mode)));
    this.mark(chosen, hadFocus);
  }

  row(item, mode) {
    const scope = isScope(item);
    const depth = this.model.ancestors(item).length;
    const width = scope ? 28 : 14;
    const bar = element("img", { src: barImage(mode.parts(item), width, 12), alt: "", width, height: 12 });
    const row = element("div", { className: "row", role: "treeitem", tabIndex: -1 }, [
      element("span", { className: "twisty", ariaHidden: "true" }, [scope ? (this.opened.has(item) ? "▾" : "▸") : ""]),
      bar,
      element("span", { className: "label" }, [this.model.label(item)]),
      element("span", { className: "count" }, [scope ? this.model.sizes[scopeOf(item)].nodes.toLocaleString("en") : ""]),
      element("span", { className: "unseen" }, [this.describe(item, mode)]),
    ]);
    row.dataset.item = item;
    row.title = this.model.name(item);
    row.style.paddingLeft = `${depth * 14 - 6}px`;
    row.setAttribute("aria-level", depth);
    if (scope) row.setAttribute("aria-expanded", this.opened.has(item));
    if (scope && this.model.scopes.folded[scopeOf(item)]) row.classList.add("folded");
    return row;
  }

  /** `GPU:0`, or `12 on CPU:0, 3 on GPU:0`. */
  describe(item, mode) {
    const parts = mode.parts(item);
    return isScope(item) ? parts.map(([{ label }, count]) => `${count} ${label}`).join(", ") : parts[0][0].label;
  }

  /** Marks the row of an item, or of the nearest scope around it that is seen, and makes it the one that Tab reaches. */
  mark(chosen, focus = false) {
    let current = null;
    for (const row of this.container.children) {
      const isChosen = Number(row.dataset.item) === chosen;
      row.setAttribute("aria-selected", isChosen);
      row.tabIndex = -1;
      if (isChosen) current = row;
    }
    const reached = current ?? this.container.firstElementChild;
    if (reached) reached.tabIndex = 0;
    current?.scrollIntoView({ block: "nearest" });
    if (focus) reached?.focus({ preventScroll: true });
  }

  itemAt(event) {
    const row = event.target.closest(".row");
    return row && Number(row.dataset.item);
  }

  clicked(event) {
    const item = this.itemAt(event);
    if (item === null) return;
    if (event.target.closest(".twisty") && isScope(item)) this.actions.toggle(item);
    else this.actions.select(item);
  }

  /** The keys of a tree, as the WAI-ARIA practices have them. */
  pressed(event) {
    const item = this.itemAt(event);
    if (item === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.items.indexOf(item);
    const isOpen = this.opened.has(item);
    const parent = this.model.parent(item);
    const moves = {
      ArrowDown: () => this.go(at + 1),
      ArrowUp: () => this.go(at - 1),
      Home: () => this.go(0),
      End: () => this.go(this.items.length - 1),
      ArrowRight: () => (isScope(item) && !isOpen ? this.actions.toggle(item) : isOpen && this.go(at + 1)),
      ArrowLeft: () => (isOpen ? this.actions.toggle(item) : parent !== ROOT && this.go(this.items.indexOf(parent))),
      Enter: () => isScope(item) && this.actions.toggle(item),
      " ": () => this.actions.select(item),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    moves[event.key]();
  }

  go(at) {
    if (at < 0 || at >= this.items.length) return;
    this.actions.select(this.items[at]);
    this.container.children[at].focus();
  }
}
