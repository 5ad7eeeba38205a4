// One panel of curves a task.

const MOST_POINTS = 2000; // of a line on the screen
const DECADES = 8; // of a logarithmic axis at first
// Nothing leaves the page: none of plotly's buttons sends a chart anywhere or leads to its maker.
const ALONE = { displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };
const UPLOADS = ["sendChartToCloud", "sendDataToCloud"];
const FONT = 'system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif';

/** The curves {run, trial} of a task's method with the chosen seeds, of all step sizes. */
function curvesOf(task, method, view) {
  return data.runs
    .filter(run => run.task === task.name && run.method === method.name && view.seeds.includes(String(run.seed)))
    .flatMap(run => run.trials.map(trial => ({ run, trial })));
}

function shownMethods(view) {
  return data.methods.filter(method => view.methods.includes(method.name));
}

/**
 * What is drawn of a task: {method, lr, strength, curves, finished}. One line for all seeds of a step size; a run that is
 * not finished where others are has a line of its own.
 */
function linesOf(task, view) {
  const lines = [];
  for (const method of shownMethods(view)) {
    const all = curvesOf(task, method, view).filter(({ trial }) => trial[view.y[0]]);
    const selected = view.lr[0] === "best" && method.name in task.best;
    const lrs = [...new Set(all.map(curve => curve.trial.lr))].sort((a, b) => a - b);
    for (const [i, lr] of lrs.entries()) {
      if (selected && lr !== task.best[method.name]) continue;
      const curves = all.filter(curve => curve.trial.lr === lr);
      const strength = selected ? 1 : 0.35 + (0.65 * (i + 1)) / lrs.length; // the larger, the stronger
      const groups = [curves.filter(curve => curve.run.settled)];
      groups.push(...curves.filter(curve => !curve.run.settled).map(curve => [curve]));
      for (const group of groups.filter(some => some.length)) {
        const finished = group.every(curve => curve.run.status === "finished");
        lines.push({ method, lr, strength, curves: group, finished });
      }
    }
  }
  return lines;
}

/** Every point that has a place of its own on an axis of MOST_POINTS places. */
function thinned(line, log) {
  if (line.x.length <= MOST_POINTS) return line;
  const places = log ? line.x.map(Math.log) : line.x;
  const [low, high] = [places[0], places[places.length - 1]];
  const cells = places.map(place => Math.floor((MOST_POINTS * (place - low)) / (high - low)));
  const kept = cells.map((_, i) => i).filter(i => i === 0 || cells[i] !== cells[i - 1]);
  return Object.fromEntries(Object.entries(line).map(([name, values]) => [name, kept.map(i => values[i])]));
}

/** plotly's traces of one line: band, line, and a few markers. */
function traces({ method, lr, strength, curves, finished }, view, link) {
  const [x, y, logX, logY] = [view.x[0], view.y[0], view.logx[0] === "1", view.logy[0] === "1"];
  const whole = drawable(overSeeds(curves, x, y, logY, link), logX, logY);
  if (!whole.x.length) return [];
  const line = thinned(whole, logX);
  const several = curves.length > 1;
  const { run } = curves[0];
  const unfinished = finished ? "" : `, seed ${run.seed} ${run.status}, round ${run.axes.round.at(-1)} of ${run.rounds}`;
  const name = `${method.label}, step size ${short(lr)}${unfinished}`;
  // plotly takes traces of one uid for the same, and would leave the path of a line where a band takes its place.
  const same = [method.name, lr, finished ? "" : run.folder].join().replace(/\W/g, "_"); // part of a selector there
  const common = { name, opacity: strength };
  const marks = spread(line.x, logX, 7);
  const band = {
    ...common, x: [...line.x, ...[...line.x].reverse()], y: [...line.high, ...[...line.low].reverse()],
    mode: "none", fill: "toself", fillcolor: method.color, opacity: 0.18 * strength,
    hoverinfo: "skip", uid: `${same}_band`, meta: { kind: "band", method: method.name },
  };
  const seeds = several ? "<br>seeds %{customdata[1]:.4~g} to %{customdata[2]:.4~g}" : "";
  const curve = {
    ...common, x: line.x, y: line.mean, mode: "lines",
    line: { color: method.color, width: 2, dash: finished ? method.dash : "dot" },
    customdata: line.x.map((_, i) => [line.round[i], line.low[i], line.high[i]]),
    hovertemplate: `<b>${plain(name)}</b><br>${plain(data.metrics[y].label)} %{y:.4~g}${seeds}<br>` +
      `${data.axes[x]} %{x:.4~g}<br>round %{customdata[0]}<extra></extra>`,
    uid: `${same}_line`, meta: { kind: "line", method: method.name, lr, finished },
  };
  const markers = {
    ...common, x: marks.map(i => line.x[i]), y: marks.map(i => line.mean[i]), mode: "markers", hoverinfo: "skip",
    marker: { symbol: method.symbol, color: method.color, size: 8, line: { color: "white", width: 0.8 } },
    uid: `${same}_marks`, meta: { kind: "marks", method: method.name },
  };
  return [...(several ? [band] : []), curve, markers];
}

/** An axis for values from `low` to `high`; a logarithmic one shows DECADES of them at first, from the greatest down. */
function axis(label, log, low, high, cut) {
  const decades = log ? Math.log10(high / low) : 0;
  const begin = log && cut && decades > DECADES ? { range: [Math.log10(high) - DECADES, Math.log10(high) + 0.3] } : {};
  return {
    title: { text: plain(label), standoff: 8 }, type: log ? "log" : "linear", exponentformat: "power", automargin: true,
    gridcolor: "#e6e8eb", zeroline: false, linecolor: "#444", ticks: "outside", tickcolor: "#444",
    nticks: log ? Math.max(3, Math.min(7, Math.ceil(1.12 * decades))) : 7, ...begin, // decades alone where there are 2
  };
}

/** The least and the greatest of the traces' values. */
function extent(drawn, name) {
  const values = drawn.flatMap(trace => trace[name]);
  return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
}

function drawPanel(panel, task, view, link) {
  const all = linesOf(task, view);
  const lines = all.filter(({ curves }) => areComparable(curves, view.x[0]));
  const isBand = trace => trace.meta.kind === "band";
  const drawn = lines.flatMap(line => traces(line, view, link)).sort((a, b) => isBand(b) - isBand(a)); // bands behind
  const [x, y] = [data.axes[view.x[0]], data.metrics[view.y[0]].label];
  const layout = {
    xaxis: axis(x, view.logx[0] === "1", ...extent(drawn, "x")),
    yaxis: axis(y, view.logy[0] === "1", ...extent(drawn, "y"), true),
    showlegend: false, hovermode: "closest",
    margin: { l: 66, r: 12, t: 10, b: 52 }, font: { family: FONT, size: 13, color: "#1f2328" },
    uirevision: [view.x, view.y, view.logx, view.logy].join(),
    annotations: drawn.length ? [] : [{
      text: "nothing to draw: not measured here, or not by these methods and seeds", showarrow: false,
      x: 0.5, y: 0.5, xref: "paper", yref: "paper",
    }],
  };
  const plot = panel.querySelector(".plot");
  const names = [...new Set(lines.map(line => line.method.label))].join(", ");
  plot.setAttribute("aria-label", `${y} over ${x} on ${task.label}: ${names || "nothing"}`);
  Plotly.react(plot, drawn, layout, {
    responsive: true, ...ALONE, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", ...UPLOADS],
    toImageButtonOptions: { format: "svg", filename: `${view.y[0]} ${task.name.replaceAll("/", " ")}` },
  });
  const chosen = [...new Set(lines.map(line => `${line.method.label}: ${short(line.lr)}`))];
  const refused = new Set(all.filter(line => !lines.includes(line)).map(line => line.method.label));
  panel.querySelector(".note").textContent = [
    ...(view.lr[0] === "best" && chosen.length ? [`Step sizes. ${chosen.join(" · ")}`] : []),
    ...[...refused].map(label => `Not drawn: ${label}, whose seeds were not evaluated at the same rounds and bits; choose one seed.`),
  ].join(" ");
}

function newPanel(task) {
  const plot = make("div", { class: "plot", role: "img" });
  return make("div", { class: "panel", "data-task": task.name },
    make("h3", {}, task.label), plot, make("p", { class: "note" }));
}

/** Draws the tasks, those that have a panel already in that one. */
function drawPanels(tasks, view, link) {
  const before = new Map([...at("panels").children].map(panel => [panel.dataset.task, panel]));
  const panels = tasks.map(task => before.get(task.name) || newPanel(task));
  for (const panel of before.values()) {
    if (!panels.includes(panel)) Plotly.purge(panel.querySelector(".plot"));
  }
  at("panels").replaceChildren(...panels); // all of them before the first is drawn: their number makes their width
  for (const panel of panels) panel.classList.toggle("alone", panels.length === 1);
  tasks.forEach((task, i) => drawPanel(panels[i], task, view, link));
  at("reading").textContent = reading(tasks, view);
}

/** How the curves are to be read, in words. */
function reading(tasks, view) {
  const rules = [...new Set(tasks.map(task => task.rule))];
  const sentences = [];
  if (view.lr[0] === "best") sentences.push(`Each method with ${rules.join(", or, elsewhere, ")}.`);
  else sentences.push("A line for each step size: the larger, the stronger.");
  if (view.seeds.length > 1) {
    sentences.push("Lines are means over seeds, geometric where y is logarithmic, in bands from the least to the greatest.");
  }
  sentences.push({
    bits: "Bits are those of one worker, both directions.",
    seconds: "Seconds are those measured, for all workers and all step sizes of a run, evaluations left out.",
    modelled_seconds: "Modelled seconds are explained at the foot of the page.",
  }[view.x[0]] || "");
  sentences.push("Drag to zoom, double-click for all.");
  if (data.runs.some(run => run.status !== "finished")) sentences.push("Dotted: runs that are not finished.");
  if (data.runs.some(run => run.axes.round.length > MOST_POINTS)) {
    sentences.push(`Lines are drawn with up to ${MOST_POINTS} points; tables count all.`);
  }
  if (fewer()) sentences.push(`Not all evaluations: ${fewer()}.`);
  return sentences.filter(Boolean).join(" ");
}
