// Elements are made here and nowhere else: text goes in as text, so nothing in a report can become markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | EventListener>;

const SVG = "http://www.w3.org/2000/svg";

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) element.append(child);
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

export function clear(element: Element): void {
  element.replaceChildren();
}

/** A style that depends on data. Set through the object model, which the content security policy allows. */
export function styled<T extends HTMLElement | SVGElement>(element: T, values: Record<string, string>): T {
  for (const [name, value] of Object.entries(values)) element.style.setProperty(name, value);
  return element;
}

export function debounce(wait: number, run: () => void): () => void {
  let timer = 0;
  return () => { clearTimeout(timer); timer = window.setTimeout(run, wait); };
}
