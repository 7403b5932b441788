/** Why one piece looked at another: the numbers of its query and of each key, and their products. */

import { Menu, Switch } from "./controls.js";
import { channels, isolated, make, percent, signed } from "./elements.js";
import { Info } from "./info.js";

const ORDERS = [
  { value: "size", label: "Largest first" },
  { value: "place", label: "In order" },
];
const EXPLANATION =
  "A head gives every piece two lists of numbers: a query, what it looks for, and a key, what it offers. " +
  "Number by number the two are multiplied, and the products are summed: the larger the sum, the better they " +
  "fit. The sum is scaled down so that long lists do not count for more, and a softmax makes shares of the " +
  "results of all pieces, which sum to 100%.";

export class NeuronView {
  #head = null; // the layer's maps, the head, and the pieces along both sides
  #row = 0;
  #column = 0;
  #order = "size";

  /** @param {(pair: {row: number, column: number}) => void} point told of the pair that is shown */
  constructor(point) {
    this.point = point;
    this.rowMenu = new Menu("Looks", (value) => this.#go(Number(value), null));
    this.columnMenu = new Menu("Is looked at", (value) => this.#go(this.#row, Number(value)));
    this.orders = new Switch("Order of the numbers", (value) => this.#sort(value));
    const info = new Info("queries and keys", EXPLANATION);
    const menus = [this.rowMenu.element, this.columnMenu.element, info.button];
    this.keys = make("tbody");
    const titles = ["piece", "key", "query × key", "score", "share"];
    const heads = titles.map((title) => make("th", { scope: "col" }, title));
    this.query = make("tr", { class: "query" });
    this.frame = make(
      "div",
      { class: "neuron-frame", tabindex: "0", role: "region", "aria-label": "All keys" },
      make("table", { class: "neuron-keys" }, make("thead", {}, make("tr", {}, ...heads), this.query), this.keys),
    );
    this.scales = make("p", { class: "hint neuron-scales" });
    this.formula = make("p", { class: "neuron-formula" });
    this.numbers = make("tbody");
    const columns = ["number", "query", "key", "product"].map((name) => make("th", { scope: "col" }, name));
    this.pair = make(
      "div",
      { class: "neuron-numbers", tabindex: "0", role: "region", "aria-label": "The numbers of this pair" },
      make("table", {}, make("thead", {}, make("tr", {}, ...columns)), this.numbers),
    );
    this.element = make(
      "div",
      { class: "neurons" },
      make("div", { class: "neuron-menus" }, ...menus),
      info.note,
      this.formula,
      make(
        "div",
        { class: "neuron-tables" },
        make("div", {}, this.frame, this.scales),
        make("div", {}, this.orders.element, this.pair),
      ),
    );
  }

  /**
   * @param {import("./layer_maps.js").LayerMaps} layer
   * @param {number} head
   * @param {{rows: Object[], columns: Object[], values: Float32Array}} shown its map by pieces
   * @param {{row: number, column: number}|null} pair that is shown first; null: as before
   */
  show(layer, head, shown, pair) {
    this.#head = { layer, head, shown, ...layer.vectors(head) };
    const count = shown.rows.length;
    const kept = this.#row < count ? this.#row : 0;
    this.#row = pair?.row ?? (kept || defaultRow(shown.rows));
    this.#go(this.#row, pair?.column ?? null);
  }

  /** Paint again, in the colours of the present theme. */
  repaint() {
    if (this.#head) this.#draw();
  }

  /** Show another pair; without a column, the one that is looked at most. */
  #go(row, column) {
    const { columns, values } = this.#head.shown;
    const weights = values.subarray(row * columns.length, (row + 1) * columns.length);
    this.#row = row;
    this.#column = column ?? weights.indexOf(Math.max(...weights));
    this.#draw();
    this.point({ row, column: this.#column });
  }

  #sort(order) {
    this.#order = order;
    this.#draw();
  }

  #draw() {
    const { shown, queries, keys, width, layer } = this.#head;
    const [row, column] = [this.#row, this.#column];
    const seen = layer.causal ? row + 1 : shown.columns.length;
    const options = (items) => items.map(({ text }, place) => ({ value: String(place), label: `${place} ${text}` }));
    this.rowMenu.show(options(shown.rows), String(row));
    this.columnMenu.show(options(shown.columns.slice(0, seen)), String(column));
    this.orders.show(ORDERS, this.#order);
    const query = queries.subarray(row * width, (row + 1) * width);
    const products = productsOf(query, keys.subarray(0, seen * width));
    const tops = { vector: largest([query, keys.subarray(0, seen * width)]), product: largest([products]) };
    this.#drawKeys(query, products, tops, seen);
    this.scales.textContent =
      `Orange is above 0, blue below, the stronger the further: queries and keys up to ${tops.vector.toFixed(2)}, ` +
      `products up to ${tops.product.toFixed(2)}. Choose a piece to see its numbers.`;
    this.#drawPair(query, products.subarray(column * width, (column + 1) * width));
  }

  #drawKeys(query, products, tops, seen) {
    const { shown, keys, width } = this.#head;
    const ink = inkOf(this.element);
    this.query.replaceChildren(
      make("th", { scope: "row" }, shown.rows[this.#row].text),
      make("td", {}, strip(query, tops.vector, ink), make("span", { class: "strip-name" }, "query")),
      make("td"),
      make("td"),
      make("td"),
    );
    const weights = shown.values.subarray(this.#row * shown.columns.length);
    const line = (column) => {
      const part = (all) => all.subarray(column * width, (column + 1) * width);
      const score = this.#score(part(products), column);
      const bar = make("span", { class: "bar" });
      bar.style.setProperty("--share", String(weights[column]));
      const choose = make(
        "button",
        { type: "button", "aria-pressed": String(column === this.#column), on: { click: () => this.#go(this.#row, column) } },
        shown.columns[column].text,
      );
      return make(
        "tr",
        { class: column === this.#column ? "chosen" : null },
        make("th", { scope: "row" }, choose),
        make("td", {}, strip(part(keys), tops.vector, ink)),
        make("td", {}, strip(part(products), tops.product, ink)),
        make("td", { class: "number" }, signed(score.total, 3)),
        make("td", { class: "number share-cell" }, bar, percent(weights[column])),
      );
    };
    const focused = [...this.keys.children].findIndex((one) => one.contains(document.activeElement));
    this.keys.replaceChildren(...Array.from({ length: seen }, (_, column) => line(column)));
    if (focused >= 0) this.keys.children[Math.min(focused, seen - 1)].querySelector("button").focus();
  }

  /** The sum of products, scaled, with what is added for the places of the two pieces. */
  #score(products, column) {
    const { layer, head, scale } = this.#head;
    const dot = products.reduce((total, product) => total + product, 0);
    const added = layer.bias(head, this.#row)?.[column] ?? 0;
    return { dot, added, total: scale * dot + added };
  }

  #drawPair(query, products) {
    const { shown, keys, width, scale } = this.#head;
    const [row, column] = [this.#row, this.#column];
    const { dot, added, total } = this.#score(products, column);
    const weight = shown.values[row * shown.columns.length + column];
    const places = added ? ` ${added < 0 ? "−" : "+"} ${Math.abs(added).toFixed(3)} for their places` : "";
    this.formula.textContent =
      `“${isolated(shown.rows[row].text)}” and “${isolated(shown.columns[column].text)}”: the ${width} products sum to ${signed(dot, 3)}; ` +
      `times ${scale.toFixed(3)}${places} is ${signed(total, 3)}; the softmax makes ${percent(weight)} of it.`;
    const order = [...products.keys()];
    if (this.#order === "size") order.sort((a, b) => Math.abs(products[b]) - Math.abs(products[a]));
    const lines = order.map((place) => {
      const numbers = [query[place], keys[column * width + place], products[place]];
      const sign = (number) => (number < 0 ? "negative" : "positive");
      const cells = numbers.map((number) => make("td", { class: `number ${sign(number)}` }, signed(number, 3)));
      return make("tr", {}, make("th", { scope: "row" }, String(place)), ...cells);
    });
    this.numbers.replaceChildren(...lines);
  }
}

/** The first row that is a word or a part of one. */
function defaultRow(rows) {
  return Math.max(0, rows.findIndex(({ kind }) => kind !== "special"));
}

/** A query times each of the keys, number by number. */
function productsOf(query, keys) {
  return keys.map((number, at) => number * query[at % query.length]);
}

function largest(arrays) {
  let most = 1e-9;
  for (const array of arrays) for (const number of array) most = Math.max(most, Math.abs(number));
  return most;
}

/** The colours of numbers above and below 0, as red, green and blue. */
function inkOf(element) {
  const { color, outlineColor } = getComputedStyle(element);
  return [color, outlineColor].map(channels);
}

/** A row of numbers as colours. */
function strip(numbers, top, [positive, negative]) {
  const canvas = make("canvas", { class: "strip", width: numbers.length, height: 1, "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  const picture = pen.createImageData(numbers.length, 1);
  numbers.forEach((number, at) => {
    picture.data.set([...(number < 0 ? negative : positive), Math.round((255 * Math.abs(number)) / top)], 4 * at);
  });
  pen.putImageData(picture, 0, 0);
  return canvas;
}
