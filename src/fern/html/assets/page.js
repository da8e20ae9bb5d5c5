
"use strict";
(() => {
  const make = (tag, attributes, text) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // What a cell is sorted by; null where it holds nothing, which comes last in either direction.
  const key = (row, place, numeric) => {
    const cell = row.cells[place];
    if (!cell) return null;
    const told = cell.dataset.sort === undefined ? cell.textContent.trim() : cell.dataset.sort;
    if (told === "") return null;
    if (!numeric) return told.toLowerCase();
    const number = Number(told);
    return Number.isNaN(number) ? null : number;
  };

  const sort = (table, head) => {
    const heads = [...table.tHead.rows[0].cells];
    const place = heads.indexOf(head);
    const numeric = head.classList.contains("n");
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, place, numeric), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
      return down ? -order : order;
    });
    for (const [, row] of rows) row.classList.remove("block");
    body.append(...rows.map(([, row]) => row));
  };

  const controls = (table) => {
    const box = make("div", { class: "controls" });
    const name = table.caption ? table.caption.textContent : "table";
    const search = make("input", { type: "search", placeholder: "Filter rows", "aria-label": `Filter: ${name}` });
    const count = make("span", { class: "soft", role: "status" });
    const rows = [...table.tBodies[0].rows];
    search.addEventListener("input", () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
    });
    box.append(search);
    const heads = [...table.tHead.rows[0].cells];
    const groups = [...new Set(heads.map((head) => head.dataset.group).filter(Boolean))];
    if (groups.length > 1) {
      const choice = make("select", { "aria-label": `Columns: ${name}` });
      choice.append(make("option", { value: "" }, "All metrics"));
      for (const group of groups) choice.append(make("option", { value: group }, group));
      choice.addEventListener("change", () => {
        for (const row of [table.tHead.rows[0], ...rows])
          heads.forEach((head, place) => {
            const other = choice.value && head.dataset.group && head.dataset.group !== choice.value;
            if (row.cells[place]) row.cells[place].hidden = Boolean(other);
          });
      });
      box.append(choice);
    }
    box.append(count);
    (table.closest(".scroll") || table).before(box);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[0].cells) {
      const button = make("button", { type: "button" }, head.textContent);
      button.addEventListener("click", () => sort(table, head));
      head.replaceChildren(button);
    }
    if (table.classList.contains("filterable")) controls(table);
  }

  const copy = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {
      getSelection().selectAllChildren(code); // a browser that forbids it: the text is marked, to be copied by hand
      return false;
    }
  };
  for (const code of document.querySelectorAll("code.copy")) {
    const button = make("button", { type: "button", class: "copied" }, "Copy");
    button.addEventListener("click", async () => {
      button.textContent = (await copy(code)) ? "Copied" : "Marked";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    code.after(button);
  }

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
})();
