// Work that is waited for: that it takes a moment is seen, and what failed is told and tried again.
import { canBeTriedAgain, isAnswering, isPassing, Refusal, Unreachable } from "./api";
import { button, el, find } from "./dom";
import { messageOf } from "./text";

const MOMENT_MS = 400; // after which a wait is told of
const AGAIN_MS = 2000; // between two looks whether the service is back

const main = find("main");
const status = find("status");
let running = 0;
let moment = 0;
let back = 0;

/**
 * Does the work; `waiting` is said where it takes longer than a moment, unless it is "".
 *
 * `onfault` hears of what failed before it is told; `again` does what is wanted by then once more.
 */
export async function tried(
  work: () => Promise<void>,
  waiting: string,
  onfault: (fault: unknown) => void,
  again: () => void,
): Promise<void> {
  const told = begin(waiting);
  const hadFocus = status.contains(document.activeElement); // as “Try again” has that was pressed
  try {
    await work();
  } catch (fault) {
    onfault(fault);
    status.replaceChildren(el("span", { class: "fault" }, messageOf(fault)));
    if (canBeTriedAgain(fault)) status.append(" ", button("Try again", again));
    if (fault instanceof Unreachable) whenBack(again);
    if (fault instanceof Refusal && isPassing(fault) && fault.retryAfter > 0) afterPause(again, fault.retryAfter);
  } finally {
    end(told);
    if (hadFocus && document.activeElement === document.body)
      (status.querySelector("button") ?? main).focus({ preventScroll: true });
  }
}

/** Begins to wait; the timer that tells of it after a moment in the place of what was waited for before, 0 for none. */
function begin(waiting: string): number {
  running++;
  clearTimeout(back);
  main.setAttribute("aria-busy", "true");
  if (!waiting) return 0;
  clearTimeout(moment);
  moment = setTimeout(() => {
    main.classList.add("late");
    status.textContent = waiting;
  }, MOMENT_MS);
  return moment;
}

/** Ends a wait, which is not told of any more. */
function end(told: number): void {
  if (told === moment) {
    clearTimeout(moment);
    main.classList.remove("late");
  }
  running--;
  if (!running) main.removeAttribute("aria-busy");
}

/**
 * Tries again after the seconds that the service asks for; a page that nobody looks at waits on. What is tried meanwhile
 * ends the waiting, what was begun before does not.
 */
function afterPause(again: () => void, seconds: number): void {
  clearTimeout(back);
  back = setTimeout(() => {
    if (document.hidden) afterPause(again, seconds);
    else again();
  }, 1000 * seconds);
}

/** Tries again as soon as the service answers; what is tried meanwhile ends the waiting. */
function whenBack(again: () => void): void {
  clearTimeout(back);
  const look = async () => {
    const mine = back;
    const isBack = await isAnswering();
    if (mine !== back) return;
    if (isBack) again();
    else whenBack(again);
  };
  back = setTimeout(() => void look(), AGAIN_MS);
}
