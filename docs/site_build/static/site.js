/* What the theme lacks for those who use the keyboard or have pages read to them. */
"use strict";

/** An element of another kind in the place of one, with its classes and content. */
function replaceBy(kind, old) {
  const made = document.createElement(kind);
  made.className = old.className;
  made.append(...old.childNodes);
  old.replaceWith(made);
  return made;
}

/** The sidebars of narrow windows: their labels become buttons, and Escape closes them. */
function openByKeyboard() {
  for (const [id, drawer, name] of [
    ["__navigation", ".sidebar-drawer", "Contents of the site"],
    ["__toc", ".toc-drawer", "Contents of this page"],
  ]) {
    const box = document.getElementById(id);
    const labels = document.querySelectorAll(`label[for="${id}"]:not(.overlay)`);
    const buttons = [...labels].map((label) => replaceBy("button", label));
    const show = () => {
      for (const button of buttons) button.ariaExpanded = String(box.checked);
    };
    for (const button of buttons) {
      button.type = "button";
      button.ariaLabel = name;
      button.addEventListener("click", () => {
        box.click();
        if (box.checked) document.querySelector(`${drawer} :is(a, input)`)?.focus();
      });
    }
    box.tabIndex = -1;
    box.addEventListener("change", show);
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !box.checked) return;
      box.click();
      buttons.find((button) => button.offsetParent !== null)?.focus();
    });
    show();
  }
}

const SCROLLING = ".content pre, .content table, .table-wrapper, .regard-figure";

/** What scrolls in its place can be reached, so that the arrow keys scroll it. */
function reachScrolling() {
  for (const box of document.querySelectorAll(SCROLLING)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

/** Names and levels that the theme leaves out. */
function nameParts() {
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Site");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "Page");
  for (const caption of document.querySelectorAll(".caption[role=heading]")) {
    caption.ariaLevel = "2";
  }
  for (const part of document.querySelectorAll(".sig dl, .sig dl > dd")) replaceBy("span", part);
  for (const head of document.querySelectorAll("thead")) {
    const empty = [...head.querySelectorAll("th")].filter((cell) => !cell.textContent.trim());
    if (empty.length === head.querySelectorAll("th").length) head.remove();
    else for (const cell of empty) cell.replaceWith(document.createElement("td"));
  }
  if (!document.querySelector("h1")) {
    const title = document.createElement("h1");
    title.textContent = document.title.split(" - ")[0];
    document.querySelector("article")?.prepend(title);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  nameParts();
  openByKeyboard();
  reachScrolling();
  addEventListener("resize", reachScrolling);
});
