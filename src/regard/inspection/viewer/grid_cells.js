/** The cells of a grid that lies over a picture, numbered row by row. */

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const within = (value, count) => Math.min(count - 1, Math.max(0, value));

/**
 * The cell at a place of the picture, which is given in shares of its height and width.
 * @param {[number, number]} place @param {[number, number]} grid rows and columns
 */
export function cellAt([down, across], [rows, columns]) {
  return within(Math.floor(down * rows), rows) * columns + within(Math.floor(across * columns), columns);
}

/** The place of the middle of a cell. @returns {[number, number]} */
export function cellCentre(cell, [rows, columns]) {
  return [(Math.floor(cell / columns) + 0.5) / rows, ((cell % columns) + 0.5) / columns];
}

/** The row and the column of a cell, from 1, as people count. */
export function cellName(cell, columns) {
  return { row: Math.floor(cell / columns) + 1, column: (cell % columns) + 1 };
}

/** The cell that an arrow key leads to from another, or from none (null); null: it is no arrow key. */
export function cellBeside(cell, key, [rows, columns]) {
  const step = STEPS[key];
  if (!step) return null;
  if (cell === null) return 0;
  const [down, across] = step;
  const row = within(Math.floor(cell / columns) + down, rows);
  return row * columns + within((cell % columns) + across, columns);
}
