import { createWorker, nodeDocument, revokeWorker, workerDocument } from "../admin/worker.ts";
import type { Config } from "../config/config.ts";
import { keyPart } from "../config/file.ts";
import { WORKER_TOKEN_PREFIX } from "../domain/account/account.ts";
import { TYPE_NAME, WORKER_NAME } from "../domain/lease/lease.ts";
import type { NodeSummary } from "../store/store.ts";
import { defineAdminCommand } from "./admin-command.ts";
import { flags, required, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { fail } from "./failure.ts";
import { type Answer, answer, listAnswer, newSecretLines, printError } from "./print.ts";

const NAME = "postbackd admin worker";

const NAME_ARG = { name: word(WORKER_NAME, "Name of the worker") };

const create = defineAdminCommand({
  description: "Create a worker's token, for the tasks of some types",
  example: `${NAME} create resizer-1 --type resize`,
  notes:
    "Processes that share a token share the worker. With its token a worker reads the tasks of all accounts, but\n" +
    "only of its types.",
  args: {
    ...NAME_ARG,
    type: required(flags(TYPE_NAME, "Type that the worker may claim; required, may be repeated")),
  },
  mayCreate: true,
  async run({ name, type }, { config, ...context }) {
    const types = [...new Set(type)];
    const remedy = `choose another name, or revoke it first with '${NAME} revoke ${name}'`;
    const worker =
      (await createWorker({ name, types }, context)) ??
      fail(`there is a worker ${name} already; ${remedy}`);
    warnOfTypes(types, config);
    const lines = newSecretLines({ worker: name, token: worker.token, types }, "token");
    return answer({ worker }, ...lines);
  },
});

const list = defineAdminCommand({
  description: "List all workers, by name",
  example: `${NAME} list`,
  args: {},
  async run(_given, { store }) {
    const workers = (await store.listWorkers()).map(workerDocument);
    const none = `No worker exists yet; create one with '${NAME} create NAME --type TYPE'.`;
    return listAnswer({ workers: workers.map(withPrefix) }, workers, { none });
  },
});

const revoke = defineAdminCommand({
  description: "Revoke a worker's token, permanently; the next request with it is refused",
  example: `${NAME} revoke resizer-1`,
  notes: "Its tasks return to the queue when their leases expire. The name can be used again.",
  args: NAME_ARG,
  async run({ name }, parts) {
    const worker = workerDocument(
      (await revokeWorker(name, parts)) ??
        fail(`no worker has this name; '${NAME} list' shows all`),
    );
    const line = `Worker ${name} is revoked since ${worker.revoked_at}.`;
    return answer({ worker: withPrefix(worker) }, line);
  },
});

export const workerCommand = defineCommand({
  description: "Create, list and revoke the tokens of external workers",
  example: `${NAME} create resizer-1 --type resize`,
  subCommands: { create, list, revoke },
});

/** Warns of types that workers do not run. The worker is made anyway: a type may be configured later. */
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

function withPrefix({ name, ...worker }: ReturnType<typeof workerDocument>) {
  return { name, prefix: WORKER_TOKEN_PREFIX, ...worker };
}

const listNodes = defineAdminCommand({
  description: "List the daemons that share a database, newest first",
  example: "postbackd admin node list",
  notes:
    "The list includes daemons that ended within the last day. The facts of a node can be a few seconds old.",
  args: {},
  async run(_given, { store, config }) {
    if (config.server === null) {
      fail(
        `${config.database} is a SQLite file, and nodes need PostgreSQL: 'postbackd health' checks its daemon`,
      );
    }
    return nodesAnswer(await store.listNodes());
  },
});

export const nodeCommand = defineCommand({
  description: "List the daemons that share a database on a server",
  example: "postbackd admin node list",
  subCommands: { list: listNodes },
});

export function nodesAnswer(found: readonly NodeSummary[]): Answer {
  const nodes = found.map(nodeDocument);
  const rows = nodes.map(({ name, url, version, joined_at, last_seen_at, ...node }) => ({
    ...{ name, url, version, joined_at, last_seen_at },
    ended_at: node.is_lost ? `${node.ended_at} (lost)` : node.ended_at,
    running: node.running && node.running.reduce((sum, { runs }) => sum + runs, 0),
    sending: node.sending,
    roles: node.roles,
  }));
  const none = "No daemon has served this database within the last day.";
  return listAnswer({ nodes }, rows, { none });
}
