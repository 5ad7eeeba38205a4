"use strict";
// The numbers behind the page's lines and tables, from the runs that page.py writes into it. A curve is one step
// size of one run: {run, trial}. Each function follows the Python function that its comment names.

/** A run's values on a horizontal axis. */
function along(run, x, network) {
  return x === "modelled_seconds" ? modelledSeconds(run, network) : run.axes[x];
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Whether curves were evaluated at the same places, times aside: only then is there a mean over them. Lists that are
 * equal are one, see base.js. */
function areComparable(curves, x) {
  const same = name => curves.every(({ run }) => run.axes[name] === curves[0].run.axes[name]);
  return same("round") && (!["bits", "bits_up", "bits_down", "epoch"].includes(x) || same(x));
}

/**
 * One line from the curves of several seeds, evaluated at the same rounds: {x, mean, low, high, round}, null where a
 * seed has no value; plots.runs.seeds.over_seeds. Times differ between seeds, and stand at their mean.
 */
function overSeeds(curves, x, y, geometric, network) {
  const xs = curves.map(curve => along(curve.run, x, network));
  const ys = curves.map(curve => curve.trial[y]);
  const line = { x: [], mean: [], low: [], high: [], round: curves[0].run.axes.round };
  line.round.forEach((_, i) => {
    const values = ys.map(column => column[i]);
    const known = values.every(value => value !== null);
    const places = xs.map(column => column[i]);
    line.x.push(places.every(place => place === places[0]) ? places[0] : mean(places));
    line.low.push(known ? Math.min(...values) : null);
    line.high.push(known ? Math.max(...values) : null);
    if (!known || values.length === 1) line.mean.push(known ? values[0] : null);
    else line.mean.push(geometric ? Math.exp(mean(values.map(Math.log))) : mean(values));
  });
  return line;
}

/** The line without the points that have no value, or no place on a logarithmic axis. */
function drawable(line, logX, logY) {
  const kept = line.x.map((x, i) => i).filter(i =>
    line.mean[i] !== null && (!logX || line.x[i] > 0) && (!logY || line.low[i] > 0));
  return Object.fromEntries(Object.entries(line).map(([name, values]) => [name, kept.map(i => values[i])]));
}

/** Indices of about `count` points that lie evenly on an axis, the ends among them; plots.figure.curves._spread. */
function spread(x, log, count) {
  const place = log ? Math.log : value => value;
  const [first, last] = [place(x[0]), place(x[x.length - 1])];
  const nearest = new Set();
  for (let k = 0; k < count; k++) {
    const target = first + ((last - first) * k) / (count - 1);
    let best = 0;
    for (let i = 1; i < x.length; i++) {
      if (Math.abs(place(x[i]) - target) < Math.abs(place(x[best]) - target)) best = i;
    }
    nearest.add(best);
  }
  return [...nearest].sort((a, b) => a - b);
}

/** Whether a value is at a level or beyond it. */
function isThere(value, level, higher) {
  return value !== null && (higher ? value >= level : value <= level);
}

/**
 * The fewest bits after which one method was seen at or beyond a level, over all of its step sizes with which every
 * seed got there, of equals the smallest: {bits, low, high, round, lr}, means over seeds; null where none did;
 * plots.runs.levels.bits_to_reach.
 */
function bitsToReach(curves, metric, level, higher) {
  const seeds = new Set(curves.map(curve => curve.run.seed)).size;
  const firsts = new Map();
  for (const { run, trial } of curves) {
    const i = (trial[metric] || []).findIndex(value => isThere(value, level, higher));
    if (i < 0) continue;
    if (!firsts.has(trial.lr)) firsts.set(trial.lr, []);
    firsts.get(trial.lr).push({ bits: run.axes.bits[i], round: run.axes.round[i] });
  }
  let cheapest = null;
  for (const lr of [...firsts.keys()].sort((a, b) => a - b)) {
    const there = firsts.get(lr), bits = there.map(first => first.bits);
    if (there.length < seeds || (cheapest && mean(bits) >= cheapest.bits)) continue;
    const round = mean(there.map(first => first.round));
    cheapest = { bits: mean(bits), low: Math.min(...bits), high: Math.max(...bits), round, lr };
  }
  return cheapest;
}

/**
 * Levels worth a table: the first ones beyond where all curves start that one of them reaches. Of accuracies steps of
 * 10 %, of losses and norms decades; up to five round numbers where fewer than two of these lie in between. Values that
 * are not positive count for nothing.
 */
function usualLevels(curves, metric, higher) {
  const positive = curves.map(({ trial }) => (trial[metric] || []).filter(value => value > 0));
  const columns = positive.filter(column => column.length);
  if (!columns.length) return [];
  const better = (a, b) => (higher ? Math.max(a, b) : Math.min(a, b));
  const start = columns.map(column => column[0]).reduce(better), best = columns.flat().reduce(better);
  const [low, high] = start < best ? [start, best] : [best, start];
  let levels = higher ? multiples(0.1, low, high) : decades(low, high);
  if (levels.length < 2) levels = multiples(roundStep((high - low) / 5), low, high);
  return (higher ? levels : levels.reverse()).slice(0, higher ? 9 : 5);
}

function decades(low, high) {
  const levels = [];
  for (let power = Math.ceil(Math.log10(low)); power < Math.log10(high); power++) levels.push(Number(`1e${power}`));
  return levels;
}

/** The multiples of a step above `low` and up to `high`, free of rounding in the last digits. */
function multiples(step, low, high) {
  const levels = [];
  for (let k = Math.floor(low / step) + 1; step > 0 && k * step <= high; k++) {
    levels.push(Number((k * step).toPrecision(12)));
  }
  return levels;
}

/** The next round number from a length on: 1, 2 or 5 times a power of ten. */
function roundStep(length) {
  const power = 10 ** Math.floor(Math.log10(length));
  return [1, 2, 5, 10].find(multiple => multiple * power >= length) * power;
}
