/** Two lines of words and what runs between them: above what is looked at, below what looks. */

import { alongLine, rove, settle } from "./controls.js";
import { draw, make, percent } from "./elements.js";

const NARROW = 560;
const FAINTEST = 0.02;
const MOST_THREADS = 14;
const NAMED = 0.05;
const UNSEEN = 0.002;
const RESTING = { least: 0.1, most: 3 }; // of the weights that are drawn while none is pointed at
const THICKEST = 6;
const SIZES = { large: 29, small: 19, tiny: 17 }; // of letters, in pixels
const LONG = 300;
const DOWNWARD = { backward: "ArrowUp", forward: "ArrowDown" };
const RIGHTWARD = { backward: "ArrowLeft", forward: "ArrowRight" };
const LEFTWARD = { backward: "ArrowRight", forward: "ArrowLeft" };

/** @typedef {{side: "row"|"column", index: number}} Spot */

export class WordLines {
  #shown = { rows: [], columns: [], values: new Float32Array() };
  #links = [];
  #spot = null;

  /**
   * @param {{point: (spot: Spot|null) => void, pick: (spot: Spot) => void}} listeners called with
   * the spot of the pointer or the focus (null: it left) and with one that was clicked
   */
  constructor({ point, pick }) {
    this.point = point;
    this.pick = pick;
    this.threads = draw("svg", { class: "threads", "aria-hidden": "true" });
    this.columns = this.#line("column");
    this.rows = this.#line("row");
    const lines = [this.columns.element, this.rows.element];
    this.element = make("div", { class: "words" }, this.threads, ...lines);
    this.element.addEventListener("keydown", (event) => this.#cross(event));
    new ResizeObserver(() => this.#arrange()).observe(this.element);
  }

  /**
   * @param {import("./reading.js").Shown} shown
   * @param {[number, number][]} links of an alignment: columns and rows; none: the greatest weights
   * of each row are drawn
   * @param {{rows: string, columns: string}} names of the two lines
   * @param {Set<number>} fresh the rows that are marked as new
   * @param {string} hint what is said of these
   */
  show(shown, links, names, fresh, hint) {
    this.#shown = shown;
    this.#links = links.length ? links : greatest(shown);
    this.columns.show(shown.columns, names.columns);
    this.rows.show(shown.rows, names.rows, fresh, hint);
    this.#spot = null;
    this.#arrange();
  }

  /** Whether there is a line to be seen while no word is pointed at. */
  get hasLinks() {
    return this.#links.length > 0;
  }

  /** Show what a spot looks at, or who looks at it; with null, the links of all words. */
  light(spot) {
    this.#spot = spot;
    this.#tint();
    this.#thread();
  }

  /** Mark the word that stays lit. */
  mark(spot) {
    for (const line of [this.columns, this.rows]) {
      line.buttons.forEach((button, index) => {
        const on = spot !== null && spot.side === line.side && spot.index === index;
        button.setAttribute("aria-pressed", String(on));
      });
    }
  }

  /** Put the focus on a line, at its first word or where it was last. */
  focus(side) {
    const line = side === "row" ? this.rows : this.columns;
    line.element.querySelector('.word[tabindex="0"]')?.focus();
  }

  #line(side) {
    return new Line(side, {
      point: (index) => this.point(index === null ? null : { side, index }),
      pick: (index) => this.pick({ side, index }),
      layout: () => this.element.dataset.layout,
    });
  }

  #arrange() {
    this.element.dataset.layout = this.element.clientWidth < NARROW ? "columns" : "lines";
    this.element.style.setProperty("--size", `${this.#fitting()}px`);
    this.#tint();
    this.#thread();
  }

  /** Letters as large as leaves each sentence on one line; long ones are small and take several. */
  #fitting() {
    if (this.element.dataset.layout === "columns") return SIZES.tiny;
    if (letters(this.#shown.columns) > LONG) return SIZES.tiny;
    for (let size = SIZES.large; size > SIZES.small; size -= 1) {
      this.element.style.setProperty("--size", `${size}px`);
      if ([this.columns, this.rows].every((line) => line.isSingle())) return size;
    }
    return SIZES.small;
  }

  /** Go to the nearest word of the other line. */
  #cross(event) {
    const columns = this.element.dataset.layout === "columns";
    const keys = columns ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    const toRows = event.key === keys[1];
    const [from, to] = toRows ? [this.columns, this.rows] : [this.rows, this.columns];
    const button = event.target.closest(".word");
    if (!keys.includes(event.key) || !from.buttons.includes(button)) return;
    const here = centre(button.getBoundingClientRect());
    const far = (other) => {
      const there = centre(other.getBoundingClientRect());
      return Math.hypot(there.x - here.x, there.y - here.y);
    };
    const nearest = to.buttons.toSorted((a, b) => far(a) - far(b))[0];
    if (!nearest) return;
    event.preventDefault();
    nearest.focus();
  }

  /** The weights from or to a spot, for each word of the other line. */
  #weights({ side, index }) {
    const { rows, columns, values } = this.#shown;
    const width = columns.length;
    if (side === "row") return columns.map((_, column) => values[index * width + column]);
    return rows.map((_, row) => values[row * width + index]);
  }

  #tint() {
    this.columns.clear();
    this.rows.clear();
    if (this.#spot === null) return;
    const lines = [this.rows, this.columns];
    const [own, lit] = this.#spot.side === "row" ? lines : lines.toReversed();
    own.buttons[this.#spot.index]?.classList.add("asking");
    lit.tint(this.#weights(this.#spot));
  }

  #thread() {
    const box = this.element.getBoundingClientRect();
    this.threads.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    this.threads.replaceChildren(...(this.#spot ? this.#beams(box) : this.#resting(box)));
  }

  /** Links of all words: an alignment, all alike, or the greatest weights, each as thick as it is. */
  #resting(box) {
    return this.#links.map(([column, row, weight = null]) => {
      const path = this.#path(box, column, row, { class: "thread resting" });
      if (weight !== null) weigh(path, weight, 0.15, 0.45);
      return path;
    });
  }

  /** What one word looks at, or who looks at it: the thicker, the more. */
  #beams(box) {
    const { side, index } = this.#spot;
    const weights = this.#weights(this.#spot);
    const least = weights.toSorted((a, b) => b - a)[MOST_THREADS] ?? 0;
    return weights.flatMap((weight, other) => {
      if (weight < FAINTEST || weight <= least) return [];
      const [column, row] = side === "row" ? [other, index] : [index, other];
      const sink = this.#shown.columns[column].sink !== null;
      const path = this.#path(box, column, row, { class: sink ? "thread sink" : "thread" });
      weigh(path, weight, 0.25, 0.75);
      return [path];
    });
  }

  #path(box, column, row, attributes) {
    const above = this.columns.buttons[column]?.getBoundingClientRect();
    const below = this.rows.buttons[row]?.getBoundingClientRect();
    if (!above || !below) return draw("path", attributes);
    const curve = this.element.dataset.layout === "columns" ? sideways : down;
    return draw("path", { ...attributes, d: curve(box, above, below) });
  }
}

/** Make a line as thick and opaque as its weight. */
function weigh(path, weight, faintest, range) {
  path.style.strokeWidth = `${Math.max(1, weight * THICKEST)}px`;
  path.style.strokeOpacity = String(faintest + range * Math.sqrt(weight));
}

/** One line of words. */
class Line {
  constructor(side, { point, pick, layout }) {
    this.side = side;
    this.buttons = [];
    this.point = point;
    this.pick = pick;
    this.caption = make("span", { class: "line-name" });
    this.list = make("div", { class: "line-words", role: "group", dir: "auto" });
    this.element = make("div", { class: `line ${side}s` }, this.caption, this.list);
    rove(this.list, ".word", (key, place, items) => {
      const leftward = getComputedStyle(this.list).direction === "rtl";
      const sideways = leftward ? LEFTWARD : RIGHTWARD;
      return alongLine(key, place, items.length, layout() === "columns" ? DOWNWARD : sideways);
    });
  }

  show(items, name, fresh = new Set(), freshHint = "") {
    this.caption.textContent = name;
    this.list.setAttribute("aria-label", name);
    const focused = this.buttons.indexOf(document.activeElement);
    const hint = (index) => (fresh.has(index) ? freshHint : null);
    this.buttons = items.map((item, index) => this.#word(item, index, hint(index)));
    this.list.replaceChildren(...this.buttons);
    settle(this.list, ".word", this.buttons[focused]);
    if (focused >= 0) (this.buttons[focused] ?? this.buttons.at(-1))?.focus();
  }

  /** Whether all words stand in one row. */
  isSingle() {
    const [first, last] = [this.buttons[0], this.buttons.at(-1)];
    return !first || last.offsetTop < first.offsetTop + first.offsetHeight;
  }

  /** Shade the words by their weights, and name the greater ones. */
  tint(weights) {
    this.buttons.forEach((button, index) => {
      const weight = weights[index];
      button.style.setProperty("--weight", String(Math.sqrt(weight)));
      button.classList.toggle("lit", weight > UNSEEN);
      button.querySelector(".share").textContent = weight >= NAMED ? percent(weight) : "";
    });
  }

  clear() {
    this.tint(this.buttons.map(() => 0));
    for (const button of this.buttons) button.classList.remove("asking");
  }

  #word(item, index, freshHint) {
    const hint = item.sink === null ? freshHint : sinkNote(item);
    const states = { sink: item.sink !== null, joined: item.joined, continued: item.continued };
    const names = Object.keys(states).filter((name) => states[name]);
    const on = {
      pointerenter: (event) => event.pointerType === "mouse" && this.point(index),
      pointerleave: (event) => event.pointerType === "mouse" && this.point(null),
      focus: (event) => event.target.matches(":focus-visible") && this.point(index),
      blur: () => this.point(null),
      click: () => this.pick(index),
    };
    return make(
      "button",
      { type: "button", class: ["word", item.kind, ...names].join(" "), title: hint, on },
      make(freshHint === null ? "span" : "ins", { class: "letters" }, item.text),
      make("span", { class: "share", "aria-hidden": "true" }),
    );
  }
}

/** What to say of a column on which a head rests. */
export function sinkNote(item) {
  return (
    `A sink: about ${percent(item.sink)} of the attention rests here whatever the word. ` +
    "It says nothing about meaning."
  );
}

/**
 * For each row the columns that it looks at most, sinks left out.
 * @returns {[number, number, number][]} columns, rows and weights
 */
function greatest({ rows, columns, values }) {
  const meant = columns.flatMap(({ sink }, place) => (sink === null ? [place] : []));
  return rows.flatMap((_, row) => {
    const weights = meant.map((column) => [column, row, values[row * columns.length + column]]);
    const seen = weights.filter(([, , weight]) => weight >= RESTING.least);
    return seen.toSorted((a, b) => b[2] - a[2]).slice(0, RESTING.most);
  });
}

function letters(items) {
  return items.reduce((sum, { text }) => sum + text.length + 1, 0);
}

function centre({ left, right, top, bottom }) {
  return { x: (left + right) / 2, y: (top + bottom) / 2 };
}

/** A curve from the foot of a word to the head of one below it. */
function down(box, above, below) {
  const [x, y] = [centre(above).x - box.left, above.bottom - box.top];
  const [endX, endY] = [centre(below).x - box.left, below.top - box.top];
  const middle = (y + endY) / 2;
  return `M${x},${y} C${x},${middle} ${endX},${middle} ${endX},${endY}`;
}

/** A curve from the right end of a word to the left end of one beside it. */
function sideways(box, left, right) {
  const [x, y] = [left.right - box.left, centre(left).y - box.top];
  const [endX, endY] = [right.left - box.left, centre(right).y - box.top];
  const middle = (x + endX) / 2;
  return `M${x},${y} C${middle},${y} ${middle},${endY} ${endX},${endY}`;
}
