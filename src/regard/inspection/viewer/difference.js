/** Two translations word by word: what went, what came, what stayed. */

import { make } from "./elements.js";

/**
 * A word of two texts and its place in each: null where it is not.
 * @typedef {{text: string, before: number|null, after: number|null}} Word
 * @typedef {Word & {kind: "same"|"gone"|"new"}} Step
 */

/**
 * The shortest edit from the words of one text to those of another.
 * @param {string[]} before @param {string[]} after @returns {Step[]}
 */
export function compare(before, after) {
  const kept = commonLengths(before, after);
  const steps = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      steps.push({ kind: "same", text: after[j], before: i++, after: j++ });
    } else if (j === after.length || (i < before.length && kept[i + 1][j] >= kept[i][j + 1])) {
      steps.push({ kind: "gone", text: before[i], before: i++, after: null });
    } else {
      steps.push({ kind: "new", text: after[j], before: null, after: j++ });
    }
  }
  return steps;
}

/** Letters of scripts that put no spaces between words. */
const UNSPACED =
  "[\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Bopo}ー\\p{sc=Thai}\\p{sc=Laoo}\\p{sc=Khmr}\\p{sc=Mymr}\\p{sc=Tibt}]";
const WORD = new RegExp(`${UNSPACED}\\p{M}*|(?:(?!${UNSPACED})[\\S\\u00a0])+`, "gu");
const TIGHT = `[${UNSPACED.slice(1, -1)}。、，．：；！？（）「」『』【】《》〈〉・]`;
const ENDS_TIGHT = new RegExp(`${TIGHT}$`, "u");
const BEGINS_TIGHT = new RegExp(`^${TIGHT}`, "u");

/** The later text with what is new in it marked; what it has lost stands struck. */
export function marked(before, after) {
  // In scripts without spaces words are single letters, and no space stands between them.
  const steps = compare(before.match(WORD) ?? [], after.match(WORD) ?? []);
  const tags = { same: "span", gone: "del", new: "ins" };
  const line = make("span", { class: "marked", dir: "auto" });
  steps.forEach(({ kind, text }, place) => {
    const tight = place === 0 || ENDS_TIGHT.test(steps[place - 1].text) || BEGINS_TIGHT.test(text);
    line.append(tight ? "" : " ", make(tags[kind], {}, text));
  });
  return line;
}

/** For each pair of places the length of the longest common subsequence after them. */
function commonLengths(before, after) {
  const table = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      table[i][j] =
        before[i] === after[j]
          ? table[i + 1][j + 1] + 1
          : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  return table;
}
