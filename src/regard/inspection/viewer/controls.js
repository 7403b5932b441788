/** Switches and lists to choose from, and moving among many things with the arrow keys. */

import { freshId, make } from "./elements.js";

/** @typedef {{value: string, label: string, title?: string}} Option */

/** A row of options of which one is on. */
export class Switch {
  #name = freshId("switch");
  #choose;

  /**
   * @param {string} legend what is chosen, for those who do not see the row
   * @param {(value: string) => void} choose
   */
  constructor(legend, choose) {
    this.#choose = choose;
    this.element = make("fieldset", { class: "switch" }, make("legend", {}, legend));
    this.options = make("div", { class: "switch-options" });
    this.element.append(this.options);
  }

  /** @param {Option[]} options @param {string} chosen */
  show(options, chosen) {
    this.element.hidden = options.length < 2;
    const shown = options.map((option) => option.value).join();
    if (this.options.dataset.shown !== shown) {
      this.options.dataset.shown = shown;
      this.options.replaceChildren(...options.map((option) => this.#option(option)));
    }
    for (const input of this.options.querySelectorAll("input")) {
      input.checked = input.value === chosen;
    }
  }

  #option({ value, label, title }) {
    const on = { change: () => this.#choose(value) };
    const input = make("input", { type: "radio", name: this.#name, value, on });
    return make("label", { title }, input, make("span", {}, label));
  }
}

/** A list of which one entry is chosen: for layers and heads, which may be many. */
export class Menu {
  #choose;

  /** @param {string} label @param {(value: string) => void} choose */
  constructor(label, choose) {
    this.#choose = choose;
    const id = freshId("menu");
    const on = { change: () => this.#choose(this.select.value) };
    this.select = make("select", { id, on });
    this.element = make("div", { class: "menu" }, make("label", { for: id }, label), this.select);
  }

  /** @param {Option[]} options @param {string} chosen */
  show(options, chosen) {
    this.element.hidden = options.length < 2;
    this.select.replaceChildren(
      ...options.map(({ value, label }) => make("option", { value }, label)),
    );
    this.select.value = chosen;
  }
}

/**
 * Make what `selector` finds in `container` one stop of the Tab key, and move the focus with other
 * keys: `next` is told the key, the place of the focus and all elements, and gives the new place.
 * @param {HTMLElement|SVGElement} container
 * @param {string} selector
 * @param {(key: string, place: number, items: Element[]) => number|undefined} next
 */
export function rove(container, selector, next) {
  container.addEventListener("focusin", (event) => {
    const item = event.target.closest(selector);
    if (item) settle(container, selector, item);
  });
  container.addEventListener("keydown", (event) => {
    const item = event.target.closest(selector);
    if (!item || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = [...container.querySelectorAll(selector)];
    const target = items[next(event.key, items.indexOf(item), items)];
    if (!target) return;
    event.preventDefault();
    target.focus();
  });
}

/** Let the Tab key stop at one element of those that `selector` finds: `at`, or else the first. */
export function settle(container, selector, at = null) {
  const items = [...container.querySelectorAll(selector)];
  const stop = items.includes(at) ? at : items[0];
  for (const item of items) item.setAttribute("tabindex", item === stop ? "0" : "-1");
}

/** The place that Home, End and the arrows along a line lead to. */
export function alongLine(key, place, count, { backward, forward }) {
  if (key === forward) return Math.min(place + 1, count - 1);
  if (key === backward) return Math.max(place - 1, 0);
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  return undefined;
}
