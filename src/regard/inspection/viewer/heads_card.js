/** The small maps of all heads over the cells of a picture, with the switch of their scale. */

import { Switch } from "./controls.js";
import { make } from "./elements.js";
import { HeadGrid } from "./heads.js";
import { SCALES } from "./view_options.js";

export class HeadsCard {
  #scale = "own";

  /**
   * @param {(place: import("./heads.js").Place, wish: string|null) => void} choose as of `HeadGrid`
   * @param {() => void} redraw called when another scale is chosen
   * @param {...HTMLElement} tools beside the switch
   */
  constructor(choose, redraw, ...tools) {
    this.grid = new HeadGrid(choose);
    this.scales = new Switch("Scale of the small maps", (scale) => {
      this.#scale = scale;
      redraw();
    });
    this.hint = make("p", { class: "hint" });
    const switches = make("div", { class: "card-tools" }, this.scales.element, ...tools);
    const head = make("div", { class: "card-head" }, make("h2", {}, "Heads"), switches);
    this.element = make("section", { class: "card heads-card" }, head, this.hint, this.grid.element);
  }

  /**
   * @param {{looks: string, changes?: Object[], other?: string}} options who looks; the changes in
   * force, and what is said of a head that is needed
   * @param {string} [more] the end of the line above the maps
   */
  show(reading, choice, { looks, changes = [], other = "" }, more = "") {
    const { layers, heads } = reading.size(choice.part);
    const own = this.#scale === "own";
    this.element.hidden = layers * heads < 2;
    this.element.classList.toggle("wide", heads > 8);
    this.grid.show(reading, choice, { changes, other, own, colours: new Map() });
    this.scales.show(SCALES.toReversed(), this.#scale);
    const scale = own ? "each on its own scale" : "all on one scale, up to 100%";
    const dot = this.grid.marksSome() ? ` A dot: without it ${other}.` : "";
    this.hint.textContent = `Each small map is what ${looks} looked at in a head, ${scale}.${dot}${more}`;
  }
}
