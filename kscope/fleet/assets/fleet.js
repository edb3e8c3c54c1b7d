"use strict";
// Tables that are searched and sorted. The data is text in an element that nothing executes; whatever a report called
// itself gets onto the page as the text of an element, never as markup.
(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("fleet-data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const tables = await new Response(stream).json();
  const STEP = 200;

  const time = (us) => {
    if (us === null) return "";
    const size = Math.abs(us);
    const [value, unit] = size >= 1e6 ? [us / 1e6, "s"] : size >= 1e3 ? [us / 1e3, "ms"] : [us, "µs"];
    return `${value.toPrecision(3).replace(/e\+\d+$/, "")} ${unit}`;
  };
  const shown = {
    text: (v) => v ?? "",
    time,
    count: (v) => (v === null ? "" : v.toLocaleString("en-US")),
    times: (v) => (v === null ? "" : `${v.toFixed(2)}x`),
    code: (v) => v ?? "",
  };
  const element = (name, text, type) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (type) made.className = type;
    return made;
  };
  const number = (type) => type === "time" || type === "count" || type === "times";

  for (const table of tables) {
    const place = document.getElementById(table.id);
    const words = table.rows.map((row) => row.filter((v) => typeof v === "string").join("\n").toLowerCase());
    let order = table.rows.map((_, i) => i);
    let found = order;
    let limit = STEP;
    let by = -1;
    let down = true;

    const tools = element("div", undefined, "tools");
    const search = element("input");
    search.type = "search";
    search.placeholder = "search names, causes, chips, commits";
    search.setAttribute("aria-label", `Search ${table.title}`);
    const count = element("span", "", "dim");
    count.setAttribute("role", "status");
    tools.append(search, count);

    const scroll = element("div", undefined, "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", table.title);
    const made = element("table");
    const head = element("tr");
    const body = element("tbody");
    const more = element("button", "show more", "more");
    table.columns.forEach(([name, type], i) => {
      const cell = element("th", undefined, number(type) ? "n" : "");
      cell.scope = "col";
      const press = element("button", name);
      press.type = "button";
      press.addEventListener("click", () => {
        down = by === i ? !down : number(type);
        by = i;
        for (const other of head.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (n) => table.rows[n][i];
        order = table.rows.map((_, n) => n).sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          if (x === y) return a - b;
          if (x === null || x === "") return 1;
          if (y === null || y === "") return -1;
          const less = typeof x === "string" ? (x < y ? -1 : 1) : x - y;
          return down ? -less : less;
        });
        look();
      });
      cell.append(press);
      head.append(cell);
    });
    const draw = () => {
      const rows = found.slice(0, limit).map((n) => {
        const line = element("tr");
        table.columns.forEach(([, type], i) => {
          const value = table.rows[n][i];
          const cell = element("td", undefined, number(type) ? "n" : "");
          if (type === "code" && value) cell.append(element("code", value));
          else cell.textContent = shown[type](value);
          const long = String(value ?? "").length;
          if (type === "code" && long <= 14) cell.classList.add("short");
          else if (long > 14 && !number(type)) cell.classList.add(type === "code" ? "name" : long > 60 ? "long" : "text");
          if (type === "times" && table.signed) cell.classList.add(value > 1 ? "slower" : "faster");
          line.append(cell);
        });
        return line;
      });
      body.replaceChildren(...rows);
      count.textContent = `${found.length.toLocaleString("en-US")} of ${table.rows.length.toLocaleString("en-US")}`;
      more.hidden = found.length <= limit;
    };
    const look = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      found = wanted.length ? order.filter((n) => wanted.every((w) => words[n].includes(w))) : order;
      limit = STEP;
      draw();
    };
    search.addEventListener("input", look);
    more.addEventListener("click", () => {
      limit += 5 * STEP;
      draw();
    });
    const top = element("thead");
    top.append(head);
    made.append(top, body);
    scroll.append(made);
    place.replaceChildren(tools, scroll, more);
    draw();
  }
  document.documentElement.dataset.ready = "yes";
})();
