// A menu that opens beside a button or a row.

/** Opens the menu below `near`: `entries` are `[text, act, picture]`. Keys move in it, Escape closes it, and the focus goes back. */
function openMenu(label, entries, near) {
  const menu = byId("menu");
  const tellOpen = (isOpen) => near.hasAttribute("aria-haspopup") && near.setAttribute("aria-expanded", isOpen);
  const close = () => {
    menu.onkeydown = menu.onfocusout = null;
    menu.hidden = true;
    tellOpen(false);
  };
  const goBack = () => {
    close();
    near.focus();
  };
  const buttons = entries.map(([text, act, picture]) => {
    const found = element("button", { type: "button", role: "menuitem", tabIndex: -1 }, [...(picture ? [picture] : []), text]);
    found.addEventListener("click", () => {
      goBack();
      act();
    });
    return found;
  });
  menu.setAttribute("aria-label", label);
  menu.replaceChildren(element("p", { role: "presentation" }, [label]), ...buttons);
  menu.hidden = false;
  tellOpen(true);
  const box = near.getBoundingClientRect();
  menu.style.left = `${Math.max(4, Math.min(box.left, innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${Math.max(4, Math.min(box.bottom + 2, innerHeight - menu.offsetHeight - 8))}px`;
  menu.onkeydown = (event) => {
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) buttons.at(to % buttons.length).focus();
    else if (event.key === "Escape" || event.key === "Tab") goBack();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  menu.onfocusout = (event) => menu.contains(event.relatedTarget) || close();
  buttons[0].focus();
}
