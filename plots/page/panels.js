// A panel of curves for each task.

// Nothing leaves the page: no plotly button uploads a chart or links to plotly.
const ALONE = { displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };
const UPLOADS = ["sendChartToCloud", "sendDataToCloud"];
const MARKERS = { line: 7, panel: 200 }; // at most, but every line has one

const style = getComputedStyle(document.documentElement);
const [PAGE, INK, QUIET, GRID] = ["page", "ink", "quiet", "grid"].map(name => style.getPropertyValue(`--${name}`).trim());

/**
 * Average the curves {run, trial} of seeds with the same rounds into points {x, mean, low, high, round}, like
 * plots.runs.seeds. Points without a value, or not above 0 on a logarithmic axis, are left out.
 */
function overSeeds(seeds, { x, y, logx, logy }) {
  const points = seeds[0].run.axes.round.map((round, i) => {
    const places = seeds.map(({ run }) => run.axes[x][i]), values = seeds.map(({ trial }) => trial[y][i]);
    const place = places.every(one => one === places[0]) ? places[0] : mean(places);
    const low = Math.min(...values), high = Math.max(...values);
    if (values.includes(null) || (logx && place <= 0) || (logy && low <= 0)) return null;
    const middle = logy && values.length > 1 ? Math.exp(mean(values.map(Math.log))) : mean(values);
    return { x: place, mean: middle, low, high, round };
  });
  return points.filter(Boolean);
}

/** The lines of a task: {curve, lr, strength, seeds, run, finished, points}. Seeds with the same rounds are one line. */
function linesOf(task, view, runs) {
  const trials = runs.filter(run => run.task === task.name).flatMap(run => run.trials.map(trial => ({ run, trial })));
  return [...Map.groupBy(trials.filter(({ trial }) => trial[view.y]), ({ run }) => run.curve)].flatMap(([name, some]) => {
    const lrs = [...new Set(some.map(({ trial }) => trial.lr))].sort((a, b) => a - b);
    const best = view.lr === "best" && Object.hasOwn(task.best, name);
    return lrs.filter(lr => !best || lr === task.best[name]).flatMap(lr => {
      const groups = Map.groupBy(some.filter(({ trial }) => trial.lr === lr), ({ run }) => run.axes.round);
      return [...groups.values()].map(seeds => ({
        curve: curves.get(name), lr, seeds, run: seeds[0].run,
        strength: best ? 1 : 0.35 + (0.65 * (lrs.indexOf(lr) + 1)) / lrs.length, // the larger, the stronger
        finished: seeds.every(({ run }) => run.status === "finished"),
        points: overSeeds(seeds, view),
      }));
    });
  }).filter(({ points }) => points.length);
}

/** plotly's traces of one line: the line with at most `markers` markers, and behind it the band between its seeds. */
function traces({ curve, lr, strength, seeds, run, finished, points }, view, markers) {
  const unfinished = finished ? "" : `, seed ${run.seed} ${run.status}, round ${run.axes.round.at(-1)} of ${run.rounds}`;
  const name = `${curve.label}, step size ${short(lr)}${unfinished}`;
  const spread = seeds.length > 1 ? "<br>seeds %{customdata[1]:.4~g} to %{customdata[2]:.4~g}" : "";
  const uid = [curve.name, lr, run.folder].join().replace(/\W/g, "_"); // plotly uses it as part of a selector
  const line = {
    name: plain(name), opacity: strength, x: points.map(({ x }) => x), y: points.map(point => point.mean),
    mode: "lines+markers", line: { color: curve.color, width: 2, dash: finished ? curve.dash : "dot" },
    marker: { symbol: curve.symbol, color: curve.color, size: 8, maxdisplayed: markers, line: { color: PAGE, width: 0.8 } },
    customdata: points.map(({ round, low, high }) => [round, low, high]),
    hovertemplate: `<b>${plain(name)}</b><br>${plain(data.metrics[view.y].label)} %{y:.4~g}${spread}<br>` +
      `${data.axes[view.x].label} %{x:.4~g}<br>round %{customdata[0]}<extra></extra>`,
    uid: `${uid}_line`, legendgroup: uid, meta: { kind: "line", method: curve.method, curve: curve.name, lr, finished },
  };
  const back = [...points].reverse();
  const band = {
    x: [...points, ...back].map(({ x }) => x), y: [...points.map(({ high }) => high), ...back.map(({ low }) => low)],
    mode: "none", fill: "toself", fillcolor: curve.color, opacity: 0.18 * strength, hoverinfo: "skip", showlegend: false,
    uid: `${uid}_band`, legendgroup: uid, meta: { kind: "band", method: curve.method },
  };
  return seeds.length > 1 ? [band, line] : [line];
}

/** An axis over all values, as in pictures. */
function axis(label, log, values) {
  const [low, high] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const decades = log ? Math.log10(high / low) : 0;
  return {
    title: { text: plain(label), standoff: 8 }, type: log ? "log" : "linear", exponentformat: "power", automargin: true,
    gridcolor: GRID, zeroline: false, linecolor: QUIET, ticks: "outside", tickcolor: QUIET,
    nticks: log ? Math.max(3, Math.min(7, Math.ceil(1.12 * decades))) : 7, // decades alone if there are 2
    autorange: true, uirevision: JSON.stringify([label, log]),
  };
}

/** Draw a task's lines in its panel. */
function drawPanel(panel, task, view, lines) {
  const markers = Math.min(MARKERS.line, Math.ceil(MARKERS.panel / lines.length));
  const drawn = lines.flatMap(line => traces(line, view, markers)), { label } = data.metrics[view.y];
  const every = name => drawn.flatMap(trace => trace[name]);
  const nothing = { text: "nothing to draw: not measured here, or not chosen", showarrow: false };
  const plot = panel.querySelector(".plot");
  const names = [...new Set(lines.map(({ curve }) => curve.label))].join(", ");
  plot.setAttribute("aria-label", `${label} over ${data.axes[view.x].label} on ${task.label}: ${names || "nothing"}`);
  Plotly.react(plot, drawn, {
    xaxis: axis(data.axes[view.x].label, view.logx, every("x")),
    yaxis: axis(label, view.logy, every("y")),
    showlegend: true, legend: { orientation: "h", yanchor: "bottom", y: 1.02 }, hovermode: "closest", uirevision: "kept",
    paper_bgcolor: PAGE, plot_bgcolor: PAGE, font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: INK },
    // Wide enough for usual labels: where labels make a margin wider, plotly draws everything a second time.
    margin: { l: 76, r: 18, t: 10, b: 60 }, modebar: { bgcolor: "rgba(0,0,0,0)", color: QUIET, activecolor: INK, orientation: "v" },
    annotations: drawn.length ? [] : [{ ...nothing, x: 0.5, y: 0.5, xref: "paper", yref: "paper" }],
  }, { ...ALONE, responsive: true, modeBarButtonsToRemove: [...UPLOADS, "autoScale2d", "lasso2d", "select2d", "resetScale2d"] });
}

let waiting; // the timer of panels not yet drawn

/** Draw tasks, reusing their panels, and return their lines. Panels outside the window follow one by one, so that
 * nobody waits for them. */
function drawPanels(tasks, view, runs) {
  const before = new Map([...at("panels").children].map(panel => [panel.dataset.task, panel]));
  const panels = tasks.map(task => before.get(task.name) ?? make("div", { class: "panel", "data-task": task.name },
    make("h3", {}, task.label), make("div", { class: "plot", role: "img" })));
  for (const panel of before.values()) if (!panels.includes(panel)) Plotly.purge(panel.querySelector(".plot"));
  // All are placed before the first is drawn, because their number sets their width. Those in place stay, which saves a layout.
  if (panels.length !== before.size || panels.some(panel => !panel.parentNode)) at("panels").replaceChildren(...panels);
  for (const panel of panels) panel.classList.toggle("alone", panels.length === 1);
  const lines = tasks.map(task => linesOf(task, view, runs));
  const places = panels.map(panel => panel.getBoundingClientRect());
  const isSeen = i => places[i].bottom > 0 && places[i].top < innerHeight;
  const order = [...panels.keys()].sort((i, j) => isSeen(j) - isSeen(i));
  const next = () => {
    const i = order.shift();
    drawPanel(panels[i], tasks[i], view, lines[i]);
    if (order.length && isSeen(order[0])) next();
    else if (order.length) waiting = setTimeout(next);
  };
  clearTimeout(waiting);
  if (order.length) next();
  return lines.flat();
}
