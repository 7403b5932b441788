/** A series with its forecast above, and below it a bar for the weight of each time step. */

import { fadeEdges } from "./edges.js";
import { draw, make, pointing, signed } from "./elements.js";

const STEP = { least: 26, most: 96, named: 44 }; // pixels of a time step; from some on weights fit
const TOP = { from: 34, to: 180 };
const BARS = { from: 236, to: 380 };
const LETTER = 8; // pixels, at most, of a digit
const LABELS = { upright: 34, turned: 90 }; // pixels below the bars

export class SeriesView {
  #look = null;
  #step = null;
  #width = STEP.most; // of a time step

  /** @param {HTMLElement} root */
  constructor(root) {
    this.answer = make("p", { class: "series-answer" });
    this.told = make("p", { class: "series-told", role: "status" });
    const keys = "Arrow keys go from time step to time step";
    this.frame = make("div", {
      class: "series-frame",
      tabindex: 0,
      role: "application",
      "aria-label": keys,
      on: {
        ...pointing((event) => this.#see(event && this.#under(event))),
        keydown: (event) => this.#move(event),
      },
    });
    this.notes = make("ul", { class: "series-notes" });
    const parts = [this.answer, this.told, this.frame, this.notes];
    const name = "The series and the weights of its time steps";
    root.classList.add("regard-view", "series-view");
    root.replaceChildren(make("section", { class: "card stage", "aria-label": name }, ...parts));
    fadeEdges(this.frame);
    new ResizeObserver(() => this.#look && this.#draw()).observe(this.frame);
  }

  /** Show a document of `series_document`. */
  show(look) {
    this.#look = look;
    const before = look.before === null ? "" : ` (unchanged: ${look.before})`;
    this.#step = null;
    this.answer.textContent = `→ ${look.answer}${before}`;
    this.notes.replaceChildren(...look.notes.map((line) => make("li", {}, line)));
    this.#draw();
  }

  /** The drawing, as wide as the room allows. */
  #draw() {
    const steps = this.#look.labels.length + 1;
    const fair = Math.floor(this.frame.clientWidth / steps);
    this.#width = Math.max(STEP.least, Math.min(STEP.most, fair));
    const width = steps * this.#width;
    const height = BARS.to + (this.#areTurned() ? LABELS.turned : LABELS.upright);
    this.marker = draw("rect", { class: "series-mark", y: 0, width: this.#width, height });
    const parts = [this.marker, ...this.#names(), ...this.#line(), ...this.#bars(), ...this.#labels()];
    this.drawing = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, ...parts);
    this.frame.replaceChildren(this.drawing);
    this.#see(this.#step);
  }

  /** What the two panels show. */
  #names() {
    const name = (text, y) => draw("text", { class: "series-name", x: 2, y }, text);
    const signs = this.#look.normalized ? "" : ": orange above 0, blue below";
    return [name("series", 14), name(`weights${signs}`, BARS.from - 24)];
  }

  /** The numbers as they were scaled, a line for each column, and the forecast as a ring. */
  #line() {
    const { values, forecast } = this.#look;
    const all = [...values.flat(), ...forecast];
    const height = scale(Math.min(...all), Math.max(...all), TOP);
    return forecast.flatMap((ahead, column) => {
      const points = values.map((row, step) => [this.#middle(step), height(row[column])]);
      const end = [this.#middle(values.length), height(ahead)];
      return [
        draw("polyline", { class: "series-line", points: points.join(" ") }),
        draw("polyline", { class: "series-line ahead", points: [points.at(-1), end].join(" ") }),
        ...points.map(([cx, cy]) => draw("circle", { class: "series-point", cx, cy, r: 3 })),
        draw("circle", { class: "series-point ahead", cx: end[0], cy: end[1], r: 6 }),
      ];
    });
  }

  #bars() {
    const { weights, normalized } = this.#look;
    const height = scale(Math.min(0, ...weights), Math.max(0, ...weights), BARS);
    const zero = height(0);
    const bars = weights.map((weight, step) =>
      draw("rect", {
        class: `series-bar${normalized ? " share" : ""}${weight < 0 ? " negative" : ""}`,
        x: (step + 0.1) * this.#width,
        y: Math.min(zero, height(weight)),
        width: 0.8 * this.#width,
        height: Math.abs(height(weight) - zero),
      }),
    );
    const line = draw("line", { class: "series-zero", x1: 0, x2: weights.length * this.#width, y1: zero, y2: zero });
    const named = this.#width < STEP.named ? [] : weights.map((weight, step) => {
      const y = weight < 0 ? height(weight) + 14 : height(weight) - 5;
      return draw("text", { class: "series-weight", x: this.#middle(step), y }, signed(weight, 2));
    });
    return [...bars, line, ...named];
  }

  /** The numbers below the bars: across, or downwards where they are too long for that. */
  #labels() {
    const { labels, answer } = this.#look;
    const turned = this.#areTurned();
    return [...labels, `→ ${answer}`].map((label, step) => {
      const upright = step < labels.length ? "series-label upright" : "series-label upright last";
      const x = step < labels.length ? this.#middle(step) : (step + 1) * this.#width - 2;
      const below = `translate(${this.#middle(step) - 4} ${BARS.to + 16}) rotate(90)`;
      const place = turned ? { class: "series-label", transform: below } : { class: upright, x, y: BARS.to + LABELS.upright };
      return draw("text", place, label);
    });
  }

  /** Whether a number is too long for its place; the forecast has room up to the number before it. */
  #areTurned() {
    const { labels, answer } = this.#look;
    const long = (text) => LETTER * (text.length + 1);
    const before = labels.length ? long(labels.at(-1)) / 2 : 0;
    const isLong = labels.some((label) => long(label) > this.#width);
    return isLong || long(`→ ${answer}`) + before > 1.5 * this.#width;
  }

  /** The middle of a time step across. */
  #middle(step) {
    return (step + 0.5) * this.#width;
  }

  /** The time step under the pointer; null: none. */
  #under(event) {
    const box = this.drawing.getBoundingClientRect();
    const count = this.#look.labels.length;
    const step = Math.floor(((event.clientX - box.left) / box.width) * (count + 1));
    return step >= 0 && step < count ? step : null;
  }

  #move(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key === "Escape") this.#see(null);
    if (!(event.key in moves)) return;
    event.preventDefault();
    const last = this.#look.labels.length - 1;
    const next = this.#step === null ? last : this.#step + moves[event.key];
    this.#see(Math.min(last, Math.max(0, next)));
    this.marker.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #see(step) {
    this.#step = step;
    this.marker.setAttribute("x", String((step ?? 0) * this.#width));
    this.marker.classList.toggle("shown", step !== null);
    this.told.textContent = this.#tell(step);
  }

  #tell(step) {
    const { labels, weights, normalized } = this.#look;
    const kind = normalized ? "they sum to 1" : "no distribution: their signs count";
    if (step === null) return `Weights of ${labels.length} time steps (${kind}). Point at one.`;
    const back = labels.length - 1 - step;
    const when = back ? `${back} before the last` : "the last";
    return `${labels[step]} (${when}): weight ${signed(weights[step], 4)}`;
  }
}

/** Numbers from `low` to `high` to heights in a panel, the highest on top. */
function scale(low, high, { from, to }) {
  return (value) => to - ((value - low) / (high - low || 1)) * (to - from);
}
