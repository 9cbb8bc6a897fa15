"use strict";
// Sort a table by the column whose heading is pressed: numbers by data-v, words by their text, blanks last.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const isDown = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        return "v" in cell.dataset ? cell.dataset.v : cell.textContent.trim();
      };
      const isNumeric = "v" in table.tBodies[0].rows[0].cells[column].dataset;
      const compare = (a, b) => (isNumeric ? Number(a) - Number(b) : a.localeCompare(b));
      const rows = [...table.tBodies[0].rows].sort((one, other) => {
        const [a, b] = [key(one), key(other)];
        if (a === "" || b === "") return (a === "") - (b === "");
        return isDown ? compare(b, a) : compare(a, b);
      });
      table.tBodies[0].append(...rows);
    });
  });
}
