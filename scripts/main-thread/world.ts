import { Caller } from "../kit/caller.ts";
import {
  createDaemonFile,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
} from "../kit/daemon-file.ts";
import { createWorker, type DaemonProcess } from "../kit/daemon-process.ts";
import { copyRows, editDatabase } from "../kit/database-edit.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { fillTraffic } from "../kit/fill-traffic.ts";
import { pageHeaders, signInOperator } from "../kit/sign-in.ts";
import { until } from "../kit/until.ts";
import { openPeer, type Peer } from "./peer.ts";

const MIB = 1024 * 1024;
// The most attempts of a delivery that are shown.
const ATTEMPTS = 100;
const HOSTS = 200;
const DONE_MS_MAX = 60_000;

/** The longest possible tag, in letters that are not Latin-1. */
export const TAG = "ш".repeat(255);
/** Far enough in the future for tasks that must stay queued. */
export const LATER = new Date(Date.now() + 86_400_000).toISOString();

const WORKER_TYPES = ["leased", "kept", "batch", "large"];

/** The configuration of the daemon of these cases, beside the usual types. */
function toml(peer: Peer): string {
  const ofWorkers = WORKER_TYPES.map(
    (type) => `[types.${type}]\nrunner = "worker"\nlease = "1h"\n`,
  );
  return `
[limits]
access_requests_per_hour = 0

[types.ascii]
command = ["sh", "-c", 'printf "\\""; head -c 4190000 /dev/zero | tr "\\0" x; printf "\\""']

[types.wide]
command = ["sh", "-c", 'printf "\\""; yes ш | head -n 1390000 | tr -d "\\n"; printf "\\""']

[types.service]
url = "${peer.url("/service")}"

${ofWorkers.join("")}`;
}

/** A daemon whose file holds as much as the most expensive requests need, and its clients. */
export interface World {
  readonly daemon: DaemonProcess;
  readonly peer: Peer;
  /** For waiting until nothing waits or runs. */
  readonly view: DatabaseView;
  readonly anybody: Caller;
  readonly owner: Caller;
  readonly worker: Caller;
  readonly operator: Caller;
  readonly account: DaemonFile["account"];
  /** Ids of tasks with a large result or input. */
  readonly ids: LargeTasks;
}

interface LargeTasks {
  /** With a result of 4 MiB, and webhooks that arrived. */
  readonly ascii: string;
  /** With a result of 2.8 MB that is not Latin-1. */
  readonly wide: string;
  /** With an input of 1 MiB; queued. */
  readonly parked: string;
  /** With a result of 4 MiB, and two webhooks that were tried a hundred times. */
  readonly tried: string;
}

/** Makes a daemon file, fills it, and returns what `use` does with the daemon that serves it. */
export async function withWorld<Value>(
  place: DaemonPlace,
  use: (world: World) => Promise<Value>,
): Promise<Value> {
  await using peer = await openPeer();
  const file = await createDaemonFile(place, { more: toml(peer) });
  const worker = await createWorker({ name: "worker", types: WORKER_TYPES }, file);
  const ids = await fill(file, peer);
  fillTraffic(file.database);
  multiply(file.database, ids.tried);
  await using daemon = await startDaemon(file);
  using view = new DatabaseView(file.database);
  const cookie = await signInOperator({ file, daemon });
  const { url } = daemon;
  const value = await use({
    daemon,
    peer,
    view,
    ids,
    account: file.account,
    anybody: new Caller(url),
    owner: Caller.withKey(url, file.account.key),
    worker: Caller.withKey(url, worker),
    operator: new Caller(url, pageHeaders(cookie)),
  });
  await daemon.stop();
  return value;
}

async function fill(file: DaemonFile, peer: Peer): Promise<LargeTasks> {
  await using daemon = await startDaemon(file);
  const owner = Caller.withKey(daemon.url, file.account.key);
  const hook = { postback_url: peer.url("/hook") };
  const refusing = { postback_url: peer.url("/refusing"), pingback_url: peer.url("/refusing") };
  const url = `https://example.com/${"x".repeat(1900)}`;
  const [ascii = ""] = await owner.postTasks({ type: "ascii", ...hook });
  const [wide = ""] = await owner.postTasks({ type: "wide" });
  const [tried = ""] = await owner.postTasks({ type: "ascii", ...refusing });
  const inputOfMiB = "ш".repeat(MIB / 2 - 200);
  const [parked = ""] = await owner.postTasks({ type: "echo", start_at: LATER, input: inputOfMiB });
  await owner.postTasks({ tag: TAG, type: "echo", start_at: LATER, postback_url: url }, 1000);
  await owner.postTasks({ tag: TAG, type: "echo" }, 1000);
  using view = new DatabaseView(file.database);
  await untilNone(view, "tasks WHERE state IN ('queued', 'running')");
  await untilNone(view, "attempts WHERE retry = 0 AND ended_at IS NULL");
  await daemon.stop();
  return { ascii, wide, parked, tried };
}

/** Settles when no row of that kind is left. */
export async function untilNone(view: DatabaseView, what: string): Promise<void> {
  const isNone = (): boolean => view.number(`SELECT count(*) FROM ${what}`) === 0;
  await until(isNone, { msMax: DONE_MS_MAX, everyMs: 2, fault: () => `there still are ${what}` });
}

// Making them one by one would take minutes of retries, and real hosts.
function multiply(file: string, tried: string): void {
  editDatabase(file, (database) => {
    database.exec("DELETE FROM attempts WHERE started_at IS NULL");
    copyRows(database, {
      table: "attempts",
      where: `task_seq = (SELECT seq FROM tasks WHERE id = '${tried}')`,
      times: ATTEMPTS - 1,
      anew: { seq: "NULL", number: "number + n.i" },
    });
    database.exec("UPDATE deliveries SET state = 'given_up' WHERE state = 'open'");
    const where = "at = (SELECT max(at) FROM host_traffic)";
    const host = "printf('%060d.%060d.example.com', n.i, n.i)";
    copyRows(database, { table: "host_traffic", where, times: HOSTS, anew: { host } });
  });
}
