/** The positions of sentences in a text. */

/**
 * The span of each of some parts of a text, which come in that order.
 *
 * @param {string} text
 * @param {string[]} parts
 */
export function spansOf(text, parts) {
  let end = 0;
  return parts.map((part) => {
    const start = text.indexOf(part, end);
    end = start + part.length;
    return { start, end };
  });
}

/**
 * The number of the sentence at a caret, or of the last one before it.
 *
 * @param {string} text
 * @param {string[]} sentences
 * @param {number} caret
 */
export function sentenceAt(text, sentences, caret) {
  const begunBefore = spansOf(text, sentences).filter(({ start }) => start <= caret).length;
  return Math.max(0, begunBefore - 1);
}
