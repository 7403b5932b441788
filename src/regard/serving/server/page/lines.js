/** The lines of a text: attention is looked at one line at a time. */

/**
 * The lines of a text that hold anything.
 *
 * @param {string} text
 */
export function linesOf(text) {
  return text.split("\n").filter((line) => line.trim());
}

/**
 * The number of the line that a caret stands in, or of the last before a blank one.
 *
 * Lines are counted from 0 among those that are not blank.
 *
 * @param {string} text
 * @param {number} caret
 */
export function lineAt(text, caret) {
  const end = text.indexOf("\n", caret);
  return Math.max(0, linesOf(end < 0 ? text : text.slice(0, end)).length - 1);
}
