// Lines, bands, markers and axes as plotly has them.

const MOST_POINTS = 2000; // of a line on the screen
const DECADES = 8; // of a logarithmic axis at first

/** Every point that has a place of its own on an axis of MOST_POINTS places. */
function thinned(line, log) {
  if (line.x.length <= MOST_POINTS) return line;
  const places = log ? line.x.map(Math.log) : line.x;
  const [low, high] = [places[0], places[places.length - 1]];
  const cells = places.map(place => Math.floor((MOST_POINTS * (place - low)) / (high - low)));
  const kept = cells.map((_, i) => i).filter(i => i === 0 || cells[i] !== cells[i - 1]);
  return Object.fromEntries(Object.entries(line).map(([name, values]) => [name, kept.map(i => values[i])]));
}

/** What a line shows of itself, of its points those that an axis has places for: {look, line, ...}; null of a line without any. */
function drawing({ curve: look, lr, strength, curves: some, finished }, view, network) {
  const [x, y, logX, logY] = [view.x[0], view.y[0], view.logx[0] === "1", view.logy[0] === "1"];
  const whole = drawable(overSeeds(some, x, y, logY, network), logX, logY);
  return whole.x.length ? { look, lr, strength, finished, run: some[0].run, several: some.length > 1, line: thinned(whole, logX) } : null;
}

/** plotly's trace of one line. */
function lineTrace({ look, lr, strength, finished, run, several, line }, view) {
  const unfinished = finished ? "" : `, seed ${run.seed} ${run.status}, round ${run.axes.round.at(-1)} of ${run.rounds}`;
  const name = `${look.label}, step size ${short(lr)}${unfinished}`;
  const seeds = several ? "<br>seeds %{customdata[1]:.4~g} to %{customdata[2]:.4~g}" : "";
  return {
    name, opacity: strength, x: line.x, y: line.mean, mode: "lines",
    line: { color: look.color, width: 2, dash: finished ? look.dash : "dot" },
    customdata: line.x.map((_, i) => [line.round[i], line.low[i], line.high[i]]),
    hovertemplate: `<b>${plain(name)}</b><br>${plain(data.metrics[view.y[0]].label)} %{y:.4~g}${seeds}<br>` +
      `${data.axes[view.x[0]]} %{x:.4~g}<br>round %{customdata[0]}<extra></extra>`,
    // plotly takes traces of one uid for the same, and would leave the path of a line where a band takes its place.
    uid: `${[look.name, lr, finished ? "" : run.folder].join().replace(/\W/g, "_")}_line`, // part of a selector there
    meta: { kind: "line", method: look.method, curve: look.name, lr, finished },
  };
}

/** plotly's traces of the bands of lines: one for all that are filled alike, which is much faster than one each. */
function bandTraces(drawn) {
  const bands = new Map();
  for (const { look, strength, line } of drawn.filter(({ several }) => several)) {
    const key = `${look.method}_${strength}`;
    const band = bands.get(key) ?? {
      x: [], y: [], mode: "none", fill: "toself", fillcolor: look.color, opacity: 0.18 * strength, hoverinfo: "skip",
      uid: `${key.replace(/\W/g, "_")}_band`, meta: { kind: "band", method: look.method },
    };
    if (band.x.length) { // a gap between two
      band.x.push(null);
      band.y.push(null);
    }
    band.x.push(...line.x, ...[...line.x].reverse());
    band.y.push(...line.high, ...[...line.low].reverse());
    bands.set(key, band);
  }
  return [...bands.values()];
}

/** plotly's trace of the few markers of every line, fewer where there are many lines. */
function markTrace(drawn, view) {
  const each = Math.max(3, Math.min(7, Math.floor(120 / drawn.length)));
  const marks = drawn.flatMap(({ look, strength, line }) =>
    spread(line.x, view.logx[0] === "1", each).map(i => ({ x: line.x[i], y: line.mean[i], look, strength })));
  return {
    x: marks.map(({ x }) => x), y: marks.map(({ y }) => y), mode: "markers", hoverinfo: "skip",
    marker: {
      symbol: marks.map(({ look }) => look.symbol), color: marks.map(({ look }) => look.color),
      opacity: marks.map(({ strength }) => strength), size: 8, line: { color: ofPage.page, width: 0.8 },
    },
    uid: "marks", meta: { kind: "marks" },
  };
}

/**
 * An axis for values from `low` to `high`, or the part of it that is zoomed to; a logarithmic one that may be `cut` shows
 * DECADES of them at first, from the greatest down. Ranges come from the view alone: another one is another revision.
 */
function axis(label, log, low, high, cut, zoom) {
  const decades = log ? Math.log10(high / low) : 0;
  const begin = log && cut && decades > DECADES ? [Math.log10(high) - DECADES, Math.log10(high) + 0.3] : undefined;
  const range = zoom ?? begin;
  return {
    title: { text: plain(label), standoff: 8 }, type: log ? "log" : "linear", exponentformat: "power", automargin: true,
    gridcolor: ofPage.grid, zeroline: false, linecolor: ofPage.quiet, ticks: "outside", tickcolor: ofPage.quiet,
    nticks: log ? Math.max(3, Math.min(7, Math.ceil(1.12 * decades))) : 7, // decades alone where there are 2
    ...(range ? { range } : { autorange: true }), uirevision: JSON.stringify([label, log, range]),
  };
}

/** The least and the greatest of the traces' values. */
function extent(drawn, name) {
  const values = drawn.flatMap(trace => trace[name]).filter(value => value !== null);
  return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
}
