// One panel of curves a task.

// Nothing leaves the page: none of plotly's buttons sends a chart anywhere or leads to its maker.
const ALONE = { displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };
const UPLOADS = ["sendChartToCloud", "sendDataToCloud"];
const MOST_LINES = 40; // in a panel: nobody distinguishes more, and they take long to draw
const MARKERS = 7; // of a line
const DECADES = 8; // of a logarithmic y-axis at first

const style = getComputedStyle(document.documentElement);
const [PAGE, INK, QUIET, GRID] = ["page", "ink", "quiet", "grid"].map(name => style.getPropertyValue(`--${name}`).trim());

/**
 * The lines of a task: {curve, lr, strength, seeds, run, finished, points}. Seeds with the same rounds are one line. A
 * run that is not finished where others are has a line of its own.
 */
function linesOf(task, view, network, byCurve) {
  return [...byCurve].flatMap(([name, trials]) => {
    const lrs = [...new Set(trials.map(({ trial }) => trial.lr))].sort((a, b) => a - b);
    const best = view.lr === "best" && Object.hasOwn(task.best, name);
    return lrs.filter(lr => !best || lr === task.best[name]).flatMap(lr => {
      const some = trials.filter(({ trial }) => trial.lr === lr);
      const groups = Map.groupBy(some, ({ run }) => (run.latest ? run.axes.round : run));
      return [...groups.values()].map(seeds => ({
        curve: curves.get(name), lr, seeds, run: seeds[0].run,
        strength: best ? 1 : 0.35 + (0.65 * (lrs.indexOf(lr) + 1)) / lrs.length, // the larger, the stronger
        finished: seeds.every(({ run }) => run.status === "finished"),
        points: overSeeds(seeds, view.x, view.y, view.logx, view.logy, network),
      }));
    });
  });
}

/** As many lines as are drawn, of every method in turn the one that ends best; in the order they had. */
function mostTelling(lines, metric) {
  const toBest = data.metrics[metric].higher ? -1 : 1, ranks = new Map();
  const rank = ({ curve }) => ranks.set(curve.method, (ranks.get(curve.method) ?? 0) + 1).get(curve.method);
  const end = ({ points }) => (points.length ? toBest * points.at(-1).mean : Infinity);
  const ranked = [...lines].sort((a, b) => end(a) - end(b)).map(line => ({ line, rank: rank(line) }));
  const kept = new Set(ranked.sort((a, b) => a.rank - b.rank).slice(0, MOST_LINES).map(({ line }) => line));
  return lines.filter(line => kept.has(line));
}

/** plotly's trace of one line. */
function lineTrace({ curve, lr, strength, seeds, run, finished, points }, view) {
  const unfinished = finished ? "" : `, seed ${run.seed} ${run.status}, round ${run.axes.round.at(-1)} of ${run.rounds}`;
  const name = `${curve.label}, step size ${short(lr)}${unfinished}`;
  const spread = seeds.length > 1 ? "<br>seeds %{customdata[1]:.4~g} to %{customdata[2]:.4~g}" : "";
  return {
    name, opacity: strength, x: points.map(({ x }) => x), y: points.map(point => point.mean), mode: "lines+markers",
    line: { color: curve.color, width: 2, dash: finished ? curve.dash : "dot" },
    marker: { symbol: curve.symbol, color: curve.color, size: 8, maxdisplayed: MARKERS, line: { color: PAGE, width: 0.8 } },
    customdata: points.map(({ round, low, high }) => [round, low, high]),
    hovertemplate: `<b>${plain(name)}</b><br>${plain(data.metrics[view.y].label)} %{y:.4~g}${spread}<br>` +
      `${data.axes[view.x].label} %{x:.4~g}<br>round %{customdata[0]}<extra></extra>`,
    uid: `${[curve.name, lr, run.folder].join().replace(/\W/g, "_")}_line`, // plotly uses it as part of a selector
    meta: { kind: "line", method: curve.method, curve: curve.name, lr, finished },
  };
}

/** plotly's trace of the band between the seeds of a line. */
function bandTrace({ curve, lr, strength, points }) {
  const back = [...points].reverse(), x = ({ x }) => x;
  return {
    x: [...points.map(x), ...back.map(x)], y: [...points.map(({ high }) => high), ...back.map(({ low }) => low)],
    mode: "none", fill: "toself", fillcolor: curve.color, opacity: 0.18 * strength, hoverinfo: "skip",
    uid: `${[curve.name, lr].join().replace(/\W/g, "_")}_band`, meta: { kind: "band", method: curve.method },
  };
}

/** An axis over values; a logarithmic one may show its last DECADES at first. */
function axis(label, log, values, cut) {
  const [low, high] = [least(values), greatest(values)];
  const decades = log ? Math.log10(high / low) : 0;
  const range = cut && decades > DECADES ? [Math.log10(high) - DECADES, Math.log10(high) + 0.3] : undefined;
  return {
    title: { text: plain(label), standoff: 8 }, type: log ? "log" : "linear", exponentformat: "power", automargin: true,
    gridcolor: GRID, zeroline: false, linecolor: QUIET, ticks: "outside", tickcolor: QUIET,
    nticks: log ? Math.max(3, Math.min(7, Math.ceil(1.12 * decades))) : 7, // decades alone where there are 2
    ...(range ? { range } : { autorange: true }), uirevision: JSON.stringify([label, log, range]),
  };
}

/** Draw a task in its panel and return its lines. */
function drawPanel(panel, task, view, network, byCurve) {
  const lines = linesOf(task, view, network, byCurve).filter(({ points }) => points.length);
  const few = mostTelling(lines, view.y), { label } = data.metrics[view.y];
  const bands = few.filter(({ seeds }) => seeds.length > 1).map(bandTrace); // behind the lines
  const drawn = [...bands, ...few.map(line => lineTrace(line, view))];
  const every = name => drawn.flatMap(trace => trace[name]);
  const nothing = { text: "nothing to draw: not measured here, or not chosen", showarrow: false };
  const layout = {
    xaxis: axis(data.axes[view.x].label, view.logx, every("x"), false),
    yaxis: axis(label, view.logy, every("y"), true),
    showlegend: false, hovermode: "closest", uirevision: "kept", paper_bgcolor: PAGE, plot_bgcolor: PAGE,
    margin: { l: 66, r: 12, t: 10, b: 52 }, font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: INK },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: QUIET, activecolor: INK },
    annotations: drawn.length ? [] : [{ ...nothing, x: 0.5, y: 0.5, xref: "paper", yref: "paper" }],
  };
  const plot = panel.querySelector(".plot");
  const names = [...new Set(lines.map(({ curve }) => curve.label))].join(", ");
  plot.setAttribute("aria-label", `${label} over ${data.axes[view.x].label} on ${task.label}: ${names || "nothing"}`);
  const file = `${view.y} ${task.name.replaceAll("/", " ")}`;
  Plotly.react(plot, drawn, layout, {
    responsive: true, ...ALONE, toImageButtonOptions: { format: "svg", filename: file },
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "resetScale2d", ...UPLOADS],
  });
  panel.querySelector(".csv").onclick = () => save(`${file}.csv`, csvOf(task, lines, view));
  for (const entry of panel.querySelectorAll(".legend button")) {
    const shown = few.filter(({ curve }) => curve.name === entry.value);
    entry.setAttribute("aria-pressed", shown.length > 0);
    entry.querySelector("small").textContent = view.lr === "best" && shown.length ? short(shown[0].lr) : "";
  }
  panel.querySelector(".note").textContent = few.length === lines.length ? "" :
    `${few.length} of ${lines.length} lines are drawn: of every method those that end best. The CSV has all.`;
  return lines;
}

/** A cell of CSV; text that a spreadsheet would take for a formula begins with an apostrophe. */
function csvCell(value) {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A row for every point of lines: the mean, least and greatest value over seeds. */
function csvOf(task, lines, { x, y }) {
  const keys = data.settings.map(({ key }) => key);
  const rows = lines.flatMap(({ lr, seeds, run, points }) => {
    const settings = keys.map(key => run.settings[key]);
    const about = [task.name, run.method, ...settings, lr, seeds.map(({ run }) => run.seed).join(" "), run.status];
    return points.map(point => [...about, point.round, point.x, point.mean, point.low, point.high]);
  });
  const names = ["task", "method", ...keys, "lr", "seeds", "status", "round", `x: ${x}`, y, `${y}, least`, `${y}, greatest`];
  return [names, ...rows].map(row => row.map(csvCell).join()).join("\n") + "\n";
}

function save(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

/** Choose the method and the settings of a curve alone, or everything. */
function isolate(task, curve) {
  const runs = curve && data.runs.filter(run => run.task === task.name && run.curve === curve.name);
  choose("methods", curve && new Set([curve.method]));
  for (const { key } of data.settings) {
    const own = runs?.map(run => run.settings[key]).filter(value => value !== undefined);
    choose(WITH + key, own?.length ? new Set(own) : null);
  }
  show();
}

function newPanel(task) {
  const there = new Set(data.runs.filter(run => run.task === task.name).map(run => run.curve));
  const legend = [...curves.values()].filter(({ name }) => there.has(name)).map(curve =>
    button({ value: curve.name, title: ISOLATES }, event => isolate(task, event.detail > 1 ? null : curve),
      swatch(curve), make("span", {}, curve.label), make("small", { title: "step size" })));
  return make("div", { class: "panel", "data-task": task.name },
    make("div", { class: "head" }, make("h3", {}, task.label),
      button({ class: "csv" }, () => {}, "CSV")),
    make("div", { class: "plot", role: "img" }),
    make("div", { class: "legend", role: "group", "aria-label": `Curves on ${task.label}` }, ...legend),
    make("p", { class: "note" }));
}

/** Draw tasks, those that have a panel already in that one, and return their lines. */
function drawPanels(tasks, view, network, byTask) {
  const before = new Map([...at("panels").children].map(panel => [panel.dataset.task, panel]));
  const panels = tasks.map(task => before.get(task.name) || newPanel(task));
  for (const panel of before.values()) {
    if (!panels.includes(panel)) Plotly.purge(panel.querySelector(".plot"));
  }
  at("panels").replaceChildren(...panels); // all of them before the first is drawn: their number makes their width
  for (const panel of panels) panel.classList.toggle("alone", panels.length === 1);
  return tasks.flatMap((task, i) => drawPanel(panels[i], task, view, network, byTask.get(task.name)));
}
