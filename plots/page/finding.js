// What the runs say in one sentence, for the title and the first line.

/** On a task the hardest round level that two methods reached, of a single one two of its curves, each with the curve
 * that took the fewest bits to it: {task, level, fewest, most}; null where there is no such level, or all took as many. */
function findingOn(task, ofTask) {
  const metric = atFirst.y[0], { higher } = data.metrics[metric];
  const rows = [...ofTask]
    .map(([name, runs]) => ({ curve: curves.get(name), found: trialsOf(runs).filter(({ run, trial }) => run.settled && trial[metric]) }))
    .filter(({ found }) => found.length);
  const named = new Set(rows.map(({ curve }) => curve.method)).size > 1
    ? curve => ({ key: curve.method, label: methods.get(curve.method).label })
    : curve => ({ key: curve.name, label: curve.label });
  for (const level of usualLevels(rows.flatMap(({ found }) => found), metric, higher).reverse()) {
    const reached = rows.map(({ curve, found }) => ({ ...named(curve), bits: bitsToReach(found, metric, level, higher)?.bits }))
      .filter(({ bits }) => bits).sort((a, b) => a.bits - b.bits);
    const first = reached.filter((one, i) => reached.findIndex(({ key }) => key === one.key) === i);
    if (first.length < 2) continue;
    const [{ bits }] = first, most = first.at(-1);
    const label = first.filter(one => one.bits === bits).map(one => one.label).join(" and ");
    return bits < most.bits ? { task, level, fewest: { bits, label }, most } : null;
  }
  return null;
}

/** {title, line}: a few words, and what they mean. */
function finding() {
  const metric = atFirst.y[0], { label, higher } = data.metrics[metric];
  const grouped = byCurve(data.runs);
  const found = data.tasks.map(task => findingOn(task, grouped.get(task.name))).filter(Boolean);
  if (!found.length) return { title: "", line: `No two curves took different bits to a common level of the ${label}.` };
  const level = value => (higher ? `${short(100 * value)} %` : short(value));
  const times = ({ fewest, most }) => `${short(most.bits / fewest.bits)}× fewer bits than`;
  const said = one => `${inBits(one.fewest.bits)} to a ${label} of ${level(one.level)}, ${times(one)} ${one.most.label}`;
  const others = data.tasks.length - found.length;
  const rest = others ? ` On ${plural(others, "other task")} no two took different bits to a common level.` : "";
  if (found.length === 1) {
    const [{ task, fewest, most }] = found;
    const where = data.tasks.length > 1 ? `On ${task.label} ` : "";
    return { title: `${fewest.label}: ${times(found[0])} ${most.label}`, line: `${where}${fewest.label} took ${said(found[0])}.${rest}` };
  }
  const wins = new Map();
  for (const { fewest } of found) wins.set(fewest.label, (wins.get(fewest.label) ?? 0) + 1);
  const [first, count] = [...wins].reduce((a, b) => (b[1] > a[1] ? b : a));
  const title = `${first} took the fewest bits on ${count} of ${plural(found.length, "task")}`;
  const example = found.find(({ fewest }) => fewest.label === first);
  const line = `${title}, to the hardest round level that two reached: on ${example.task.label} ${said(example)}.${rest}`;
  return { title, line };
}
