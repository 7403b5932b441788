/** Switches and lists to choose from, and moving among many things with the arrow keys. */

import { freshId, make } from "./elements.js";

/** @typedef {{value: string, label: string, title?: string}} Option */

/** A row of options of which one is on. */
export class Switch {
  #name = freshId("switch");
  #choose;

  /** @param {string} legend for screen readers @param {(value: string) => void} choose */
  constructor(legend, choose) {
    this.#choose = choose;
    const caption = make("legend", { class: "unseen" }, legend);
    this.element = make("fieldset", { class: "switch" }, caption);
    this.options = this.element.appendChild(make("div", { class: "switch-options" }));
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
  /** @param {string} label @param {(value: string) => void} choose */
  constructor(label, choose) {
    const id = freshId("menu");
    const on = { change: () => choose(this.select.value) };
    this.select = make("select", { id, on });
    this.element = make("div", { class: "menu" }, make("label", { for: id }, label), this.select);
  }

  /** @param {Option[]} options @param {string} chosen */
  show(options, chosen) {
    this.element.hidden = options.length < 2;
    const entries = options.map(({ value, label }) => make("option", { value }, label));
    this.select.replaceChildren(...entries);
    this.select.value = chosen;
  }
}

/**
 * Make what `selector` finds in `container` one stop of the Tab key, and move the focus with other
 * keys: `next` returns the new place for a key, the place of the focus and all elements.
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
  const next = { [forward]: place + 1, [backward]: place - 1, Home: 0, End: count - 1 }[key];
  return next === undefined ? undefined : Math.min(Math.max(next, 0), count - 1);
}
