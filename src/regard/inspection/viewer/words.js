/** Two lines of words and what runs between them: above what is looked at, below what looks. */

import { alongLine, rove, settle } from "./controls.js";
import { fadeEdges } from "./edges.js";
import { draw, make, percent } from "./elements.js";

const NARROW = 560;
const FAINTEST = 0.02; // of the scale's top, as are the next
const UNSEEN = 0.002;
const MOST_THREADS = 14; // from one word, unless they are all alike
const NAMED = 0.05;
const RESTING = { least: 0.1, most: 3 }; // of the weights that are drawn while none is pointed at
const COMPARED = { least: 0.04, most: 3, all: 3000 }; // of compared heads; of more pairs, the most
const [BAND_GAP, BAND_SPREAD] = [3, 24]; // pixels between the lines of two heads, and of all
const STRANDS = 8; // lines of a head that are as strong are drawn as one
const THICKEST = 6;
const SIZES = { large: 29, small: 19, tiny: 17 }; // of letters, in pixels
const LONG = 300;
const DOWNWARD = { backward: "ArrowUp", forward: "ArrowDown" };
const RIGHTWARD = { backward: "ArrowLeft", forward: "ArrowRight" };
const LEFTWARD = { backward: "ArrowRight", forward: "ArrowLeft" };

/**
 * @typedef {{side: "row"|"column", index: number}} Spot
 * A head that is compared with others: `values` go row by row.
 * @typedef {{name: string, colour: string, values: Float32Array}} Band
 */

export class WordLines {
  #shown = { rows: [], columns: [], values: new Float32Array() };
  #links = [];
  #bands = [];
  #top = 1;
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
    for (const line of lines) line.addEventListener("scroll", () => this.#thread(), { capture: true, passive: true });
    new ResizeObserver(() => this.#arrange()).observe(this.element);
  }

  /**
   * @param {import("./reading.js").Shown} shown
   * @param {Object} options
   * @param {[number, number][]} options.links of an alignment: columns and rows; none: the greatest
   * weights of each row are drawn
   * @param {{rows: string, columns: string}} options.names of the two lines
   * @param {Set<number>} options.fresh the rows that are marked as new
   * @param {string} options.hint what is said of these
   * @param {Band[]} options.bands heads that are compared, in place of `shown`'s weights
   * @param {number} options.top the weight of the thickest line
   */
  show(shown, { links, names, fresh, hint, bands, top }) {
    this.#shown = shown;
    this.#bands = bands;
    this.#top = top;
    this.#links = links.length ? links : greatest(shown);
    this.element.classList.toggle("long", letters(shown.columns) > LONG);
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
    const width = this.element.clientWidth;
    this.element.dataset.layout = width < NARROW ? "columns" : "lines";
    const drawn = { width: `${width}px`, pixels: width || null, height: `${innerHeight}px` };
    for (const [name, size] of Object.entries(drawn)) this.element.style.setProperty(`--drawn-${name}`, size); // for paper
    this.element.classList.remove("wrapped");
    this.element.style.setProperty("--size", `${this.#fitting()}px`);
    this.element.classList.toggle("wrapped", ![this.columns, this.rows].every((line) => line.isSingle()));
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
  #weights({ side, index }, values = this.#shown.values) {
    const { rows, columns } = this.#shown;
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
    if (!this.#bands.length) {
      lit.tint(this.#weights(this.#spot), this.#top);
      return;
    }
    const stripes = this.#bands.map(({ colour, values }) => {
      return { colour, weights: this.#weights(this.#spot, values) };
    });
    lit.stripe(stripes, this.#top);
  }

  /** Bring what a spot looks at most into view, where a long sentence scrolls in its frame. */
  reveal({ side, index }) {
    const other = side === "row" ? this.columns : this.rows;
    const [frame, weights] = [other.list, this.#weights({ side, index })];
    if (frame.scrollHeight <= frame.clientHeight + 1) return;
    const best = other.buttons[weights.indexOf(Math.max(...weights))];
    frame.scrollTop = best.offsetTop - frame.offsetTop - frame.clientHeight / 2;
  }

  #thread() {
    const box = this.element.getBoundingClientRect();
    this.threads.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    this.threads.replaceChildren(...this.#lines(box));
  }

  #lines(box) {
    if (this.#bands.length) return this.#bands.flatMap((band, place) => this.#strands(box, band, place));
    return this.#spot ? this.#beams(box) : this.#resting(box);
  }

  /** Links of all words: an alignment, all alike, or the greatest weights, each as thick as it is. */
  #resting(box) {
    return this.#links.map(([column, row, weight = null]) => {
      const path = this.#path(box, column, row, { class: "thread resting" });
      if (weight !== null) weigh(path, weight / this.#top, 0.15, 0.45);
      return path;
    });
  }

  /** What one word looks at, or who looks at it: the thicker, the more. */
  #beams(box) {
    const { side, index } = this.#spot;
    const weights = this.#weights(this.#spot);
    const least = isEven(weights) ? 0 : (weights.toSorted((a, b) => b - a)[MOST_THREADS] ?? 0);
    return weights.flatMap((weight, other) => {
      if (weight < FAINTEST * this.#top || weight <= least) return [];
      const [column, row] = side === "row" ? [other, index] : [index, other];
      const sink = this.#shown.columns[column].sink !== null;
      const path = this.#path(box, column, row, { class: sink ? "thread sink" : "thread" });
      weigh(path, weight / this.#top, 0.25, 0.75);
      return [path];
    });
  }

  /** The lines of a compared head, of all words or of one: as opaque as they are strong. */
  #strands(box, { colour, values }, place) {
    const strands = Array.from({ length: STRANDS }, () => []);
    const gap = Math.min(BAND_GAP, BAND_SPREAD / this.#bands.length);
    const aside = gap * (place - (this.#bands.length - 1) / 2); // so that none hides another
    for (const [column, row, weight] of this.#pairs(values)) {
      const d = this.#curve(box, column, row, aside);
      const share = Math.min(1, weight / this.#top);
      if (d) strands[Math.min(STRANDS - 1, Math.floor(share * STRANDS))].push(d);
    }
    return strands.flatMap((curves, level) => {
      if (!curves.length) return [];
      const share = (level + 0.5) / STRANDS;
      const path = draw("path", { class: "thread strand", d: curves.join("") });
      path.style.stroke = colour;
      path.style.strokeOpacity = String(0.12 + 0.83 * share);
      path.style.strokeWidth = `${1 + 2 * share}px`;
      return [path];
    });
  }

  /** The pairs of a compared head that are drawn: of a long sentence the strongest of each row. */
  #pairs(values) {
    const { rows, columns } = this.#shown;
    const least = COMPARED.least * this.#top;
    const few = rows.length * columns.length <= COMPARED.all;
    const ofRow = (row) => {
      const pairs = columns.map((_, column) => [column, row, values[row * columns.length + column]]);
      const seen = pairs.filter(([, , weight]) => weight >= least);
      if (few || this.#spot) return seen;
      return isEven(pairs.map(([, , weight]) => weight)) ? [] : seen.toSorted((a, b) => b[2] - a[2]).slice(0, COMPARED.most);
    };
    if (this.#spot?.side === "row") return ofRow(this.#spot.index);
    const all = rows.flatMap((_, row) => ofRow(row));
    return this.#spot ? all.filter(([column]) => column === this.#spot.index) : all;
  }

  #path(box, column, row, attributes) {
    return draw("path", { ...attributes, d: this.#curve(box, column, row) });
  }

  /** The way from one word to another; null where one is scrolled out of its frame. */
  #curve(box, column, row, aside = 0) {
    const above = this.columns.box(column);
    const below = this.rows.box(row);
    if (!above || !below) return null;
    return (this.element.dataset.layout === "columns" ? sideways : down)(box, above, below, aside);
  }
}

/** Make a line as thick and opaque as its weight, a share of the scale's top. */
function weigh(path, share, faintest, range) {
  path.style.strokeWidth = `${Math.max(1, share * THICKEST)}px`;
  path.style.strokeOpacity = String(faintest + range * Math.sqrt(share));
}

/** One line of words. */
class Line {
  constructor(side, { point, pick, layout }) {
    this.side = side;
    this.buttons = [];
    this.plain = true; // whether no word is shaded
    this.point = point;
    this.pick = pick;
    this.caption = make("span", { class: "line-name" });
    this.list = make("div", { class: "line-words", role: "group", dir: "auto" });
    this.element = make("div", { class: `line ${side}s` }, this.caption, this.list);
    fadeEdges(this.list);
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
    this.plain = true;
    const named = (button, index) => {
      const { begins, continued } = items[index];
      const own = continued ? [button] : [button, make("span", { class: "gap" }, " ")];
      const parting = index > 0 ? [make("br", { class: "segment-break" })] : [];
      return begins ? [...parting, make("span", { class: "segment" }, begins), ...own] : own;
    };
    this.list.replaceChildren(...this.buttons.flatMap(named));
    settle(this.list, ".word", this.buttons[focused]);
    if (focused >= 0) (this.buttons[focused] ?? this.buttons.at(-1))?.focus();
  }

  /** Whether all words stand in one row. */
  isSingle() {
    const [first, last] = [this.buttons[0], this.buttons.at(-1)];
    return !first || last.offsetTop < first.offsetTop + first.offsetHeight;
  }

  /** Where a word stands; null where it is scrolled out of its frame. */
  box(index) {
    const box = this.buttons[index]?.getBoundingClientRect();
    if (!box || this.list.scrollHeight <= this.list.clientHeight + 1) return box ?? null;
    const frame = this.list.getBoundingClientRect();
    return box.top >= frame.top - 4 && box.bottom <= frame.bottom + 4 ? box : null;
  }

  /** Shade the words by their weights, and name the greater ones. */
  tint(weights, top) {
    this.plain = false;
    this.buttons.forEach((button, index) => {
      const weight = weights[index];
      button.style.setProperty("--weight", String(Math.sqrt(Math.min(1, weight / top))));
      button.classList.toggle("lit", weight > UNSEEN * top);
      button.querySelector(".share").textContent = weight >= NAMED ? percent(weight) : "";
    });
    this.#uncover(weights);
  }

  /** Take away the shares that would lie over greater ones, where words are narrower than they. */
  #uncover(weights) {
    const named = [...weights.keys()].filter((index) => weights[index] >= NAMED);
    named.sort((a, b) => weights[b] - weights[a]);
    const shares = named.map((index) => this.buttons[index].querySelector(".share"));
    const boxes = shares.map((share) => share.getBoundingClientRect());
    const kept = [];
    boxes.forEach((box, place) => {
      if (kept.some((other) => overlap(box, other))) shares[place].textContent = "";
      else kept.push(box);
    });
  }

  /** Give each word a stripe for each compared head, as opaque as its weight is great. */
  stripe(stripes, top) {
    if (!stripes.length && this.plain) return;
    this.plain = false;
    this.buttons.forEach((button, index) => {
      const cells = stripes.map(({ colour, weights }) => {
        const cell = make("i");
        cell.style.background = colour;
        cell.style.opacity = String(Math.sqrt(Math.min(1, weights[index] / top)));
        return cell;
      });
      button.querySelector(".stripes").replaceChildren(...cells);
    });
  }

  clear() {
    for (const button of this.list.querySelectorAll(".asking")) button.classList.remove("asking");
    if (this.plain) return; // of a long sentence this takes time
    this.tint(this.buttons.map(() => 0), 1);
    this.stripe([], 1);
    this.plain = true;
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
      make("span", { class: "stripes", "aria-hidden": "true" }),
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
  const width = columns.length;
  return rows.flatMap((_, row) => {
    const weights = values.subarray(row * width, (row + 1) * width);
    const seen = [];
    weights.forEach((weight, column) => {
      if (weight >= RESTING.least && columns[column].sink === null) seen.push([column, row, weight]);
    });
    if (seen.length <= RESTING.most || isEven(weights)) return seen; // alike: all or none
    return seen.sort((a, b) => b[2] - a[2]).slice(0, RESTING.most);
  });
}

/** Whether weights are so alike that none stands out. */
export function isEven(weights) {
  let [count, total, most] = [0, 0, 0];
  for (const weight of weights) {
    if (weight <= 0) continue;
    count += 1;
    total += weight;
    if (weight > most) most = weight;
  }
  return count > 1 && most < (1.5 * total) / count;
}

function letters(items) {
  return items.reduce((sum, { text }) => sum + text.length + 1, 0);
}

function overlap(one, other) {
  const across = one.left < other.right && other.left < one.right;
  return across && one.top < other.bottom && other.top < one.bottom;
}

function centre({ left, right, top, bottom }) {
  return { x: (left + right) / 2, y: (top + bottom) / 2 };
}

/** A curve from the foot of a word to the head of one below it. */
function down(box, above, below, aside) {
  const [x, y] = [centre(above).x - box.left + aside, above.bottom - box.top];
  const [endX, endY] = [centre(below).x - box.left + aside, below.top - box.top];
  const middle = (y + endY) / 2;
  return `M${x},${y} C${x},${middle} ${endX},${middle} ${endX},${endY}`;
}

/** A curve from the right end of a word to the left end of one beside it. */
function sideways(box, left, right, aside) {
  const [x, y] = [left.right - box.left, centre(left).y - box.top + aside];
  const [endX, endY] = [right.left - box.left, centre(right).y - box.top + aside];
  const middle = (x + endX) / 2;
  return `M${x},${y} C${middle},${y} ${middle},${endY} ${endX},${endY}`;
}
