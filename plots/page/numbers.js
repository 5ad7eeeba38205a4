// The numbers behind lines and tables. Each function follows the Python function that its comment names.

const steps = n => Math.ceil(Math.log2(n));

/** f_up, f_down and hops of n workers, at most s servers and e exchanges; plots/runs/network.py explains them. */
const FORMS = {
  rank0: (n, s, e) => [n - 1, steps(n) * (steps(n) + 1) / 2, 2 + steps(n)],
  sharded: (n, s, e) => [(n - 1) / Math.min(n, s), (n - 1) / Math.min(n, s), 2 * e],
  all_gather: (n, s, e) => [n - 1, 0, 2],
  ring: (n, s, e) => [(n - 1) / n, (n - 1) / n, 2 * (n - 1)],
  tree: (n, s, e) => [steps(n), steps(n), 2 * steps(n)],
};

/** The topology of a run's messages: reductions are for uncompressed methods, others for compressed ones. */
function formOf(run, topology) {
  if (run.uncompressed === ["ring", "tree"].includes(topology)) return topology;
  return run.uncompressed ? "ring" : "sharded";
}

/** plots.runs.network.modelled_seconds of a run; `computing` is null where measured. */
function modelledSeconds(run, { bandwidth, latency, topology, overlap, computing }) {
  const { seconds, bits_up, bits_down, round } = run.axes;
  const [up, down, hops] = FORMS[formOf(run, topology)](run.workers, run.servers, run.exchanges);
  return round.map((rounds, i) => {
    const share = seconds[i] / (Math.ceil(run.workers / run.ranks) * run.grid);
    const computed = computing === null ? share : computing * 1e-3 * rounds;
    const [goingUp, comingDown] = [up * bits_up[i], down * bits_down[i]].map(bits => bits / (bandwidth * 1e6));
    const first = overlap ? Math.max(computed, goingUp) : computed + goingUp;
    return first + comingDown + hops * latency * 1e-3 * rounds;
  });
}

/** A run's values on a horizontal axis. */
const along = (run, x, network) => (x === "modelled_seconds" ? modelledSeconds(run, network) : run.axes[x]);

/**
 * One line from curves {run, trial} with the same rounds, one a seed: points {x, mean, low, high, round} in order;
 * plots.runs.seeds. Points without a value, or without a place on a logarithmic axis, are left out.
 */
function overSeeds(seeds, x, y, logX, logY, network) {
  const xs = seeds.map(({ run }) => along(run, x, network)), ys = seeds.map(({ trial }) => trial[y]);
  const points = seeds[0].run.axes.round.map((round, i) => {
    const places = xs.map(column => column[i]), values = ys.map(column => column[i]);
    const place = places.every(one => one === places[0]) ? places[0] : mean(places);
    if (values.includes(null) || (logX && place <= 0) || (logY && least(values) <= 0)) return null;
    const middle = logY && values.length > 1 ? Math.exp(mean(values.map(Math.log))) : mean(values);
    return { x: place, mean: middle, low: least(values), high: greatest(values), round };
  });
  return points.filter(Boolean);
}

/**
 * The fewest bits after which a method was at or beyond a level, over all step sizes with which every seed got there:
 * {bits, low, high, round, lr}, means over seeds, or null; plots.runs.levels.bits_to_reach.
 */
function bitsToReach(trials, metric, level, higher) {
  const seeds = new Set(trials.map(({ run }) => run.seed)).size;
  const isThere = value => value !== null && (higher ? value >= level : value <= level);
  const found = [...Map.groupBy(trials, ({ trial }) => trial.lr)].map(([lr, some]) => {
    const places = some.map(({ run, trial }) => ({ run, i: trial[metric].findIndex(isThere) })).filter(({ i }) => i >= 0);
    if (places.length < seeds) return null;
    const bits = places.map(({ run, i }) => run.axes.bits[i]);
    const round = mean(places.map(({ run, i }) => run.axes.round[i]));
    return { bits: mean(bits), low: least(bits), high: greatest(bits), round, lr };
  });
  return found.filter(Boolean).sort((a, b) => a.bits - b.bits || a.lr - b.lr)[0] ?? null;
}
