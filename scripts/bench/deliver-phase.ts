import { createDaemonFile, startDaemon, type DaemonPlace } from "../kit/daemon-file.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { LoadGenerator } from "../kit/load-generator.ts";
import { spendingOf } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";
import type { Effort, Phase, Slice } from "./phase.ts";
import { BenchReceiver, type Arrivals } from "./receiver.ts";

const QUIET_MS_MAX = 60_000;

/**
 * The whole way: post, run by echo, postback signed and sent, received, attempt recorded. A measurement ends
 * when the database says that every attempt is over. Latencies are from a task's making to its arrival.
 */
export async function deliverPhase(
  { letter, title, tasksPerRequest }: { letter: string; title: string; tasksPerRequest: number },
  { place, effort }: { readonly place: DaemonPlace; readonly effort: Effort },
): Promise<Phase> {
  const file = await createDaemonFile(place);
  const { key, webhookSecret } = file.account;
  const daemon = await startDaemon(file);
  const receiver = new BenchReceiver();
  const generator = new LoadGenerator();
  const view = new DatabaseView(file.database);
  const postbackUrl = `${await receiver.ask("open", webhookSecret)}/postback`;
  const request = taskPostRequest({ key, tasks: tasksPerRequest, type: "echo", postbackUrl });
  const { connections, tasks } = effort;
  const { port, pid } = daemon;
  const load = { port, pid, connections, request, tasksPerRequest, tasks };
  return {
    letter,
    title,
    measure: () => measureDelivery(load, { generator, receiver, view }),
    async [Symbol.asyncDispose]() {
      generator[Symbol.dispose]();
      view[Symbol.dispose]();
      await daemon.stop();
      receiver[Symbol.dispose]();
    },
  };
}

interface DeliveryLoad {
  readonly port: number;
  readonly pid: number;
  readonly connections: number;
  readonly request: string;
  readonly tasksPerRequest: number;
  readonly tasks: number;
}

interface DeliveryParts {
  readonly generator: LoadGenerator;
  readonly receiver: BenchReceiver;
  readonly view: DatabaseView;
}

async function measureDelivery(load: DeliveryLoad, parts: DeliveryParts): Promise<Slice> {
  const { port, connections, request } = load;
  const answers = Math.ceil(load.tasks / load.tasksPerRequest);
  const tasks = answers * load.tasksPerRequest;
  const spent = spendingOf(load.pid);
  const arrived = parts.receiver.ask("expect", { tasks, withinMs: QUIET_MS_MAX });
  const until = { answers };
  await parts.generator.ask("run", { port, connections, request, warmUpMs: 0, until });
  const arrivals = await arrived;
  requireAll(arrivals, tasks);
  await parts.view.quiet({ msMax: QUIET_MS_MAX });
  const { seconds, cpuSeconds, rssBytes } = spent();
  requireRecorded(parts.view);
  return {
    tasks,
    tasksPerSecond: tasks / seconds,
    p50Ms: arrivals.p50Ms,
    p99Ms: arrivals.p99Ms,
    cpuSeconds,
    cpuMicrosPerTask: (cpuSeconds * 1e6) / tasks,
    rssBytes,
  };
}

function requireAll({ tasks, repeated, badSignatures }: Arrivals, expected: number): void {
  if (tasks < expected) throw new Error(`only ${tasks} of ${expected} postbacks arrived`);
  if (repeated > 0) throw new Error(`${repeated} postbacks arrived twice, without a crash`);
  if (badSignatures > 0) throw new Error(`${badSignatures} postbacks had a bad signature`);
}

function requireRecorded(view: DatabaseView): void {
  const others = view.number("SELECT count(*) FROM deliveries WHERE state <> 'delivered'");
  if (others > 0) throw new Error(`${others} deliveries are not recorded as delivered`);
}
