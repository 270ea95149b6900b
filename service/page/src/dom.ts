// Elements made in one call. Styles are set by class alone: the page's policy allows no inline ones.

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

/** An image of a file, or of what is at an address; it goes where the browser cannot show it. */
export function imageOf(source: Blob | string, alt: string): HTMLImageElement {
  const src = typeof source === "string" ? source : URL.createObjectURL(source);
  const done = () => URL.revokeObjectURL(src); // which does nothing to an address of the service
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
 * Has an element hold these alone. Those that it holds already in this order keep the focus, as none does that is put in
 * anew. That of what is gone goes to the same button of the same picture, or to the element where there is none.
 */
export function refill(parent: HTMLElement, ...children: Element[]): void {
  const focused = document.activeElement as HTMLElement | null;
  const isInside = parent.contains(focused);
  const image_id = focused?.closest<HTMLElement>("[data-image]")?.dataset.image;
  const buttons = () => [...parent.querySelectorAll<HTMLElement>(`[data-image="${image_id}"] button`)];
  const place = buttons().indexOf(focused!);
  for (const one of [...parent.children]) if (!children.includes(one)) one.remove();
  for (const [n, one] of children.entries())
    if (parent.children[n] !== one) parent.insertBefore(one, parent.children[n] ?? null);
  if (isInside && !parent.contains(document.activeElement)) (buttons()[place] ?? parent).focus({ preventScroll: true });
}

/** Has an element say this: nobody is told once more of what it says already. */
export function renew(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Marks a field whose value cannot be read, of which the element `toldBy` tells, or that can be read again. */
export function mark(field: HTMLElement, isInvalid: boolean, toldBy: string): void {
  field.ariaInvalid = isInvalid ? "true" : null;
  if (isInvalid) field.setAttribute("aria-describedby", toldBy);
  else field.removeAttribute("aria-describedby");
}

/**
 * Whether the focus may be given for what was done in an element: nobody has gone on to another one meanwhile. What lies
 * around it has the focus in Safari, where a button that is pressed takes none.
 */
export function isStillAt(element: Element): boolean {
  const focused = document.activeElement;
  return !focused || focused.contains(element) || element.contains(focused);
}

/** A name that is broken between lines behind the marks in it, and elsewhere only where it has none. */
export function breakable(name: string): Child[] {
  return name.split(/(?<=[/_.-])(?=.)/su).flatMap((part, n) => (n ? [el("wbr"), part] : [part]));
}

export function button(text: string, onclick: () => void, properties: Properties = {}): HTMLButtonElement {
  return el("button", { type: "button", onclick, ...properties }, text);
}

/** A button that begins its work anew only once that has ended. It keeps the focus meanwhile, as a disabled one does not. */
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
