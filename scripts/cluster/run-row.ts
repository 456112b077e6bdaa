import type { Bench } from "../kit/command.ts";
import { factTable } from "../kit/text-table.ts";
import { until } from "../kit/until.ts";
import { judgeCluster, openWork } from "./verdict.ts";
import { openWorld, type World, type WorldOptions } from "./world.ts";

/** A figure of a row's own. */
export type Fact = readonly [what: string, figure: string | number];

/** A row: its world, and what happens in it while the client posts. */
export interface Row extends WorldOptions {
  /**
   * Does the damage, and settles when nothing is damaged any more. It tells `fault` of each moment from which on work
   * may have been cut off, and throws where something does not happen in time.
   */
  readonly damage: (world: World, fault: () => void) => Promise<readonly Fact[]>;
  /** Whether what was acknowledged last may be lost: then it is counted. */
  readonly mayLose?: boolean;
}

const STALL_MS_MAX = 120_000;
const FAULTS_SHOWN = 20;
// Something is under way when the first fault comes.
const WARM_TASKS = 200;

/** Runs it, prints its figures, and rejects when the verdict is not clean. */
export async function runRow(bench: Bench, row: Row): Promise<void> {
  await using used = new AsyncDisposableStack();
  const world = await openWorld(bench, row, used);
  const { ledger, client, address } = world;
  const posting = new AbortController();
  const posts = client.run(posting.signal);
  // A failure ends the row: it is awaited below, and here only kept from being unhandled.
  posts.catch(() => posting.abort());
  const startedAt = performance.now();
  const faultsAt: number[] = [];
  try {
    await until(() => ledger.tasks.size > WARM_TASKS, {
      msMax: STALL_MS_MAX,
      fault: () => "nothing is posted",
    });
    const facts = await row.damage(world, () => faultsAt.push(Date.now()));
    posting.abort();
    await address.within(STALL_MS_MAX, posts);
    const { url } = world.database;
    await until(async () => (await openWork(url)) === 0, {
      ...{ msMax: STALL_MS_MAX, everyMs: 200, progress: () => ledger.arrivals.length },
      fault: () => `not everything is done, and ${ledger.missing} webhooks are missing`,
    });
    const tally = await judgeCluster(url, { ledger, faultsAt, mayLose: row.mayLose ?? false });
    bench.print(
      factTable([
        ["seconds", ((performance.now() - startedAt) / 1000).toFixed(0)],
        ...facts,
        ["tasks acknowledged", ledger.tasks.size],
        ["tasks ended, each once", tally.ended],
        ["tasks acknowledged and lost", tally.lost],
        ["tasks run more than once", tally.rerun],
        ["posts sent again because their answer was cut off or 503", client.repeated],
        ["of those, on disk before and answered as kept", client.replayed],
        ["webhooks received", ledger.arrivals.length],
        ["attempts interrupted and made again", tally.interrupted],
        ["duplicates", tally.duplicates],
        ["duplicates and attempts that none of these explains", tally.unexplained],
        ["lives of daemons that ended or were cut off", tally.nodeEnds],
        ["violations of any kind", tally.faults.length],
      ]),
    );
    const { faults } = tally;
    if (faults.length > 0)
      throw new Error(`${faults.length} violations:\n${faults.slice(0, FAULTS_SHOWN).join("\n")}`);
  } finally {
    address.isOver = true;
    posting.abort();
    for (const { isRunning, name, daemon } of world.cluster.running) {
      if (isRunning && daemon.log.includes('"level":"error"')) bench.note(`${name}: ${daemon.log}`);
    }
  }
}
