import type { WorkerOverview } from "../api/runner.ts";
import type { Config } from "../config/config.ts";
import { keyPart } from "../config/file.ts";
import { WORKER_TOKEN_PREFIX } from "../domain/account/key-form.ts";
import { newWorkerToken } from "../domain/account/key.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import { WORKER_NAME } from "../domain/lease/worker.ts";
import type { Worker } from "../store/store.ts";
import { defineAdminCommand } from "./admin-command.ts";
import { word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure } from "./failure.ts";
import { printError, tableLines, type Columns } from "./print.ts";
import { byCommand } from "./user.ts";
import { typeFlag } from "./worker-type.ts";

const NAME = "postbackd admin worker";

const NAME_ARG = { name: word(WORKER_NAME, "Name of the worker") };

const create = defineAdminCommand({
  description: "Make a worker's token, for the tasks of some types",
  example: `${NAME} create resizer-1 --type resize`,
  notes:
    "Processes that share a token share the worker. With its token a worker reads the tasks of all accounts, but\n" +
    "only of its types.",
  args: {
    ...NAME_ARG,
    type: typeFlag("Type whose tasks it may claim"),
  },
  mayCreate: true,
  async run({ name, type: types }, { store, config }) {
    const { key: token, hash, lastFour } = newWorkerToken();
    const worker = { name, hash, lastFour, types, createdAt: systemClock.now() };
    if (
      (await store.createWorker({ ...worker, audit: byCommand("worker.created", name) })) ===
      "exists"
    ) {
      const revoking = `revoke it first with '${NAME} revoke ${name}'`;
      throw new CommandFailure(
        `there is a worker ${name} already; choose another name, or ${revoking}`,
      );
    }
    warnOfTypes(types, config);
    const answer = {
      name,
      token,
      prefix: WORKER_TOKEN_PREFIX,
      last_four: lastFour,
      types,
      created_at: timeText(worker.createdAt),
    };
    return {
      document: { worker: answer },
      lines: [
        `worker  ${name}`,
        `token   ${token}`,
        `types   ${types.join(", ")}`,
        "",
        "Store the token now: it is shown this once and cannot be shown again.",
      ],
    };
  },
});

const list = defineAdminCommand({
  description: "List all workers, by name",
  example: `${NAME} list`,
  args: {},
  async run(_given, { store }) {
    const workers = await store.listWorkers();
    const hint = `There is no worker yet; make one with '${NAME} create NAME --type TYPE'.`;
    return {
      document: { workers: workers.map(workerDocument) },
      lines: workers.length === 0 ? [hint] : tableLines(workers, COLUMNS),
    };
  },
});

const revoke = defineAdminCommand({
  description: "Refuse a worker's token from the next request on, for good",
  example: `${NAME} revoke resizer-1`,
  notes:
    "The tasks that it holds go back to the queue when their leases run out. A new worker may have the name.",
  args: NAME_ARG,
  async run({ name }, { store }) {
    const worker = await store.revokeWorker({
      name,
      revokedAt: systemClock.now(),
      audit: byCommand("worker.revoked", name),
    });
    if (worker === null) {
      throw new CommandFailure(`there is no worker with this name; '${NAME} list' shows all`);
    }
    const document = workerDocument(worker);
    return {
      document: { worker: document },
      lines: [`Worker ${name} is revoked since ${document.revoked_at}.`],
    };
  },
});

export const workerCommand = defineCommand({
  description: "Make, list and revoke the tokens of external workers",
  example: `${NAME} create resizer-1 --type resize`,
  subCommands: { create, list, revoke },
});

/** A type may be configured later, so its worker is made all the same. */
function warnOfTypes(types: readonly string[], config: Config): void {
  for (const type of types) {
    const kind = config.types.get(type)?.kind;
    if (kind === "worker") continue;
    const what = kind === undefined ? "defines no type" : "has another runner for type";
    printError(
      `warning: the configuration at hand ${what} ${type}; ` +
        `a worker gets its tasks when it has [types.${keyPart(type)}] with runner = "worker"`,
    );
  }
}

function workerDocument(worker: Worker): WorkerOverview & { readonly prefix: string } {
  return {
    name: worker.name,
    prefix: WORKER_TOKEN_PREFIX,
    last_four: worker.lastFour,
    types: worker.types,
    created_at: timeText(worker.createdAt),
    last_seen_at: timeOrNull(worker.lastSeenAt),
    leases: worker.leases,
    revoked_at: timeOrNull(worker.revokedAt),
  };
}

const COLUMNS: Columns<Worker> = {
  NAME: ({ name }) => name,
  TOKEN: ({ lastFour }) => `${WORKER_TOKEN_PREFIX}…${lastFour}`,
  TYPES: ({ types }) => types.join(","),
  CREATED: ({ createdAt }) => timeText(createdAt),
  "LAST SEEN": ({ lastSeenAt }) => timeOrNull(lastSeenAt),
  LEASES: ({ leases }) => leases,
  REVOKED: ({ revokedAt }) => timeOrNull(revokedAt),
};
