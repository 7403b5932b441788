/** Making elements without HTML in strings, which a strict policy would have to trust. */

const SVG = "http://www.w3.org/2000/svg";
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/**
 * An HTML element. Attributes that are null, undefined or false are left out, true ones are empty;
 * `on` holds listeners by the name of their event.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...(Node|string|null)} children
 * @returns {HTMLElement}
 */
export function make(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/** An SVG element, given as in `make`. @returns {SVGElement} */
export function draw(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * Listeners of an element in which a place is pointed at: `point` is called with the event of a mouse,
 * a pen or a finger, and with null when it has left. A finger that was lifted has not: what was tapped
 * stays until the element loses the focus, or the page begins to scroll.
 * @param {(event: PointerEvent|null) => void} point
 */
export function pointing(point) {
  return {
    pointerdown: point,
    pointermove: point,
    pointerleave: (event) => event.pointerType !== "touch" && point(null),
    pointercancel: () => point(null),
    blur: () => point(null),
  };
}

/** A number that no other call gives, to tie labels to what they name. */
export function freshId(name) {
  freshId.last = (freshId.last ?? 0) + 1;
  return `regard-${name}-${freshId.last}`;
}

/** A word within an English sentence: one that goes right to left turns nothing round behind it. */
export function isolated(text) {
  return RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text;
}

/** Red, green and blue of a computed colour. */
export function channels(colour) {
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}

/** A share of 1 as people read it: `83%` or `0.2%`. */
export function percent(share) {
  const hundredths = 100 * share;
  if (hundredths >= 0.95 || hundredths === 0) return `${Math.round(hundredths)}%`;
  return hundredths < 0.05 ? "<\u202f0.1%" : `${hundredths.toFixed(1)}%`;
}

/** A probability as people read it: `62.5%`, to tell near ones apart. */
export function probability(share) {
  return share > 0 && share < 0.0005 ? percent(share) : `${(100 * share).toFixed(1)}%`;
}

/** A number with so many digits behind the point, and a true minus sign. */
export function signed(number, digits) {
  return number.toFixed(digits).replace(/^-(?=[0.]+$)/, "").replace("-", "\u2212");
}

function furnish(element, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if ((value ?? false) === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  element.append(...children.filter((child) => (child ?? null) !== null));
  return element;
}
