import type { DaemonFile, DaemonPlace } from "../kit/daemon-file.ts";
import { createDaemonFile, startDaemon } from "../kit/daemon-file.ts";
import type { Spread } from "../kit/durations.ts";
import { inTurn } from "../kit/in-turn.ts";
import { KeptConnection } from "../kit/kept-connection.ts";
import { LoadGenerator } from "../kit/load-generator.ts";
import { openOutsideView, type OutsideView } from "../kit/outside-view.ts";
import { spendingOf } from "../kit/processes.ts";
import { servedText, taskPostRequest } from "../kit/request.ts";
import { BareHandler } from "./bare-handler.ts";
import { deliverAll, DELIVERED_MS_MAX, type Delivery } from "./delivery.ts";
import { BenchReceiver } from "./receiver.ts";

/** One measurement of a phase. */
export interface Slice {
  readonly tasks: number;
  readonly tasksPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  /** Of the server, for `tasks` and the warm-up before them. */
  readonly cpuSeconds: number;
  readonly cpuMicrosPerTask: number;
  /** Of the server, at the end. */
  readonly rssBytes: number;
}

/** The measurements of one phase. */
export interface PhaseResult {
  readonly letter: string;
  /** Its description, for the table. */
  readonly title: string;
  /** By round: in each round the phases were measured one right after the other. */
  readonly slices: readonly Slice[];
}

/** How long and how hard to measure. */
export interface Effort {
  /** Of one measurement. */
  readonly seconds: number;
  readonly connections: number;
  /** Tasks of one measurement of the whole way to the postback. */
  readonly tasks: number;
}

/** How the tasks of a phase are posted, to which type, and whether their postbacks are waited for. */
interface Posting {
  readonly title: string;
  readonly connections: number;
  readonly tasksPerRequest: number;
  readonly type: "parked" | "echo";
  readonly isDelivered?: true;
}

/** A server under load. */
interface Load {
  readonly port: number;
  readonly pid: number;
  readonly connections: number;
  readonly request: string;
  readonly tasksPerRequest: number;
  readonly generator: LoadGenerator;
}

// Until the connections are as busy as they get.
const WARM_UP_MS = 250;

/** The phases beside (a) by their letters, in the order they are measured, for a number of connections. */
const POSTINGS: Readonly<Record<string, (connections: number) => Posting>> = {
  b: (connections) => ({
    title: `task_post one by one, ${connections} connections`,
    connections,
    tasksPerRequest: 1,
    type: "parked",
  }),
  // As (b), but the same machine runs the tasks at the same time.
  "b+": (connections) => ({
    title: "as (b), tasks run by echo meanwhile",
    connections,
    tasksPerRequest: 1,
    type: "echo",
  }),
  c: (connections) => ({
    title: `task_post by 100, ${Math.ceil(connections / 4)} connections`,
    connections: Math.ceil(connections / 4),
    tasksPerRequest: 100,
    type: "parked",
  }),
  d: (connections) => ({
    title: "post → echo → signed postback → recorded",
    connections,
    tasksPerRequest: 1,
    type: "echo",
    isDelivered: true,
  }),
  "d+": () => ({
    title: "as (d), posted by 100",
    connections: 1,
    tasksPerRequest: 100,
    type: "echo",
    isDelivered: true,
  }),
};

/** The letters of all phases, in the order they are measured. */
export const PHASE_LETTERS: readonly string[] = ["a", ...Object.keys(POSTINGS)];

/** A phase whose server runs. */
export interface Phase {
  readonly letter: string;
  readonly title: string;
  readonly measure: () => Promise<Slice>;
}

/** Starts the phases, each with a server and a database of its own, and measures them in turn. */
export async function measurePhases(options: {
  readonly place: DaemonPlace;
  readonly effort: Effort;
  readonly rounds: number;
  /** Of {@link PHASE_LETTERS}. */
  readonly letters: readonly string[];
  /** Called with every measurement as soon as it is done. */
  readonly onSlice: (phase: { readonly letter: string }, slice: Slice) => void;
}): Promise<readonly PhaseResult[]> {
  const { letters, rounds, onSlice: onResult } = options;
  await using stack = new AsyncDisposableStack();
  const setup = { ...options, stack };
  const phases: Phase[] = [];
  for (const letter of PHASE_LETTERS.filter((each) => letters.includes(each))) {
    phases.push(await openPhase(letter, setup));
  }
  const measure = (phase: Phase): Promise<Slice> => phase.measure();
  const measured = await inTurn(phases, { rounds, uncounted: 1, onResult, measure });
  return measured.map(({ leg: { letter, title }, results: slices }) => ({ letter, title, slices }));
}

/** The parts that a phase is started with. */
export interface Setup {
  readonly place: DaemonPlace;
  readonly effort: Effort;
  /** Ends what a phase starts. */
  readonly stack: AsyncDisposableStack;
  /** Makes the file of its daemon; one without anything in it unless given. */
  readonly newFile?: () => Promise<DaemonFile>;
}

/** Starts a phase of {@link PHASE_LETTERS}. */
export async function openPhase(letter: string, setup: Setup): Promise<Phase> {
  const posting = POSTINGS[letter]?.(setup.effort.connections);
  const phase = posting === undefined ? bare(setup) : daemonPhase(posting, setup);
  return { letter, ...(await phase) };
}

/** The bare h3 handler, which answers what postbackd answers. */
async function bare({ place, effort, stack }: Setup): Promise<Omit<Phase, "letter">> {
  const handler = stack.use(new BareHandler());
  const port = await handler.ask("serve", await sampleAnswer(place, 1));
  const generator = stack.use(new LoadGenerator());
  const { connections, seconds } = effort;
  const request = taskPostRequest({ key: "k".repeat(49), tasks: 1, type: "parked" });
  const load = { port, pid: handler.pid, connections, request, tasksPerRequest: 1, generator };
  return {
    title: `bare h3 handler, ${connections} connections`,
    measure: () => measurePosts(load, seconds),
  };
}

/** The body with which postbackd answers a request that posts so many tasks. */
export async function sampleAnswer(place: DaemonPlace, tasks: number): Promise<string> {
  const file = await createDaemonFile(place);
  await using daemon = await startDaemon(file);
  using connection = await KeptConnection.open(daemon.port);
  const request = { key: file.account.key, tasks, type: "parked" };
  return servedText(await connection.ask(taskPostRequest(request)));
}

/** Posts tasks to a daemon of its own, and lets it finish the started ones before the next measurement. */
async function daemonPhase(
  { title, connections, tasksPerRequest, type, isDelivered }: Posting,
  { place, effort, stack, newFile = () => createDaemonFile(place) }: Setup,
): Promise<Omit<Phase, "letter">> {
  const file = await newFile();
  const { key, webhookSecret } = file.account;
  const receiver = isDelivered === true ? stack.use(new BenchReceiver()) : null;
  const daemon = await startDaemon(file);
  stack.defer(() => daemon.stop());
  const view = stack.use(await openOutsideView(file.database));
  const generator = stack.use(new LoadGenerator());
  const url = await receiver?.ask("open");
  const postbackUrl = url && { postbackUrl: `${url}/postback` };
  const request = taskPostRequest({ key, tasks: tasksPerRequest, type, ...postbackUrl });
  const load = { port: daemon.port, pid: daemon.pid, connections, request, tasksPerRequest };
  const measure = async (): Promise<Slice> => {
    if (receiver !== null)
      return measureDelivery(
        { ...load, generator, tasks: effort.tasks, secret: webhookSecret, receiver },
        { pid: daemon.pid, view },
      );
    const slice = await measurePosts({ ...load, generator }, effort.seconds);
    if (type === "echo") await view.quiet({ msMax: DELIVERED_MS_MAX });
    return slice;
  };
  return { title, measure };
}

async function measurePosts(load: Load, seconds: number): Promise<Slice> {
  const { port, connections, request, tasksPerRequest, generator } = load;
  const spent = spendingOf(load.pid);
  const until = { measuredMs: seconds * 1000 };
  const order = { port, connections, request, warmUpMs: WARM_UP_MS, until };
  const report = await generator.ask("run", order);
  const inAll = report.answersInAll * tasksPerRequest;
  const tasks = report.answers * tasksPerRequest;
  return toSlice(report, { ...spent(), seconds: report.seconds, tasks, inAll });
}

/**
 * The whole way: post, run by echo, postback signed and sent, received, attempt recorded. A measurement ends
 * when the database says that every attempt is over. Latencies are from a task's making to its arrival.
 */
async function measureDelivery(
  delivery: Delivery,
  { pid, view }: { readonly pid: number; readonly view: OutsideView },
): Promise<Slice> {
  // A file that was full before may hold deliveries that wait.
  const undelivered = await view.countUndelivered();
  const spent = spendingOf(pid);
  const arrivals = await deliverAll(delivery);
  await view.recorded({ msMax: DELIVERED_MS_MAX });
  const [spending, { tasks }] = [spent(), arrivals];
  const others = (await view.countUndelivered()) - undelivered;
  if (others > 0) throw new Error(`${others} deliveries are not recorded as delivered`);
  return toSlice(arrivals, { ...spending, tasks, inAll: tasks });
}

function toSlice(
  { p50Ms, p99Ms, p999Ms }: Pick<Spread, "p50Ms" | "p99Ms" | "p999Ms">,
  spent: {
    readonly tasks: number;
    /** With those of the warm-up. */
    readonly inAll: number;
    readonly seconds: number;
    readonly cpuSeconds: number;
    readonly rssBytes: number;
  },
): Slice {
  const { tasks, inAll, seconds, cpuSeconds, rssBytes } = spent;
  const cpuMicrosPerTask = (cpuSeconds * 1e6) / inAll;
  const rate = { tasks, tasksPerSecond: tasks / seconds };
  return { ...rate, p50Ms, p99Ms, p999Ms, cpuSeconds, cpuMicrosPerTask, rssBytes };
}
