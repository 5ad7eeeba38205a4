// Seconds on a network; plots/runs/network.py explains the formulas and has the same.

const steps = n => Math.ceil(Math.log2(n));

/** By topology, of n workers, of whom s at most can serve, and e exchanges: f_up and f_down, how often a worker's bits pass over the busiest link, and hops of a round. */
const FORMS = {
  rank0: (n, s, e) => [n - 1, steps(n) * (steps(n) + 1) / 2, 2 + steps(n)],
  sharded: (n, s, e) => [(n - 1) / Math.min(n, s), (n - 1) / Math.min(n, s), 2 * e],
  all_gather: (n, s, e) => [n - 1, 0, 2],
  ring: (n, s, e) => [(n - 1) / n, (n - 1) / n, 2 * (n - 1)],
  tree: (n, s, e) => [steps(n), steps(n), 2 * steps(n)],
};

const REDUCTIONS = ["ring", "tree"];

/** How a run's messages travel: reductions are for uncompressed methods, other topologies for compressed ones. */
function formOf(run, topology) {
  if (run.uncompressed === REDUCTIONS.includes(topology)) return topology;
  return run.uncompressed ? "ring" : "sharded";
}

/** What a run's rounds would have taken: {bandwidth, latency, topology, overlap, computing}, the last one null where measured. */
function modelledSeconds(run, network) {
  const { seconds, bits_up, bits_down, round } = run.axes;
  const [up, down, hops] = FORMS[formOf(run, network.topology)](run.workers, run.servers, run.exchanges);
  return round.map((rounds, i) => {
    const share = seconds[i] / (Math.ceil(run.workers / run.ranks) * run.grid);
    const computing = network.computing === null ? share : network.computing * 1e-3 * rounds;
    const [goingUp, comingDown] = [up * bits_up[i], down * bits_down[i]].map(bits => bits / (network.bandwidth * 1e6));
    const first = network.overlap ? Math.max(computing, goingUp) : computing + goingUp;
    return first + comingDown + hops * network.latency * 1e-3 * rounds;
  });
}
