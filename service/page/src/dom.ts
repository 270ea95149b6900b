// Helpers that create elements. Styles are set only by classes: the page's policy forbids inline styles.

export type Child = Node | string | null | undefined | false;
export type Properties = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

const SVG = "http://www.w3.org/2000/svg";

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), properties, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

/** An image of a file, or from an address; it is removed if the browser cannot show it. */
export function imageOf(source: Blob | string, alt: string): HTMLImageElement {
  const src = typeof source === "string" ? source : URL.createObjectURL(source);
  const done = () => URL.revokeObjectURL(src); // no effect on an address of the service
  const fail = () => {
    done();
    image.remove();
  };
  const image = el("img", { src, alt, onload: done, onerror: fail });
  return image;
}

export function find<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

/**
 * Makes these the only children of an element. Children that are already in place are not moved, so that they keep the
 * focus. The focus of a removed one goes to the same control of the same picture, or to the element itself.
 */
export function refill(parent: HTMLElement, ...children: Element[]): void {
  const focused = document.activeElement as HTMLElement | null;
  const isInside = parent.contains(focused);
  const image_id = focused?.closest<HTMLElement>("[data-image]")?.dataset.image;
  const buttons = () => [...parent.querySelectorAll<HTMLElement>(`[data-image="${image_id}"] :is(button, .pick)`)];
  const place = buttons().indexOf(focused!);
  for (const one of [...parent.children]) if (!children.includes(one)) one.remove();
  for (const [n, one] of children.entries())
    if (parent.children[n] !== one) parent.insertBefore(one, parent.children[n] ?? null);
  if (isInside && !parent.contains(document.activeElement)) (buttons()[place] ?? parent).focus({ preventScroll: true });
}

/** Sets the text of an element if it differs, so that screen readers do not announce it again. */
export function renew(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Marks a field as invalid, described by the message in the element `toldBy`, or as valid. */
export function mark(field: HTMLElement, isInvalid: boolean, toldBy: string): void {
  field.ariaInvalid = isInvalid ? "true" : null;
  if (isInvalid) field.setAttribute("aria-describedby", toldBy);
  else field.removeAttribute("aria-describedby");
}

/**
 * Whether the focus may be moved after an action in an element: the user has not moved on. In Safari an ancestor has
 * the focus, since a pressed button takes none.
 */
export function isStillAt(element: Element): boolean {
  const focused = document.activeElement;
  return !focused || focused.contains(element) || element.contains(focused);
}

/** Loads a picture again that could not be loaded. */
export function loadAgain(image: HTMLImageElement): void {
  const { src } = image;
  image.removeAttribute("src"); // otherwise Safari remembers that it failed, and sends no request
  image.setAttribute("src", src);
}

const COMPOSING = 229; // key code while an input method composes a text, whose end Enter confirms

/**
 * Calls `take` if Enter only closed the list of suggestions of a field: in Safari, it then neither reports a change nor
 * submits the form. Where it does, a `keypress` precedes; a suggestion that it chose is an `input`.
 */
export function onEnterInList(field: EventTarget, take: () => void): void {
  let isUnused = false;
  field.addEventListener("keydown", (event) => {
    const { key, keyCode } = event as KeyboardEvent;
    isUnused = key === "Enter" && keyCode !== COMPOSING;
  });
  for (const kind of ["keypress", "input", "blur"]) field.addEventListener(kind, () => (isUnused = false));
  field.addEventListener("keyup", (event) => {
    if (isUnused && (event as KeyboardEvent).key === "Enter") take();
  });
}

/** A name with line breaks allowed after its punctuation. */
export function breakable(name: string): Child[] {
  return name.split(/(?<=[/_.-])(?=.)/su).flatMap((part, n) => (n ? [el("wbr"), part] : [part]));
}

export function button(text: string, onclick: () => void, properties: Properties = {}): HTMLButtonElement {
  return el("button", { type: "button", onclick, ...properties }, text);
}

/** A button that ignores presses while its work runs. Unlike a disabled button it keeps the focus meanwhile. */
export function workButton(text: string, work: () => Promise<void>, properties: Properties = {}): HTMLButtonElement {
  const start = async () => {
    if (one.hasAttribute("aria-disabled")) return;
    one.setAttribute("aria-disabled", "true");
    await work().finally(() => one.removeAttribute("aria-disabled"));
  };
  const one = button(text, () => void start(), properties);
  return one;
}

function filled<T extends Element>(element: T, properties: Properties, children: Child[]): T {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(
    ...children.filter((child): child is Node | string => child instanceof Node || typeof child === "string"),
  );
  return element;
}
