// One panel of curves a task.

// Nothing leaves the page: none of plotly's buttons sends a chart anywhere or leads to its maker.
const ALONE = { displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };
const UPLOADS = ["sendChartToCloud", "sendDataToCloud"];
const MOST_LINES = 40; // in a panel: nobody tells more apart, and they take long to draw
const FONT = 'system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif';

/** The curves {run, trial} of runs, of all their step sizes. */
const trialsOf = runs => runs.flatMap(run => run.trials.map(trial => ({ run, trial })));

/**
 * What is drawn of a task: {curve, lr, strength, curves, finished}. One line for all seeds of a step size; a run that is
 * not finished where others are has a line of its own.
 */
function linesOf(task, view, ofTask = byCurve(chosenRuns(view)).get(task.name)) {
  const lines = [];
  for (const curve of curves.values()) {
    const all = trialsOf(ofTask.get(curve.name) ?? []).filter(({ trial }) => trial[view.y[0]]);
    const selected = view.lr[0] === "best" && Object.hasOwn(task.best, curve.name);
    const lrs = [...new Set(all.map(({ trial }) => trial.lr))].sort((a, b) => a - b);
    for (const [i, lr] of lrs.entries()) {
      if (selected && lr !== task.best[curve.name]) continue;
      const some = all.filter(({ trial }) => trial.lr === lr);
      const strength = selected ? 1 : 0.35 + (0.65 * (i + 1)) / lrs.length; // the larger, the stronger
      const groups = [some.filter(({ run }) => run.settled)];
      groups.push(...some.filter(({ run }) => !run.settled).map(one => [one]));
      for (const group of groups.filter(({ length }) => length)) {
        const finished = group.every(({ run }) => run.status === "finished");
        lines.push({ curve, lr, strength, curves: group, finished });
      }
    }
  }
  return lines;
}

/** As many lines as are drawn, of every method in turn the one that ends best; in the order they had. */
function mostTelling(lines, metric) {
  if (lines.length <= MOST_LINES) return lines;
  const { higher } = data.metrics[metric];
  const end = ({ curves: some }) => {
    const ends = some.map(({ trial }) => trial[metric].at(-1)).filter(value => value !== null);
    return ends.length < some.length ? Infinity : mean(ends) * (higher ? -1 : 1);
  };
  const ofMethod = new Map();
  const ranked = lines.map(line => ({ line, end: end(line) })).sort((a, b) => a.end - b.end).map(({ line }) => {
    const rank = ofMethod.get(line.curve.method) ?? 0;
    ofMethod.set(line.curve.method, rank + 1);
    return { line, rank };
  });
  const kept = new Set(ranked.sort((a, b) => a.rank - b.rank).slice(0, MOST_LINES).map(({ line }) => line));
  return lines.filter(line => kept.has(line));
}

/** Draws a task in its panel and gives back the lines. */
function drawPanel(panel, task, view, network, ofTask) {
  const all = linesOf(task, view, ofTask);
  const lines = all.filter(line => areComparable(line.curves, view.x[0]));
  const few = mostTelling(lines, view.y[0]);
  const shown = few.map(line => drawing(line, view, network)).filter(Boolean);
  const drawn = shown.length ? [...bandTraces(shown), ...shown.map(one => lineTrace(one, view)), markTrace(shown, view)] : []; // bands behind
  const [x, y] = [data.axes[view.x[0]], data.metrics[view.y[0]].label];
  const zoom = zooms.get(task.name);
  const layout = {
    xaxis: axis(x, view.logx[0] === "1", ...extent(drawn, "x"), false, zoom?.slice(0, 2)),
    yaxis: axis(y, view.logy[0] === "1", ...extent(drawn, "y"), true, zoom?.slice(2)),
    showlegend: false, hovermode: "closest", uirevision: "kept", paper_bgcolor: ofPage.page, plot_bgcolor: ofPage.page,
    margin: { l: 66, r: 12, t: 10, b: 52 }, font: { family: FONT, size: 13, color: ofPage.ink },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: ofPage.quiet, activecolor: ofPage.ink },
    annotations: drawn.length ? [] : [{
      text: "nothing to draw: not measured here, or not chosen", showarrow: false,
      x: 0.5, y: 0.5, xref: "paper", yref: "paper",
    }],
  };
  const plot = panel.querySelector(".plot");
  const names = [...new Set(lines.map(line => line.curve.label))].join(", ");
  plot.setAttribute("aria-label", `${y} over ${x} on ${task.label}: ${names || "nothing"}`);
  const isNew = !plot.data;
  Plotly.react(plot, drawn, layout, {
    responsive: true, ...ALONE, doubleClick: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "resetScale2d", ...UPLOADS],
    toImageButtonOptions: { format: "svg", filename: `${view.y[0]} ${task.name.replaceAll("/", " ")}` },
  });
  if (isNew) followZoom(plot, task);
  panel.querySelector(".whole").hidden = !zoom;
  panel.querySelector(".csv").onclick = () => save(`${view.y[0]} ${task.name.replaceAll("/", " ")}.csv`, csvOf(task, lines, view, network));
  for (const entry of panel.querySelectorAll(".legend button")) {
    const of = few.filter(({ curve }) => curve.name === entry.value);
    entry.setAttribute("aria-pressed", of.length > 0);
    entry.querySelector("small").textContent = view.lr[0] === "best" && of.length ? short(of[0].lr) : "";
  }
  const values = panel.querySelector(".values");
  values.ontoggle = () => values.open && values.lastChild.replaceChildren(valuesTable(task, lines, view));
  values.ontoggle();
  const refused = new Set(all.filter(line => !lines.includes(line)).map(line => line.curve.label));
  const notes = [...refused].map(label =>
    `Not drawn: ${label}, whose seeds were not evaluated at the same rounds and bits; choose one seed.`);
  if (few.length < lines.length) {
    notes.unshift(`${few.length} of ${lines.length} lines are drawn, of every method those that end best; choose settings to see others. ` +
      "The table and the CSV have all.");
  }
  panel.querySelector(".note").textContent = notes.join(" ");
  return lines;
}

/** Keep in the view what plotly's own handles zoom to. */
function followZoom(plot, task) {
  plot.on("plotly_relayout", change => {
    if (!Object.keys(change).some(key => /^[xy]axis\.(auto)?range/.test(key))) return;
    const { xaxis, yaxis } = plot.layout;
    zooms.set(task.name, [...xaxis.range, ...yaxis.range].map(value => Number(value.toPrecision(6))));
    show();
  });
  plot.on("plotly_doubleclick", () => unzoom(task));
}

function unzoom(task) {
  if (zooms.delete(task.name)) show();
}

/** The ends of a panel's lines, for whoever cannot see them. */
function valuesTable(task, lines, view) {
  const metric = view.y[0], { label, higher } = data.metrics[metric];
  const rows = lines.map(({ curve, lr, curves: some }) => {
    const known = overSeeds(some, "round", metric, view.logy[0] === "1").mean.filter(value => value !== null);
    const best = known.length ? known.reduce((a, b) => (higher ? Math.max(a, b) : Math.min(a, b))) : NaN;
    const { axes } = some[0].run;
    return [curve.label, short(lr), some.map(({ run }) => run.seed).join(", "), String(axes.round.at(-1)), inBits(axes.bits.at(-1)),
      ...[known[0], best, known.at(-1)].map(value => (Number.isFinite(value) ? short(value) : "–"))];
  });
  return table("", `${label} on ${task.label}`, ["method", "step size", "seeds", "rounds", "bits", "first", "best", "last"], rows);
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
  const legend = [...curves.values()].filter(curve => there.has(curve.name)).map(curve => {
    const entry = make("button", { type: "button", value: curve.name, title: "click: this one alone; double click: all" },
      swatch(curve), make("span", {}, curve.label), make("small", { title: "step size" }));
    entry.addEventListener("click", event => isolate(task, event.detail > 1 ? null : curve));
    return entry;
  });
  const whole = make("button", { type: "button", class: "whole", hidden: "" }, "whole range");
  whole.addEventListener("click", () => unzoom(task));
  return make("div", { class: "panel", "data-task": task.name },
    make("div", { class: "head" }, make("h3", {}, task.label), whole, make("button", { type: "button", class: "csv" }, "CSV")),
    make("div", { class: "plot", role: "img" }),
    make("div", { class: "legend", role: "group", "aria-label": `Curves on ${task.label}` }, ...legend),
    make("details", { class: "values" }, make("summary", {}, "as a table"), make("div", scrolling(`Values on ${task.label}`))),
    make("p", { class: "note" }));
}

/** Draws the tasks, those that have a panel already in that one, and gives back their lines. */
function drawPanels(tasks, view, network, grouped) {
  const before = new Map([...at("panels").children].map(panel => [panel.dataset.task, panel]));
  const panels = tasks.map(task => before.get(task.name) || newPanel(task));
  for (const panel of before.values()) {
    if (!panels.includes(panel)) Plotly.purge(panel.querySelector(".plot"));
  }
  at("panels").replaceChildren(...panels); // all of them before the first is drawn: their number makes their width
  for (const panel of panels) panel.classList.toggle("alone", panels.length === 1);
  const lines = tasks.flatMap((task, i) => drawPanel(panels[i], task, view, network, grouped.get(task.name)));
  at("reading").textContent = reading(tasks, view);
  return lines;
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
  sentences.push("Drag to zoom, double-click for all. Click on a name: that one alone, double-click: all; behind it the step size.");
  if (data.runs.some(run => run.status !== "finished")) sentences.push("Dotted: runs that are not finished.");
  if (data.runs.some(run => run.axes.round.length > MOST_POINTS)) {
    sentences.push(`Lines are drawn with up to ${MOST_POINTS} points; tables count all.`);
  }
  if (fewer()) sentences.push(`Not all evaluations: ${fewer()}.`);
  return sentences.filter(Boolean).join(" ");
}
