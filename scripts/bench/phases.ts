import { copyFileSync, mkdtempSync, statSync } from "node:fs";
import { join } from "node:path";

import { defineCommand, names, number, whole } from "../kit/command.ts";
import { createDaemonFile, startDaemon, type DaemonFile, type DaemonPlace } from "../kit/daemon.ts";
import { openOutsideView, type OutsideView } from "../kit/database.ts";
import { KeptConnection, servedText, taskPostRequest } from "../kit/http.ts";
import { LoadGenerator } from "../kit/load.ts";
import {
  besideFirst,
  figureOf,
  figureTable,
  inTurn,
  megabytes,
  percent,
  sumOf,
  verdict,
  type Beside,
  type Figure,
  type Measured,
  type Spread,
} from "../kit/measure.ts";
import { spendingOf } from "../kit/processes.ts";
import { BareHandler } from "./bare-handler.ts";
import { fillFile, NO_TASK_LIMIT } from "./fill.ts";
import { BenchReceiver, deliverAll, DELIVERED_MS_MAX, type Delivery } from "./receiver.ts";

interface Slice extends Spread {
  readonly tasksPerSecond: number;
  /** Of the server, for the tasks and the warm-up before them. */
  readonly cpuSeconds: number;
  readonly cpuMicrosPerTask: number;
  readonly rssBytes: number;
}

interface Effort {
  readonly seconds: number;
  readonly connections: number;
  /** Of one measurement of (d). */
  readonly tasks: number;
}

/** How the tasks of a phase are posted, and whether their postbacks are awaited. */
interface Posting {
  readonly title: string;
  readonly connections: (all: number) => number;
  readonly tasksPerRequest: number;
  readonly type: "parked" | "echo";
  readonly isDelivered?: true;
}

const all = (connections: number): number => connections;

/** The phases next to (a), in the order in which they are measured. */
const POSTINGS: Readonly<Record<string, Posting>> = {
  b: { title: "task_post one by one", connections: all, tasksPerRequest: 1, type: "parked" },
  "b+": {
    title: "as (b), tasks run by echo meanwhile",
    connections: all,
    tasksPerRequest: 1,
    type: "echo",
  },
  c: {
    title: "task_post by 100",
    connections: (connections) => Math.ceil(connections / 4),
    tasksPerRequest: 100,
    type: "parked",
  },
  d: {
    title: "post → echo → signed postback → recorded",
    connections: all,
    tasksPerRequest: 1,
    type: "echo",
    isDelivered: true,
  },
  "d+": {
    title: "as (d), posted by 100",
    connections: () => 1,
    tasksPerRequest: 100,
    type: "echo",
    isDelivered: true,
  },
};
const LETTERS = ["a", ...Object.keys(POSTINGS)];

// Until the connections are as busy as they get.
const WARM_UP_MS = 250;

type Run = Beside<Slice>;
const RATE: Figure<Run> = { name: "tasks/s", value: ({ run }) => run.tasksPerSecond };
const ratio = (name: string): Figure<Run> => ({
  name,
  unit: " %",
  value: ({ run, first }) => (100 * run.tasksPerSecond) / first.tasksPerSecond,
});
const P99: Figure<Run> = { name: "p99 ms", digits: 1, value: ({ run }) => run.p99Ms };
const RSS: Figure<Run> = {
  name: "server RSS MB",
  value: ({ run }) => run.rssBytes / 1e6,
  of: (values) => values.at(-1) ?? Number.NaN,
};
const TO_A = ratio("to (a)");
const TO_EMPTY = ratio("to empty");
const REST: readonly Figure<Run>[] = [
  { name: "p50 ms", digits: 1, value: ({ run }) => run.p50Ms },
  P99,
  { name: "p99.9 ms", digits: 1, value: ({ run }) => run.p999Ms },
  { name: "server CPU µs/task", value: ({ run }) => run.cpuMicrosPerTask },
  { name: "server CPU s", digits: 1, value: ({ run }) => run.cpuSeconds, of: sumOf },
  RSS,
];

/** The bounds of a release: at least `min`, and below `max`. */
type Budget = readonly [
  text: string,
  letter: string,
  figure: Figure<Run>,
  min: number,
  max?: number,
];
const BUDGETS: Readonly<Record<"file" | "server", readonly Budget[]>> = {
  file: [
    ["(b) at least 60 % of (a)", "b", TO_A, 60],
    ["p99 of (b) under 25 ms", "b", P99, 0, 25],
    ["(c) at least 60,000 tasks/s", "c", RATE, 60_000],
    ["(b) under 220 MB", "b", RSS, 0, 220],
    ["(c) under 220 MB", "c", RSS, 0, 220],
    ["(d) under 220 MB", "d", RSS, 0, 220],
    ["(d) at least 2,000 tasks/s", "d", RATE, 2000],
  ],
  server: [
    ["(b) at least 8,000 tasks/s", "b", RATE, 8000],
    ["p99 of (b) under 40 ms", "b", P99, 0, 40],
    ["(c) at least 20,000 tasks/s", "c", RATE, 20_000],
    ["(d) at least 1,500 tasks/s", "d", RATE, 1500],
  ],
};

export const phases = defineCommand({
  about: `What postbackd accepts and delivers on this machine, next to a bare h3 handler measured in the same run.`,
  flags: {
    seconds: number("of each measurement", 1),
    rounds: whole("measurements of each phase", 7),
    connections: whole("of the load generator", 64),
    tasks: whole("of each measurement of (d)", 2500),
    only: names("phases", LETTERS),
  },
  knowsServers: true,
  async run({ rounds, only, ...effort }, { place, note, print }) {
    await using stack = new AsyncDisposableStack();
    const legs: Phase[] = [];
    for (const letter of LETTERS.filter((each) => only.includes(each)))
      legs.push(await openPhase(letter, { place, effort, stack }));
    const measured = await measurePhases(legs, { rounds, uncounted: 1, note });
    const first = measured.find(({ leg }) => leg.letter === "a")?.results;
    const rows = measured.map(({ leg: { letter, title }, results }) => ({
      letter,
      what: [`(${letter}) ${title}`],
      runs: results.map((run, round) => ({ run, first: first?.[round] ?? NO_SLICE })),
    }));
    print(figureTable([RATE, TO_A, ...REST], rows));
    const lines = BUDGETS[place.newDatabase === undefined ? "file" : "server"].flatMap(
      ([text, letter, figure, min, max = Infinity]) => {
        const value = figureOf(figure, rows.find((row) => row.letter === letter)?.runs ?? []);
        return Number.isNaN(value) ? [] : [`- ${text}: ${verdict(value >= min && value < max)}`];
      },
    );
    print(`\n${lines.join("\n")}\n`);
    print(`${rounds} rounds; HTTP without TLS on loopback, inputs of 300 bytes.`);
  },
});

const FLAT_LETTERS = ["b", "c", "d"];
const SHARE_MIN = 0.9;

export const flat = defineCommand({
  about: `Whether the rates of (b), (c) and (d) are the same with a full file: each measured next to the same phase with an empty
file, by turns.`,
  flags: {
    tasks: whole("in the full file, half of them of the account that posts", 1_000_000),
    retries: whole("of these that wait for their first retry", 100_000),
    accounts: whole("that they belong to", 1000),
    hosts: whole("that they are sent to", 10_000),
    rounds: whole("measurements of each", 7),
    seconds: number("of each measurement", 1),
    deliveries: whole("tasks of each measurement of (d)", 2500),
  },
  async run({ rounds, seconds, deliveries, ...filling }, { place, note, print }) {
    const full = await createDaemonFile(place, { more: NO_TASK_LIMIT });
    await fillFile(full, filling);
    await using stack = new AsyncDisposableStack();
    const setup = { place, effort: { seconds, connections: 64, tasks: deliveries }, stack };
    const legs: Phase[] = [];
    for (const letter of FLAT_LETTERS) {
      legs.push(await openPhase(letter, setup));
      legs.push(await openPhase(letter, { ...setup, file: copyOf(full) }));
    }
    const measured = await measurePhases(legs, { rounds, uncounted: 2, note });
    const rows = measured.map(({ leg: { letter, title, isFull }, results }) => {
      const empty = measured.find(({ leg }) => leg.letter === letter && !leg.isFull);
      const what = isFull ? `(${letter}), the full file` : `(${letter}) ${title}`;
      return { what: [what], runs: besideFirst(results, empty?.results) };
    });
    const isKept = rows.every(({ runs }) => figureOf(TO_EMPTY, runs) >= 100 * SHARE_MIN);
    print(figureTable([RATE, TO_EMPTY, ...REST], rows));
    print(
      `\nEach rate at least ${percent(SHARE_MIN)} of that with an empty file: ${verdict(isKept)}.`,
    );
    print(`The full file has ${megabytes(statSync(full.database).size)} MB; ${rounds} rounds.`);
  },
});

/** The same account with a database of its own; no daemon may have the file open. */
function copyOf(file: DaemonFile): DaemonFile {
  const folder = mkdtempSync(`${file.folder}-`);
  const database = join(folder, "postbackd.db");
  copyFileSync(file.database, database);
  copyFileSync(join(file.folder, "postbackd.toml"), join(folder, "postbackd.toml"));
  return { ...file, folder, database };
}

interface Phase {
  readonly letter: string;
  readonly title: string;
  readonly isFull: boolean;
  readonly measure: () => Promise<Slice>;
}

function measurePhases(
  legs: readonly Phase[],
  how: {
    readonly rounds: number;
    readonly uncounted: number;
    readonly note: (news: string) => void;
  },
): Promise<readonly Measured<Phase, Slice>[]> {
  return inTurn(legs, {
    ...how,
    measure: ({ measure }) => measure(),
    onResult: ({ letter }, { tasksPerSecond, p99Ms }) =>
      how.note(`(${letter}) ${Math.round(tasksPerSecond)} tasks/s, p99 ${p99Ms.toFixed(1)} ms`),
  });
}

interface Setup {
  readonly place: DaemonPlace;
  readonly effort: Effort;
  readonly stack: AsyncDisposableStack;
  /** The file of its daemon; an empty one unless given. */
  readonly file?: DaemonFile;
}

async function openPhase(letter: string, setup: Setup): Promise<Phase> {
  const posting = POSTINGS[letter];
  const isFull = setup.file !== undefined;
  return { letter, isFull, ...(await (posting ? openDaemon(posting, setup) : openBare(setup))) };
}

async function openBare({ place, effort, stack }: Setup) {
  const handler = stack.use(new BareHandler());
  const port = await handler.ask("serve", await sampleAnswer(place));
  const generator = stack.use(new LoadGenerator());
  const { connections, seconds } = effort;
  const request = taskPostRequest({ key: "k".repeat(49), tasks: 1, type: "parked" });
  const load = { port, pid: handler.pid, connections, request, tasksPerRequest: 1, generator };
  return {
    title: `bare h3 handler, ${connections} connections`,
    measure: () => measurePosts(load, seconds),
  };
}

/** The body of postbackd's response to a request that posts a task. */
async function sampleAnswer(place: DaemonPlace): Promise<string> {
  const file = await createDaemonFile(place);
  await using daemon = await startDaemon(file);
  using connection = await KeptConnection.open(daemon.port);
  const request = { key: file.account.key, tasks: 1, type: "parked" };
  return servedText(await connection.ask(taskPostRequest(request)));
}

interface Load {
  readonly port: number;
  readonly pid: number;
  readonly connections: number;
  /** A task_post request. */
  readonly request: string;
  readonly tasksPerRequest: number;
  readonly generator: LoadGenerator;
}

async function openDaemon(
  { title, tasksPerRequest, type, isDelivered, ...posting }: Posting,
  { place, effort, stack, file: given }: Setup,
) {
  const file = given ?? (await createDaemonFile(place));
  const connections = posting.connections(effort.connections);
  const { key, webhookSecret: secret } = file.account;
  const receiver = isDelivered === true ? stack.use(new BenchReceiver()) : null;
  const daemon = await startDaemon(file);
  stack.defer(() => daemon.stop());
  const view = stack.use(await openOutsideView(file.database));
  const generator = stack.use(new LoadGenerator());
  const port = await receiver?.ask("open");
  const urls = port && { postbackUrl: `http://127.0.0.1:${port}/postback` };
  const request = taskPostRequest({ key, tasks: tasksPerRequest, type, ...urls });
  const { port: daemonPort, pid } = daemon;
  const load = { port: daemonPort, pid, connections, request, tasksPerRequest, generator };
  const measure = async (): Promise<Slice> => {
    if (receiver !== null)
      return measureDelivery({ ...load, tasks: effort.tasks, secret, receiver }, view);
    const slice = await measurePosts(load, effort.seconds);
    if (type === "echo") await view.quiet(DELIVERED_MS_MAX);
    return slice;
  };
  return { title: `${title}, ${connections} connections`, measure };
}

async function measurePosts(load: Load, seconds: number): Promise<Slice> {
  const { generator, tasksPerRequest, pid, ...order } = load;
  const spent = spendingOf(pid);
  const until = { measuredMs: seconds * 1000 };
  const report = await generator.ask("run", { ...order, warmUpMs: WARM_UP_MS, until });
  const tasks = report.count * tasksPerRequest;
  return toSlice(report, {
    ...spent(),
    ...report,
    tasks,
    inAll: report.countInAll * tasksPerRequest,
  });
}

/**
 * The whole way: post, run by echo, postback signed and sent, received, attempt recorded. A measurement ends when the
 * database has every attempt as ended. Latencies are from a task's creation to its arrival.
 */
async function measureDelivery(
  delivery: Delivery & { readonly pid: number },
  view: OutsideView,
): Promise<Slice> {
  // A full file holds deliveries that wait.
  const undelivered = await view.countUndelivered();
  const spent = spendingOf(delivery.pid);
  const { fromCreation, tasks } = await deliverAll(delivery);
  await view.recorded(DELIVERED_MS_MAX);
  const spending = spent();
  const others = (await view.countUndelivered()) - undelivered;
  if (others > 0) throw new Error(`${others} deliveries are not recorded as delivered`);
  return toSlice(fromCreation, { ...spending, tasks, inAll: tasks });
}

function toSlice(
  spread: Spread,
  spent: {
    readonly tasks: number;
    /** Including the warm-up. */
    readonly inAll: number;
    readonly seconds: number;
    readonly cpuSeconds: number;
    readonly rssBytes: number;
  },
): Slice {
  const { tasks, inAll, seconds, cpuSeconds, rssBytes } = spent;
  const cpuMicrosPerTask = (cpuSeconds * 1e6) / inAll;
  return { ...spread, tasksPerSecond: tasks / seconds, cpuSeconds, cpuMicrosPerTask, rssBytes };
}

const NO_SLICE: Slice = {
  ...{ count: 0, p50Ms: 0, p99Ms: 0, p999Ms: 0, maxMs: 0 },
  ...{ tasksPerSecond: Number.NaN, cpuSeconds: 0, cpuMicrosPerTask: 0, rssBytes: 0 },
};
