import { setTimeout as sleep } from "node:timers/promises";

import {
  createDaemonFile,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
} from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { Durations, type Spread } from "../kit/durations.ts";
import { runOpenLoad, type OpenLoadEnd } from "../kit/open-load.ts";
import { processUsage, spendingOf } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";
import { until } from "../kit/until.ts";
import { tagText, type ArrivalReport, type Measured } from "./arrivals.ts";
import { fillBacklog, moveBacklog, type Backlog } from "./backlog.ts";
import { ManyHosts, type Behaviour } from "./receiver.ts";

/** One daemon, one load: what {@link runDeliveries} measures. */
export interface DeliveryPlan {
  /** Fresh tasks a second, each with a postback to the next of these hosts; 0 for none. */
  readonly perSecond: number;
  readonly hosts: readonly string[];
  /** Not measured: what the daemon does until its code is compiled. No host hangs meanwhile. */
  readonly warmUpSeconds: number;
  readonly seconds: number;
  readonly behaviour: Behaviour;
  /** Null for an empty file. */
  readonly backlog: DeliveryBacklog | null;
  /** How long the daemon's CPU is looked at before the load and when all is over; 0 for not at all. */
  readonly idleSeconds: number;
}

/** Retries in the file: they fall due while it is measured, or not before an hour has passed. */
export type DeliveryBacklog = Omit<Backlog, "port" | "spreadMs"> & {
  readonly due: "measured" | "in an hour";
};

/** The result of a run. Percentages are of one core; NaN where they were not measured. */
export interface DeliveryRun {
  readonly arrivals: ArrivalReport;
  /** From the time a task was to be posted to the answer. */
  readonly posts: Spread;
  readonly arrivedPerSecond: number;
  /** From `due_at` to `started_at` of the retries that were due, as the database has it. */
  readonly lateness: Spread;
  readonly cpuPercent: { readonly before: number; readonly during: number; readonly after: number };
  readonly rssBytes: number;
}

const CONNECTIONS = 64;
// From the moment at which the times are settled to the load: moving a backlog to its time and a start on a full file.
const START_MS = 4000;
// The same for a daemon that runs.
const SOON_MS = 500;
// The last time that a run is begun anew it has so many times as long for both.
const PATIENCE_MAX = 16;
const HOUR_MS = 3_600_000;
const ARRIVED_MS_MAX = 60_000;
const POLL_MS = 50;
// After the last arrival: its attempt is still to be recorded.
const SETTLE_MS = 1000;

/**
 * Starts a daemon and sends it a load. Rejects when the load could not be sent at its rate, when something did not
 * arrive, arrived twice or had a wrong signature, and when the daemon does not stop as it should.
 */
export async function runDeliveries(plan: DeliveryPlan, place: DaemonPlace): Promise<DeliveryRun> {
  for (let patience = 1; patience <= PATIENCE_MAX; patience *= 2) {
    const run = await tryDeliveries(plan, { place, patience });
    if (run !== "late") return run;
  }
  throw new Error("the daemon took too long to start");
}

interface Times extends Measured {
  readonly loadFrom: number;
}

interface Run {
  readonly plan: DeliveryPlan;
  readonly times: Times;
  readonly file: DaemonFile;
  readonly daemon: DaemonProcess;
  readonly hosts: ManyHosts;
  readonly port: number;
}

/** "late" when the time of the load had come before the daemon was there. */
async function tryDeliveries(
  plan: DeliveryPlan,
  { place, patience }: { readonly place: DaemonPlace; readonly patience: number },
): Promise<DeliveryRun | "late"> {
  const { backlog, behaviour, seconds } = plan;
  const file = await createDaemonFile(place, { allowed: "127.0.0.0/8" });
  using hosts = new ManyHosts();
  const port = await hosts.ask("open", file.account.webhookSecret);
  if (backlog !== null) {
    await hosts.ask("behave", { failing: backlog.hosts, hanging: [], ignored: [] });
    await fillBacklog(file, { ...backlog, port, spreadMs: seconds * 1000 });
  }
  const settled = backlog && timesOf(plan, patience * START_MS);
  if (settled !== null) moveBacklog(file, settled.retriesFrom);
  await using daemon = await startDaemon(file);
  const times = settled ?? timesOf(plan, patience * SOON_MS);
  await hosts.ask("measure", times);
  // Nobody hangs before it is measured: hosts that were quick and begin to hang are the worst case.
  await hosts.ask("behave", { ...behaviour, hanging: [] });
  const run = await measure({ plan, times, file, daemon, hosts, port });
  await daemon.stop();
  return run === "late" ? run : { ...run, lateness: retryLateness(file.database, times) };
}

function timesOf(plan: DeliveryPlan, startMs: number): Times {
  const { idleSeconds, warmUpSeconds, seconds, backlog } = plan;
  const loadFrom = Date.now() + startMs + idleSeconds * 1000;
  const from = loadFrom + warmUpSeconds * 1000;
  const retriesFrom = backlog?.due === "in an hour" ? from + HOUR_MS : from;
  return { loadFrom, from, to: from + seconds * 1000, retriesFrom };
}

async function measure(run: Run): Promise<Omit<DeliveryRun, "lateness"> | "late"> {
  const { plan, times, daemon, hosts } = run;
  const { from, to } = times;
  const idle = (): Promise<number> => cpuPercent(daemon, Date.now() + plan.idleSeconds * 1000);
  const before = await idle();
  if (Date.now() > times.loadFrom) return "late";
  const behaved = async (): Promise<number> => {
    await sleep(from - Date.now());
    await hosts.ask("behave", plan.behaviour);
    return cpuPercent(daemon, to);
  };
  // An early failure is noticed at once, and not when the time is over.
  const [during, loaded] = await Promise.all([behaved(), plan.perSecond > 0 ? load(run) : null]);
  await allArrived(run);
  const arrivals = await hosts.ask("report");
  const { repeated, badSignatures, verified } = arrivals;
  if (repeated > 0) throw new Error(`${repeated} postbacks arrived twice, without a crash`);
  if (badSignatures > 0) throw new Error(`${badSignatures} of ${verified} signatures were wrong`);
  await sleep(SETTLE_MS);
  const after = await idle();
  return {
    arrivals,
    posts: loaded?.answers ?? arrivals.fromPost,
    arrivedPerSecond: (1000 * arrivals.fromPost.count) / (to - from),
    cpuPercent: { before, during, after },
    rssBytes: processUsage(daemon.pid).rssBytes,
  };
}

/** From now until then. */
async function cpuPercent(daemon: DaemonProcess, untilAt: number): Promise<number> {
  const waitMs = untilAt - Date.now();
  if (waitMs <= 0) return Number.NaN;
  const spent = spendingOf(daemon.pid);
  await sleep(waitMs);
  return spent().cpuPercent;
}

function load({ plan, times, file, daemon, port }: Run): Promise<OpenLoadEnd> {
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
      return taskPostRequest({ ...template, postbackUrl, tag: tagText({ kind: "fresh", at }) });
    },
  });
}

async function allArrived({ plan, times, hosts, daemon }: Run): Promise<void> {
  const expected = expectedArrivals(plan, times);
  let [fresh, retries] = [0, 0];
  const haveArrived = async (): Promise<boolean> => {
    ({ fresh, retries } = await hosts.ask("count"));
    return fresh >= expected.fresh && retries >= expected.retries;
  };
  const missing = (): string => {
    const what = `${expected.fresh - fresh} postbacks and ${expected.retries - retries} retries`;
    return `${what} are missing: ${daemon.log}`;
  };
  await until(haveArrived, { msMax: ARRIVED_MS_MAX, everyMs: POLL_MS, fault: missing });
}

function expectedArrivals(
  { perSecond, hosts, behaviour, backlog }: DeliveryPlan,
  { loadFrom, from, to }: Times,
): { readonly fresh: number; readonly retries: number } {
  const retries = backlog?.due === "measured" ? backlog.retries : 0;
  const ignored = new Set(behaviour.ignored);
  let fresh = 0;
  for (let index = 0; ; index++) {
    const at = loadFrom + (index * 1000) / perSecond;
    if (!(at < to)) return { fresh, retries };
    if (at >= from && !ignored.has(hosts[index % hosts.length] ?? "")) fresh++;
  }
}

/**
 * How late retries were begun, from `due_at` to `started_at`, of all that were due in a time. Throws when one of them
 * was not begun.
 */
function retryLateness(database: string, { retriesFrom, to }: Measured): Spread {
  using view = new DatabaseView(database);
  const due = `FROM attempts WHERE retry > 0 AND due_at >= ${retriesFrom} AND due_at < ${to}`;
  const left = view.number(`SELECT count(*) ${due} AND started_at IS NULL`);
  if (left > 0) throw new Error(`${left} retries that were due were not begun`);
  const durations = new Durations();
  for (const ms of view.column(`SELECT started_at - due_at ${due}`)) durations.add(Number(ms));
  return durations.spread;
}
