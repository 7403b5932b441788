/* What the theme lacks for those who use the keyboard or have pages read to them. */
"use strict";

/** The sidebars of narrow windows: their buttons answer the keyboard, and Escape closes them. */
function openByKeyboard() {
  for (const id of ["__navigation", "__toc"]) {
    const box = document.getElementById(id);
    if (!box) continue;
    const buttons = [...document.querySelectorAll(`label[for="${id}"]:not(.overlay)`)];
    const drawer = document.querySelector(id === "__toc" ? ".toc-drawer" : ".sidebar-drawer");
    const show = () => {
      for (const button of buttons) button.setAttribute("aria-expanded", box.checked);
    };
    for (const button of buttons) {
      button.tabIndex = 0;
      button.role = "button";
      button.ariaLabel = id === "__toc" ? "Contents of this page" : "Contents of the site";
      button.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        box.click();
        if (box.checked) drawer?.querySelector("a, input")?.focus();
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

/** What scrolls in its place can be reached, so that the arrow keys scroll it. */
function reachScrolling() {
  for (const box of document.querySelectorAll(".content pre, .content table, .table-wrapper")) {
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
  for (const list of document.querySelectorAll(".sig dl, .sig dl > dd")) list.role = "none";
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
