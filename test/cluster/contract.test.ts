import { describe } from "node:test";

import { exerciseAppendix } from "../acceptance/appendix.ts";
import { exerciseAuthentication } from "../acceptance/authentication.ts";
import { PART, type Subject } from "../acceptance/subject.ts";
import { exerciseTaskFields } from "../acceptance/task-fields.ts";
import { exerciseTasks } from "../acceptance/tasks.ts";
import { exerciseWebhooks } from "../acceptance/webhooks.ts";
import { exerciseWorkers } from "../acceptance/workers.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { settled, startCluster } from "./start.ts";

// A type's `concurrency` is each daemon's own. Where a row counts the runs of a type, one daemon alone runs it.
const COUNTED = "[types.call]";
const UNCOUNTED = ["--run-type", "echo", "--run-type", "fail"];

/**
 * Three daemons behind a balancer, each request elsewhere. What the contract says of starting a program and of its
 * commands is about one daemon and its file: that is not asked here.
 */
const cluster: Subject = {
  name: "cluster of three",
  async serve(t, { toml }) {
    const hasCounted = toml.includes(COUNTED);
    const { cluster: started } = await startCluster(t, {
      base: toml,
      flagsOf: (index) => (index > 0 && hasCounted ? UNCOUNTED : []),
    });
    // What a limit leaves to each of them goes by how many it knows of.
    await settled(started);
    const { login, key, webhookSecret: secret } = started.account;
    const command = (args: readonly string[]) => runProgram(t, args);
    return {
      url: started.url,
      file: null,
      daemons: started.nodes.length,
      account: { login, key, secret },
      command,
      cli: (args) => command([...args, "--db", started.admin.database]),
    };
  },
  launch: startProgram,
  run: runProgram,
};

const options = { concurrency: false, ...PART, skip: reasonToSkipPostgres() };
describe("the contract, accepted from three daemons on one database", options, () => {
  exerciseAuthentication(cluster);
  exerciseTasks(cluster);
  exerciseTaskFields(cluster);
  exerciseAppendix(cluster);
  exerciseWebhooks(cluster);
  exerciseWorkers(cluster);
});
