/** Light or dark: as the system has it, unless someone chose. */

import { Switch } from "./controls.js";

const OPTIONS = [
  { value: "auto", label: "Auto", title: "As the system has it" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

/** A switch for the whole page: `<html data-theme>`. */
export function themeSwitch() {
  const root = document.documentElement;
  const choose = (value) => {
    if (value === "auto") delete root.dataset.theme;
    else root.dataset.theme = value;
  };
  let chosen = null; // while the page is printed, on white
  addEventListener("beforeprint", () => {
    chosen ??= root.dataset.theme ?? "auto";
    choose("light");
  });
  addEventListener("afterprint", () => {
    choose(chosen ?? "auto");
    chosen = null;
  });
  const themes = new Switch("Colours", choose);
  themes.element.classList.add("quiet");
  themes.show(OPTIONS, root.dataset.theme ?? "auto");
  return themes.element;
}

/** Call `redraw` when light becomes dark or dark light: what is painted on a canvas does not. */
export function whenThemeChanges(redraw) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const watch = new MutationObserver(redraw);
  watch.observe(document.documentElement, { attributeFilter: ["data-theme"] });
}
