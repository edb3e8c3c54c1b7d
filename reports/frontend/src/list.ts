// A list of rows of equal height of which only those in sight exist: ten thousand instructions scroll like ten.

import { h, s, styled } from "./dom";

export interface ListOptions {
  label: string;
  rowHeight: number;
  count: () => number;
  /** Fill a row that shows index; the element is reused. */
  draw: (row: HTMLElement, index: number) => void;
  onPick?: (index: number) => void;
  onHover?: (index: number) => void;
}

const SPARE = 12;

export class VirtualList {
  readonly element: HTMLElement;
  private readonly space: HTMLElement;
  private readonly pool: { row: HTMLElement; index: number }[] = [];
  private everything = false;
  private drawn: SVGElement | null = null;
  private pending = 0;
  private readonly watch: ResizeObserver;

  constructor(private readonly options: ListOptions) {
    this.space = h("div", { class: "space", role: "presentation" });
    this.element = h("div", { class: "virtual", tabindex: 0, role: "listbox", "aria-label": options.label }, this.space);
    this.element.addEventListener("scroll", () => this.later(), { passive: true });
    this.element.addEventListener("click", (event) => {
      const index = this.indexOf(event.target);
      if (index >= 0) options.onPick?.(index);
    });
    if (options.onHover) {
      this.element.addEventListener("pointermove", (event) => options.onHover?.(this.indexOf(event.target)));
      this.element.addEventListener("pointerleave", () => options.onHover?.(-1));
    }
    this.watch = new ResizeObserver(() => this.later());
    this.watch.observe(this.element);
  }

  close(): void {
    this.watch.disconnect();
  }

  private indexOf(target: EventTarget | null): number {
    const row = (target as HTMLElement | null)?.closest?.<HTMLElement>("[data-index]");
    return row ? Number(row.dataset.index) : -1;
  }

  private later(): void {
    if (!this.pending) this.pending = requestAnimationFrame(() => { this.pending = 0; this.render(false); });
  }

  /** Draw every visible row again: after a change of what rows show. */
  refresh(): void {
    styled(this.space, { height: `${this.options.count() * this.options.rowHeight}px` });
    this.render(true);
  }

  private render(all: boolean): void {
    const { rowHeight, count, draw } = this.options;
    const height = this.everything ? count() * rowHeight : this.element.clientHeight || 600;
    const first = this.everything ? 0 : Math.max(0, Math.floor(this.element.scrollTop / rowHeight) - SPARE);
    const last = Math.min(count(), Math.ceil((this.element.scrollTop + height) / rowHeight) + SPARE);
    const wanted = Math.ceil(height / rowHeight) + 2 * SPARE + 2;
    if (this.pool.length > 4 * wanted) { for (const { row } of this.pool) row.remove(); this.pool.length = 0; } // after paper
    while (this.pool.length < wanted) {
      const row = h("div", { class: "row", role: "option", hidden: true });
      this.space.append(row);
      this.pool.push({ row, index: -1 });
    }
    const used = new Set<number>();
    for (let index = first; index < last; index++) {
      const slot = index % this.pool.length;
      used.add(slot);
      const entry = this.pool[slot];
      if (entry.index !== index) {
        entry.index = index;
        entry.row.dataset.index = String(index);
        entry.row.id = `${this.options.label.replace(/\W+/g, "-")}-${index}`;
        styled(entry.row, { transform: `translateY(${index * rowHeight}px)` });
        entry.row.hidden = false;
        draw(entry.row, index);
      } else if (all) {
        draw(entry.row, index);
      }
    }
    this.pool.forEach((entry, slot) => {
      if (!used.has(slot) && entry.index >= 0) { entry.index = -1; entry.row.hidden = true; }
    });
  }

  /** Bring a row into sight: to the middle where it was out of it. */
  reveal(index: number, always = false): void {
    const { rowHeight } = this.options;
    const top = index * rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (always || top < scrollTop + rowHeight || top > scrollTop + clientHeight - 2 * rowHeight) {
      this.element.scrollTop = Math.max(0, top - clientHeight / 2);
    }
    this.render(false);
  }

  /** Give a class to the drawn rows that a test accepts. The rows stay, so that the pointer keeps its target. */
  mark(name: string, test: (index: number) => boolean): void {
    for (const { row, index } of this.pool) if (index >= 0) row.classList.toggle(name, test(index));
  }

  /** Lines in the gutter from one row to others: register dependencies of the row under the pointer. */
  links(from: number, before: number[], after: number[]): void {
    this.drawn?.remove();
    this.drawn = null;
    if (from < 0 || !(before.length + after.length)) return;
    const { rowHeight } = this.options, middle = (row: number) => row * rowHeight + rowHeight / 2;
    const svg = s("svg", { class: "links", "aria-hidden": "true", width: 14, height: this.options.count() * rowHeight });
    [...before.map((row) => [row, "before"] as const), ...after.map((row) => [row, "after"] as const)].forEach(([row, kind]) => {
      svg.append(s("path", { class: kind, d: `M12 ${middle(row)} H4 V${middle(from)} H12` }), s("circle", { class: kind, cx: 12, cy: middle(row), r: 2 }));
    });
    this.space.append(svg);
    this.drawn = svg;
  }

  /** All rows at once, for paper; afterwards only those in sight again. */
  whole(on: boolean): void {
    this.everything = on;
    this.render(true);
  }

  active(index: number): void {
    const row = this.pool.find((entry) => entry.index === index)?.row;
    if (row) this.element.setAttribute("aria-activedescendant", row.id);
  }
}
