import { setTimeout as sleep } from "node:timers/promises";

import {
  createDaemonFile,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
} from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import type { Spread } from "../kit/durations.ts";
import { runOpenLoad } from "../kit/open-load.ts";
import { processUsage, spendingOf } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";
import { until } from "../kit/until.ts";
import type { ArrivalReport } from "./arrivals.ts";
import { fillBacklog, moveBacklog, type Backlog } from "./backlog.ts";
import { ManyHosts, type Behaviour } from "./receiver.ts";
import { retryLateness } from "./retry-lateness.ts";
import { tagText } from "./tag.ts";

/** One daemon, one load: what {@link runDeliveries} measures. */
export interface DeliveryPlan {
  readonly place: DaemonPlace;
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

const SETTINGS = { allowed: "127.0.0.0/8" };

/**
 * Starts a daemon and sends it a load. Rejects when the load could not be sent at its rate, when something did not
 * arrive, arrived twice or had a wrong signature, and when the daemon does not stop as it should.
 */
export async function runDeliveries(plan: DeliveryPlan): Promise<DeliveryRun> {
  for (let patience = 1; patience <= PATIENCE_MAX; patience *= 2) {
    const run = await tryDeliveries(plan, patience);
    if (run !== "late") return run;
  }
  throw new Error("the daemon took too long to start");
}

/** "late" when the time of the load had come before the daemon was there. */
async function tryDeliveries(plan: DeliveryPlan, patience: number): Promise<DeliveryRun | "late"> {
  const file = await createDaemonFile(plan.place, SETTINGS);
  using hosts = new ManyHosts();
  const port = await hosts.ask("open", file.account.webhookSecret);
  const settled = plan.backlog === null ? null : await fillFile(file, { plan, port, patience });
  await using daemon = await startDaemon(file);
  const times = settled ?? timesOf(plan, patience * SOON_MS);
  await hosts.ask("measure", times);
  // Nobody hangs before it is measured: hosts that were quick and begin to hang are the worst case.
  await hosts.ask("behave", { ...plan.behaviour, hanging: [] });
  const run = await new Run({ plan, times, file, daemon, hosts, port }).measure();
  await daemon.stop();
  if (run === "late") return run;
  const lateness = retryLateness(file.database, times);
  return { ...run, lateness };
}

interface Times {
  readonly loadFrom: number;
  readonly from: number;
  readonly to: number;
  readonly retriesFrom: number;
}

/** Puts the plan's retries into the file and settles when they are due. */
async function fillFile(
  file: DaemonFile,
  {
    plan,
    port,
    patience,
  }: { readonly plan: DeliveryPlan; readonly port: number; readonly patience: number },
): Promise<Times> {
  const { backlog, seconds } = plan;
  if (backlog !== null) await fillBacklog(file, { ...backlog, port, spreadMs: seconds * 1000 });
  const times = timesOf(plan, patience * START_MS);
  await moveBacklog(file, times.retriesFrom);
  return times;
}

function timesOf(plan: DeliveryPlan, startMs: number): Times {
  const { idleSeconds, warmUpSeconds, seconds, backlog } = plan;
  const loadFrom = Date.now() + startMs + idleSeconds * 1000;
  const from = loadFrom + warmUpSeconds * 1000;
  const retriesFrom = backlog?.due === "in an hour" ? from + HOUR_MS : from;
  return { loadFrom, from, to: from + seconds * 1000, retriesFrom };
}

class Run {
  readonly #plan: DeliveryPlan;
  readonly #times: Times;
  readonly #file: DaemonFile;
  readonly #daemon: DaemonProcess;
  readonly #hosts: ManyHosts;
  readonly #port: number;

  constructor(deps: {
    readonly plan: DeliveryPlan;
    readonly times: Times;
    readonly file: DaemonFile;
    readonly daemon: DaemonProcess;
    readonly hosts: ManyHosts;
    readonly port: number;
  }) {
    this.#plan = deps.plan;
    this.#times = deps.times;
    this.#file = deps.file;
    this.#daemon = deps.daemon;
    this.#hosts = deps.hosts;
    this.#port = deps.port;
  }

  async measure(): Promise<Omit<DeliveryRun, "lateness"> | "late"> {
    const { idleSeconds, perSecond } = this.#plan;
    const { loadFrom, from, to } = this.#times;
    const before = await this.#cpuPercent(Date.now() + idleSeconds * 1000);
    if (Date.now() > loadFrom) return "late";
    const load = perSecond === 0 ? null : this.#load();
    // An early failure is noticed at once, and not when the time is over.
    const [during, loaded] = await Promise.all([this.#measured(), load]);
    await this.#allArrived();
    const arrivals = await this.#hosts.ask("report");
    requireSound(arrivals);
    await sleep(SETTLE_MS);
    const after = await this.#cpuPercent(Date.now() + idleSeconds * 1000);
    return {
      arrivals,
      posts: loaded?.answers ?? arrivals.fromPost,
      arrivedPerSecond: (1000 * arrivals.fromPost.count) / (to - from),
      cpuPercent: { before, during, after },
      rssBytes: processUsage(this.#daemon.pid).rssBytes,
    };
  }

  async #measured(): Promise<number> {
    const { from, to } = this.#times;
    await sleep(from - Date.now());
    await this.#hosts.ask("behave", this.#plan.behaviour);
    return this.#cpuPercent(to);
  }

  /** From now until then. */
  async #cpuPercent(until: number): Promise<number> {
    const waitMs = until - Date.now();
    if (waitMs <= 0) return Number.NaN;
    const spent = spendingOf(this.#daemon.pid);
    await sleep(waitMs);
    return spent().cpuPercent;
  }

  #load(): ReturnType<typeof runOpenLoad> {
    const { perSecond, hosts } = this.#plan;
    const { loadFrom, to } = this.#times;
    const { key } = this.#file.account;
    const template = { key, tasks: 1, type: "echo" };
    return runOpenLoad({
      port: this.#daemon.port,
      connections: CONNECTIONS,
      perSecond,
      from: loadFrom,
      to,
      requestAt: (at, index) => {
        const postbackUrl = `http://${hosts[index % hosts.length]}:${this.#port}/postback`;
        return taskPostRequest({ ...template, postbackUrl, tag: tagText({ kind: "fresh", at }) });
      },
    });
  }

  async #allArrived(): Promise<void> {
    const expected = this.#expected();
    let [fresh, retries] = [0, 0];
    const haveArrived = async (): Promise<boolean> => {
      ({ fresh, retries } = await this.#hosts.ask("count"));
      return fresh >= expected.fresh && retries >= expected.retries;
    };
    const missing = (): string => {
      const what = `${expected.fresh - fresh} postbacks and ${expected.retries - retries} retries`;
      return `${what} are missing: ${this.#daemon.log}`;
    };
    await until(haveArrived, { msMax: ARRIVED_MS_MAX, everyMs: POLL_MS, fault: missing });
  }

  #expected(): { readonly fresh: number; readonly retries: number } {
    const { perSecond, hosts, behaviour, backlog } = this.#plan;
    const { loadFrom, from, to } = this.#times;
    const retries = backlog?.due === "measured" ? backlog.retries : 0;
    const ignored = new Set(behaviour.ignored);
    let fresh = 0;
    for (let index = 0; ; index++) {
      const at = loadFrom + (index * 1000) / perSecond;
      if (!(at < to)) return { fresh, retries };
      if (at >= from && !ignored.has(hosts[index % hosts.length] ?? "")) fresh++;
    }
  }
}

function requireSound({ repeated, badSignatures, verified }: ArrivalReport): void {
  if (repeated > 0) throw new Error(`${repeated} postbacks arrived twice, without a crash`);
  if (badSignatures > 0) throw new Error(`${badSignatures} of ${verified} signatures were wrong`);
}
