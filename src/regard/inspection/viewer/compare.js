/** Heads that are compared: which they are, and the colour of each. */

import { alongLine, rove, settle } from "./controls.js";
import { make } from "./elements.js";

const KEYS = { backward: "ArrowLeft", forward: "ArrowRight" };

/**
 * The colour of a head, in light and in dark: hues go round with the heads of a layer, and those of
 * other layers lie between them. Every other one is lighter, as hues alone are hard to tell apart.
 */
export function headColour(layer, head, heads) {
  const hue = (360 * (head + 0.37 * layer)) / heads + 250;
  const lift = head % 2 ? 0.07 : 0;
  const turn = (hue % 360).toFixed(1);
  return `light-dark(oklch(${0.46 + lift} 0.15 ${turn}), oklch(${0.75 + lift} 0.13 ${turn}))`;
}

/** A button for each head of a layer, and for those of other layers that were added. */
export class HeadChips {
  /** @param {(heads: [number, number][]) => void} choose the heads, as layers and heads */
  constructor(choose) {
    this.choose = choose;
    this.buttons = make("div", { class: "compare-heads", role: "group", "aria-label": "Heads to compare" });
    rove(this.buttons, "button:enabled", (key, place, items) => alongLine(key, place, items.length, KEYS));
    const name = make("span", { class: "compare-name" }, "Compare heads");
    this.element = make("div", { class: "compare" }, name, this.buttons);
  }

  /**
   * @param {import("./reading.js").Reading} reading
   * @param {{part: string, layer: number|null}} choice
   * @param {[number, number][]} chosen
   */
  show(reading, { part, layer }, chosen) {
    const { layers, heads } = reading.size(part);
    const shown = layer ?? (layers === 1 ? 0 : (chosen[0]?.[0] ?? 0));
    const own = Array.from({ length: reading.layer(part, shown).heads }, (_, head) => [shown, head]);
    const others = chosen.filter(([other]) => other !== shown);
    const focused = [...this.buttons.children].indexOf(document.activeElement); // its place stays
    this.element.hidden = heads < 2 && layers < 2;
    const chip = (place) => this.#chip(place, shown, heads, chosen);
    this.buttons.replaceChildren(
      make("span", { class: "compare-layer" }, layers > 1 ? `layer ${shown}:` : ""),
      ...[...own, ...others].map(chip),
      this.#action("all", () => this.choose([...others, ...own])),
      this.#action("none", () => this.choose([]), chosen.length === 0),
    );
    settle(this.buttons, "button:enabled", this.buttons.children[focused]);
    if (focused >= 0) this.buttons.children[Math.min(focused, this.buttons.children.length - 1)].focus();
  }

  #chip([layer, head], shown, heads, chosen) {
    const same = ([one, other]) => one === layer && other === head;
    const on = chosen.some(same);
    const others = chosen.filter((place) => !same(place));
    const attributes = {
      type: "button",
      class: "compare-head",
      "aria-pressed": String(on),
      "aria-label": layer === shown ? `${head}, head of layer ${layer}` : `${layer}.${head}, layer and head`,
      title: `layer ${layer}, head ${head}`,
      on: { click: () => this.choose(on ? others : [...others, [layer, head]]) },
    };
    const button = make("button", attributes, layer === shown ? String(head) : `${layer}.${head}`);
    button.style.setProperty("--head", headColour(layer, head, heads));
    return button;
  }

  #action(name, act, disabled = false) {
    return make("button", { type: "button", class: "compare-all", disabled, on: { click: act } }, name);
  }
}
