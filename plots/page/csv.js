// A panel's curves as a file for other programs.

/** A cell; text that a spreadsheet would take for a formula begins with an apostrophe. */
function csvCell(value) {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Every point of lines as `linesOf` has them: a row each, with the means, least and greatest values over seeds. */
function csvOf(task, lines, view, network) {
  const [x, y] = [view.x[0], view.y[0]];
  const keys = data.settings.map(({ key }) => key);
  const rows = lines.flatMap(({ curve, lr, curves: some }) => {
    const { run } = some[0], line = overSeeds(some, x, y, view.logy[0] === "1", network);
    const about = [task.name, run.method, ...keys.map(key => run.settings[key]), lr, some.map(({ run: { seed } }) => seed).join(" "), run.status];
    return line.x.map((place, i) => [...about, line.round[i], place, line.mean[i], line.low[i], line.high[i]]);
  });
  const names = ["task", "method", ...keys, "lr", "seeds", "status", "round", `x: ${x}`, y, `${y}, least`, `${y}, greatest`];
  return [names, ...rows].map(row => row.map(csvCell).join()).join("\n") + "\n";
}

function save(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}
