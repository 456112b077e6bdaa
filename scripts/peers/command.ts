import { defineCommand } from "../kit/command.ts";
import { names, number, optional, toggle, whole } from "../kit/flags.ts";
import { measureRows } from "./measure.ts";
import { peersTable, waysText } from "./report.ts";
import { ROWS, tunedRows } from "./rows.ts";
import { CONNECTIONS, TASKS_PER_REQUEST, type Effort } from "./world.ts";

// V8 has compiled what runs after some 20,000 tasks; before that a task costs up to twice as much (measured with ours).
const FULL = { tasks: 5000, seconds: 1, rounds: 7, uncounted: 4 };
const QUICK = { tasks: 1000, seconds: 0.5, rounds: 3, uncounted: 1 };

export const command = defineCommand({
  about: `The same job by postbackd and by what it could be built of: tasks posted over HTTP, run by a no-op, one signed webhook
each. It starts a Redis and a PostgreSQL of its own, and has npm install the peers in node_modules/.cache.`,
  flags: {
    quick: toggle(`a first look, within two minutes on a quiet machine: ${effortText(QUICK)}`),
    tune: toggle(
      "measures each peer in every way that was tried, instead of all rows in the fastest",
    ),
    rounds: optional(whole(`measurements of each row (${FULL.rounds})`)),
    tasks: optional(whole(`of each measurement (${FULL.tasks})`)),
    seconds: optional(number(`of each measurement of posts or inserts alone (${FULL.seconds})`)),
    only: names(
      "rows",
      ROWS.map(({ name }) => name),
    ),
  },
  async run({ quick, tune, only, ...given }, { place, note, print }) {
    const usual = quick ? QUICK : FULL;
    const rounds = given.rounds ?? usual.rounds;
    const effort = { tasks: given.tasks ?? usual.tasks, seconds: given.seconds ?? usual.seconds };
    const wanted = ROWS.filter(({ name }) => only.includes(name));
    const settings = { place, effort, rounds, uncounted: usual.uncounted, note };
    // The ways of one peer beside each other; all at once would not fit into the memory.
    const runs = tune ? wanted.map(tunedRows).filter((rows) => rows.length > 0) : [wanted];
    for (const plans of runs) {
      const rows = await measureRows(plans, settings);
      print(`${peersTable(rows)}\n`);
      if (!tune) print(`${waysText(rows)}\n`);
    }
    print(
      `${effortText({ ...effort, rounds })}; posted by ${TASKS_PER_REQUEST} over ${CONNECTIONS} connections.`,
    );
  },
});

function effortText({ tasks, seconds, rounds }: Effort & { readonly rounds: number }): string {
  return `${rounds} rounds of ${tasks} tasks, of posts or inserts alone ${seconds} s`;
}
