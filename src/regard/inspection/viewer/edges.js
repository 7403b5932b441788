/** Where an element that scrolls goes on beyond its edges. */

const MARGIN = 1; // browsers round

/**
 * Keep the sides on which an element goes on in its `data-more`, by which they fade out.
 * @param {HTMLElement} element
 * @param {(sides: string[]) => void} [told] of them, whenever they may have changed
 */
export function fadeEdges(element, told = () => {}) {
  const update = () => {
    const { scrollLeft, scrollTop, scrollWidth, scrollHeight, clientWidth, clientHeight } = element;
    const beyond = {
      left: scrollLeft,
      right: scrollWidth - clientWidth - scrollLeft,
      top: scrollTop,
      bottom: scrollHeight - clientHeight - scrollTop,
    };
    const sides = Object.keys(beyond).filter((side) => beyond[side] > MARGIN);
    element.dataset.more = sides.join(" ");
    told(sides);
  };
  element.addEventListener("scroll", update, { passive: true });
  const sizes = new ResizeObserver(update);
  sizes.observe(element);
  new MutationObserver(() => {
    for (const child of element.children) sizes.observe(child);
    update();
  }).observe(element, { childList: true });
}
