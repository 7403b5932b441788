/** A series with its forecast above, and below it a bar for the weight of each time step. */

import { draw, make } from "./elements.js";

const STEP = 40; // the width of a time step, in units of the drawing
const TOP = { from: 14, to: 170 };
const BARS = { from: 200, to: 360 };
const HEIGHT = 450; // with room for the numbers below the bars

export class SeriesView {
  #look = null;
  #step = null;

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
        pointermove: (event) => this.#see(this.#under(event)),
        pointerleave: () => this.#see(null),
        blur: () => this.#see(null),
        keydown: (event) => this.#move(event),
      },
    });
    this.notes = make("ul", { class: "series-notes" });
    root.replaceChildren(make("div", { class: "series-view" }, this.answer, this.told, this.frame, this.notes));
  }

  /** Show a document of `series_document`. */
  show(look) {
    this.#look = look;
    const before = look.before === null ? "" : ` (unchanged: ${look.before})`;
    this.answer.textContent = `→ ${look.answer}${before}`;
    this.notes.replaceChildren(...look.notes.map((line) => make("li", {}, line)));
    const width = STEP * (look.labels.length + 1);
    const viewBox = `0 0 ${width} ${HEIGHT}`;
    this.marker = draw("rect", { class: "series-mark", y: 0, width: STEP, height: HEIGHT });
    const parts = [this.marker, ...this.#line(), ...this.#bars(), ...this.#labels()];
    this.drawing = draw("svg", { viewBox, width, "aria-hidden": "true" }, ...parts);
    this.frame.replaceChildren(this.drawing);
    this.#see(null);
  }

  /** The numbers as they were scaled, a line for each column, and the forecast as a ring. */
  #line() {
    const { values, forecast } = this.#look;
    const all = [...values.flat(), ...forecast];
    const height = scale(Math.min(...all), Math.max(...all), TOP);
    return forecast.flatMap((ahead, column) => {
      const points = values.map((row, step) => [middle(step), height(row[column])]);
      const end = [middle(values.length), height(ahead)];
      return [
        draw("polyline", { class: "series-line", points: points.join(" ") }),
        draw("polyline", { class: "series-line ahead", points: [points.at(-1), end].join(" ") }),
        ...points.map(([cx, cy]) => draw("circle", { class: "series-point", cx, cy, r: 3 })),
        draw("circle", { class: "series-point ahead", cx: end[0], cy: end[1], r: 6 }),
      ];
    });
  }

  #bars() {
    const { weights } = this.#look;
    const height = scale(Math.min(0, ...weights), Math.max(0, ...weights), BARS);
    const zero = height(0);
    const bars = weights.map((weight, step) =>
      draw("rect", {
        class: weight < 0 ? "series-bar negative" : "series-bar",
        x: step * STEP + 0.1 * STEP,
        y: Math.min(zero, height(weight)),
        width: 0.8 * STEP,
        height: Math.abs(height(weight) - zero),
      }),
    );
    const width = STEP * weights.length;
    return [...bars, draw("line", { class: "series-zero", x1: 0, x2: width, y1: zero, y2: zero })];
  }

  #labels() {
    const { labels, answer } = this.#look;
    return [...labels, `→ ${answer}`].map((label, step) => {
      const place = `translate(${middle(step) - 4} ${BARS.to + 12}) rotate(90)`;
      return draw("text", { class: "series-label", transform: place }, label);
    });
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
  }

  #see(step) {
    this.#step = step;
    this.marker.setAttribute("x", String((step ?? 0) * STEP));
    this.marker.classList.toggle("shown", step !== null);
    this.told.textContent = this.#tell(step);
  }

  #tell(step) {
    const { labels, weights, normalized } = this.#look;
    const kind = normalized ? "they sum to 1" : "no distribution: their signs count";
    if (step === null) return `Weights of ${labels.length} time steps (${kind}). Point at one.`;
    const back = labels.length - 1 - step;
    const when = back ? `${back} before the last` : "the last";
    return `${labels[step]} (${when}): weight ${weights[step].toFixed(4).replace("-", "−")}`;
  }
}

/** The middle of a time step across. */
function middle(step) {
  return (step + 0.5) * STEP;
}

/** Numbers from `low` to `high` to heights in a panel, the highest on top. */
function scale(low, high, { from, to }) {
  return (value) => to - ((value - low) / (high - low || 1)) * (to - from);
}
