// Seconds on a network; plots/runs/network.py explains the formulas and has the same.

/** By topology, of n workers: what f_up and f_down times a worker's bits pass over the busiest link, and hops of a round. */
const FORMS = {
  rank0: n => [n - 1, n - 1, 2],
  sharded: n => [(n - 1) / n, (n - 1) / n, 2],
  all_gather: n => [n - 1, 0, 1],
  ring: n => [(n - 1) / n, (n - 1) / n, 2 * (n - 1)],
  tree: n => [Math.ceil(Math.log2(n)), Math.ceil(Math.log2(n)), 2 * Math.ceil(Math.log2(n))],
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
  const [up, down, hops] = FORMS[formOf(run, network.topology)](run.workers);
  return round.map((rounds, i) => {
    const share = seconds[i] / (Math.ceil(run.workers / run.ranks) * run.grid);
    const computing = network.computing === null ? share : network.computing * 1e-3 * rounds;
    const sent = (up * bits_up[i] + down * bits_down[i]) / (network.bandwidth * 1e6);
    const sending = sent + hops * network.latency * 1e-3 * rounds;
    return network.overlap ? Math.max(computing, sending) : computing + sending;
  });
}
