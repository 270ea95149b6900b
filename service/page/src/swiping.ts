// Swipes of one finger from side to side, as pictures are turned over on a touch screen.
const LEAST_PX = 50;
const STEEPEST = 0.5; // of the way across, up or down: what is steeper scrolls

/** `onswipe` hears 1 of a swipe to the left, which leads on, and -1 of one to the right. */
export function onSwipe(element: HTMLElement, onswipe: (by: 1 | -1) => void): void {
  let from: Touch | null = null;
  element.addEventListener(
    "touchstart",
    ({ touches, target }) => {
      const isField = target instanceof Element && target.matches("input, textarea"); // where a finger moves in a text
      const isWhole = (visualViewport?.scale ?? 1) < 1.01; // else it moves what was drawn larger
      from = touches.length === 1 && isWhole && !isField ? touches[0]! : null;
    },
    { passive: true },
  );
  element.addEventListener("touchcancel", () => (from = null));
  element.addEventListener("touchend", ({ changedTouches: [to] }) => {
    if (!from || !to) return;
    const [across, down] = [to.clientX - from.clientX, to.clientY - from.clientY];
    from = null;
    if (Math.abs(across) >= LEAST_PX && Math.abs(down) <= STEEPEST * Math.abs(across)) onswipe(across < 0 ? 1 : -1);
  });
}
