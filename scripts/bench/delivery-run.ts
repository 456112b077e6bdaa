import { setTimeout as sleep } from "node:timers/promises";

import { Caller } from "../kit/client.ts";
import {
  createDaemonFile,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
  type DaemonProcess,
} from "../kit/daemon.ts";
import { copyRows, DatabaseView, editDatabase, NEW_ID } from "../kit/database.ts";
import { benchInput, taskPostRequest } from "../kit/http.ts";
import { runOpenLoad } from "../kit/load.ts";
import { spreadOf, type Spread } from "../kit/measure.ts";
import { processUsage, spendingOf } from "../kit/processes.ts";
import { until } from "../kit/until.ts";
import { BenchReceiver, requireSound, tagText, type Arrivals, type Behaviour } from "./receiver.ts";

export interface DeliveryPlan {
  /** Fresh tasks per second, each with a postback to the next host. */
  readonly perSecond: number;
  readonly hosts: readonly string[];
  /** Not measured: until the daemon's code is compiled. No host hangs meanwhile. */
  readonly warmUpSeconds: number;
  readonly seconds: number;
  readonly behaviour: Behaviour;
  /** Null for an empty file. */
  readonly backlog: Backlog | null;
  /** How long the daemon's CPU is measured before the load and after it. */
  readonly idleSeconds: number;
}

/** Retries that are in the file before the daemon starts. */
export interface Backlog {
  readonly retries: number;
  readonly hosts: readonly string[];
  /** Which retries of their deliveries they are, in turn. */
  readonly retryNumbers: readonly number[];
  /** Evenly over the measured time, or after an hour. */
  readonly due: "measured" | "in an hour";
}

/** The result of a run. Percentages are of one core; NaN if they were not measured. */
export interface DeliveryRun {
  readonly arrivals: Arrivals;
  /** From the time a task was to be posted to the response. */
  readonly posts: Spread;
  readonly arrivedPerSecond: number;
  /** From `due_at` to `started_at` of the retries that were due, by the database. */
  readonly lateness: Spread;
  readonly cpuPercent: { readonly before: number; readonly during: number; readonly after: number };
  readonly rssBytes: number;
}

const CONNECTIONS = 64;
// From the choice of the times to the load: the move of a backlog to its time, and a start on a full file.
const START_MS = 15_000;
// The same for a daemon that runs.
const SOON_MS = 2000;
const HOUR_MS = 3_600_000;
const ARRIVED_MS_MAX = 60_000;
const POLL_MS = 50;
// After the last arrival its attempt is still to be recorded.
const SETTLE_MS = 1000;

interface Times {
  readonly loadFrom: number;
  readonly from: number;
  readonly to: number;
  readonly retriesFrom: number;
}

interface Run {
  readonly plan: DeliveryPlan;
  readonly times: Times;
  readonly file: DaemonFile;
  readonly daemon: DaemonProcess;
  readonly receiver: BenchReceiver;
  readonly port: number;
}

/**
 * Starts a daemon and sends it a load. Rejects if the daemon starts too late or does not stop in order, and if the rate was
 * not kept. Rejects also if a webhook did not arrive, arrived twice or had a wrong signature.
 */
export async function runDeliveries(plan: DeliveryPlan, place: DaemonPlace): Promise<DeliveryRun> {
  const { backlog, behaviour } = plan;
  const file = await createDaemonFile(place, { allowed: "127.0.0.0/8" });
  using receiver = new BenchReceiver();
  const port = await receiver.ask("open");
  if (backlog !== null) {
    await receiver.ask("behave", { failing: backlog.hosts });
    await fillBacklog(file, { ...backlog, port, spreadMs: plan.seconds * 1000 });
  }
  const early = backlog && timesOf(plan, START_MS);
  if (early !== null) moveBacklog(file, early.retriesFrom);
  await using daemon = await startDaemon(file);
  const times = early ?? timesOf(plan, SOON_MS);
  await receiver.ask("count", { secret: file.account.webhookSecret, window: times });
  // Hosts that were quick and begin to hang are the worst case.
  await receiver.ask("behave", { ...behaviour, hanging: [] });
  const run = await measure({ plan, times, file, daemon, receiver, port });
  await daemon.stop();
  return { ...run, lateness: retryLateness(file.database, times) };
}

function timesOf(
  { idleSeconds, warmUpSeconds, seconds, backlog }: DeliveryPlan,
  startMs: number,
): Times {
  const loadFrom = Date.now() + startMs + idleSeconds * 1000;
  const from = loadFrom + warmUpSeconds * 1000;
  const retriesFrom = backlog?.due === "in an hour" ? from + HOUR_MS : from;
  return { loadFrom, from, to: from + seconds * 1000, retriesFrom };
}

async function measure(run: Run): Promise<Omit<DeliveryRun, "lateness">> {
  const { plan, times, daemon, receiver } = run;
  const { from, to } = times;
  const idle = (): Promise<number> => cpuPercent(daemon, Date.now() + plan.idleSeconds * 1000);
  const before = await idle();
  if (Date.now() > times.loadFrom) throw new Error("the daemon took too long to start");
  const behaved = async (): Promise<number> => {
    await sleep(from - Date.now());
    await receiver.ask("behave", plan.behaviour);
    return cpuPercent(daemon, to);
  };
  // An early failure of the load ends the run immediately.
  const [during, posts] = await Promise.all([behaved(), plan.perSecond > 0 ? load(run) : null]);
  await allArrived(run);
  const arrivals = await receiver.ask("arrivals");
  requireSound(arrivals);
  await sleep(SETTLE_MS);
  const after = await idle();
  return {
    arrivals,
    posts: posts ?? arrivals.fromPost,
    arrivedPerSecond: (1000 * arrivals.fromPost.count) / (to - from),
    cpuPercent: { before, during, after },
    rssBytes: processUsage(daemon.pid).rssBytes,
  };
}

async function cpuPercent(daemon: DaemonProcess, untilAt: number): Promise<number> {
  const waitMs = untilAt - Date.now();
  if (waitMs <= 0) return Number.NaN;
  const spent = spendingOf(daemon.pid);
  await sleep(waitMs);
  return spent().cpuPercent;
}

function load({ plan, times, file, daemon, port }: Run): Promise<Spread> {
  const { perSecond, hosts } = plan;
  const template = { key: file.account.key, tasks: 1, type: "echo" };
  return runOpenLoad({
    port: daemon.port,
    connections: CONNECTIONS,
    perSecond,
    from: times.loadFrom,
    to: times.to,
    requestAt: (at, index) => {
      const postbackUrl = `http://${hosts[index % hosts.length]}:${port}/postback`;
      return taskPostRequest({ ...template, postbackUrl, tag: tagText("fresh", at) });
    },
  });
}

async function allArrived({ plan, times, receiver, daemon }: Run): Promise<void> {
  const { perSecond, hosts, behaviour, backlog } = plan;
  const expected = { fresh: 0, retries: backlog?.due === "measured" ? backlog.retries : 0 };
  const at = (index: number): number => times.loadFrom + (index * 1000) / perSecond;
  for (let index = 0; at(index) < times.to; index++) {
    const isIgnored = behaviour.ignored?.includes(hosts[index % hosts.length] ?? "");
    if (at(index) >= times.from && isIgnored !== true) expected.fresh++;
  }
  let [fresh, retries] = [0, 0];
  const haveArrived = async (): Promise<boolean> => {
    ({ tasks: fresh, retries } = await receiver.ask("counts"));
    return fresh >= expected.fresh && retries >= expected.retries;
  };
  const fault = (): string => {
    const what = `${expected.fresh - fresh} postbacks and ${expected.retries - retries} retries`;
    return `${what} are missing: ${daemon.log}`;
  };
  await until(haveArrived, { msMax: ARRIVED_MS_MAX, everyMs: POLL_MS, fault });
}

/** From `due_at` to `started_at` of all retries that were due. Throws if one was not begun. */
function retryLateness(database: string, { retriesFrom, to }: Times): Spread {
  using view = new DatabaseView(database);
  const due = `FROM attempts WHERE retry > 0 AND due_at >= ${retriesFrom} AND due_at < ${to}`;
  const left = view.number(`SELECT count(*) ${due} AND started_at IS NULL`);
  if (left > 0) throw new Error(`${left} retries that were due were not begun`);
  return spreadOf(view.column(`SELECT started_at - due_at ${due}`).map(Number));
}

/**
 * Fills a daemon's file with tasks whose first postback failed: copies of one task for each host, which the daemon itself
 * has run and sent. The first retry is due at 0: see {@link moveBacklog}.
 */
async function fillBacklog(
  file: DaemonFile,
  backlog: Backlog & { readonly port: number; readonly spreadMs: number },
): Promise<void> {
  const { retries, port, spreadMs, retryNumbers } = backlog;
  const hosts = backlog.hosts.slice(0, retries);
  await failOnce(
    file,
    hosts.map((host) => `http://${host}:${port}/postback`),
  );
  const made = hosts.length;
  const dueAt = (seq: string): string => `(${seq} - 1) * ${Math.round(spreadMs)} / ${retries}`;
  editDatabase(file.database, (database) => {
    const copy = (
      table: string,
      seq: string,
      anew: Readonly<Record<string, string>> = {},
    ): void => {
      const copied = `${seq} + n.i * ${made}`;
      const where = `${copied} <= ${retries}`;
      const times = Math.ceil(retries / made) - 1;
      copyRows(database, { table, where, times, anew: { ...anew, [seq]: copied } });
    };
    copy("tasks", "seq", { id: NEW_ID });
    for (const table of ["task_inputs", "task_results", "deliveries"]) copy(table, "task_seq");
    copy("attempts", "task_seq", { seq: "NULL" });
    // Each task has its time, in its tag too.
    database.exec(`
      UPDATE tasks SET tag = 'retry ' || (${dueAt("seq")}),
        data_text = replace(data_text, '"retry 0"', '"retry ' || (${dueAt("seq")}) || '"');
      UPDATE attempts SET due_at = ${dueAt("task_seq")},
        retry = json_extract('${JSON.stringify(retryNumbers)}', '$[' || (task_seq % ${retryNumbers.length}) || ']')
        WHERE started_at IS NULL;
      UPDATE task_counts SET count = count * ${retries} / ${made};
      UPDATE host_counts SET retrying = (
        SELECT count(*) FROM attempts WHERE attempts.host = host_counts.host AND started_at IS NULL);`);
  });
  using view = new DatabaseView(file.database);
  const waiting = view.number("SELECT count(*) FROM attempts WHERE started_at IS NULL");
  if (waiting !== retries) throw new Error(`${waiting} retries are in the file`);
}

const FAILED_MS_MAX = 30_000;

/** Posts a task for each URL, and settles when the first attempt of each has failed. */
async function failOnce(file: DaemonFile, urls: readonly string[]): Promise<void> {
  await using daemon = await startDaemon(file);
  const task = { type: "echo", tag: tagText("retry", 0), input: benchInput() };
  const tasks = urls.map((url) => ({ ...task, postback_url: url }));
  await Caller.withKey(daemon.url, file.account.key).postAll(tasks);
  using view = new DatabaseView(file.database);
  const failed = "SELECT count(*) FROM attempts WHERE retry = 1 AND started_at IS NULL";
  const fault = (): string => "the deliveries to be retried have not failed";
  await until(() => view.number(failed) === urls.length, { msMax: FAILED_MS_MAX, fault });
  await daemon.stop();
}

/** Makes the first retry due at that time, in epoch milliseconds, and the others after it. */
function moveBacklog(file: DaemonFile, firstDueAt: number): void {
  editDatabase(file.database, (database) => {
    const move = "UPDATE attempts SET due_at = due_at + ? WHERE started_at IS NULL";
    database.prepare(move).run(firstDueAt);
  });
}
