/** The sentences of a text: attention is looked at one sentence at a time. */

/**
 * Where each of some parts stands in a text that holds them in that order.
 *
 * @param {string} text
 * @param {string[]} parts
 */
export function placesOf(text, parts) {
  let end = 0;
  return parts.map((part) => {
    const start = text.indexOf(part, end);
    end = start + part.length;
    return { start, end };
  });
}

/**
 * The number of the sentence that a caret stands in, or of the last before it.
 *
 * @param {string} text
 * @param {string[]} sentences
 * @param {number} caret
 */
export function sentenceAt(text, sentences, caret) {
  const begun = placesOf(text, sentences).filter(({ start }) => start <= caret).length;
  return Math.max(0, begun - 1);
}
