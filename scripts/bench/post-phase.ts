import { createDaemonFile, startDaemon, type DaemonPlace } from "../kit/daemon-file.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { KeptConnection } from "../kit/kept-connection.ts";
import { LoadGenerator } from "../kit/load-generator.ts";
import { spendingOf } from "../kit/processes.ts";
import { servedText, taskPostRequest } from "../kit/request.ts";
import { BareHandler } from "./bare-handler.ts";
import type { Effort, Phase, Slice } from "./phase.ts";

const QUIET_MS_MAX = 60_000;
// Until the connections are as busy as they get.
const WARM_UP_MS = 250;

interface PostLoad {
  readonly port: number;
  readonly pid: number;
  readonly request: string;
  readonly connections: number;
  readonly tasksPerRequest: number;
  readonly seconds: number;
}

/** The bare h3 handler, which answers what postbackd answers. */
export async function barePhase(place: DaemonPlace, effort: Effort): Promise<Phase> {
  const request = { key: "k".repeat(49), tasks: 1, type: "parked" };
  const handler = new BareHandler();
  const port = await handler.ask("serve", await sampleAnswer(place));
  const generator = new LoadGenerator();
  return {
    letter: "a",
    title: `bare h3 handler, ${effort.connections} connections`,
    measure: () =>
      measurePosts(generator, {
        port,
        pid: handler.pid,
        tasksPerRequest: 1,
        ...effort,
        request: taskPostRequest(request),
      }),
    async [Symbol.asyncDispose]() {
      handler[Symbol.dispose]();
      generator[Symbol.dispose]();
    },
  };
}

/** How tasks are posted, and to which type. */
export interface PostPhase {
  readonly letter: string;
  readonly title: string;
  readonly tasksPerRequest: number;
  readonly type: "parked" | "echo";
}

/** Posts tasks to a daemon of its own, and lets it finish the started ones before the next measurement. */
export async function postPhase(
  { letter, title, tasksPerRequest, type }: PostPhase,
  { place, effort }: { readonly place: DaemonPlace; readonly effort: Effort },
): Promise<Phase> {
  const file = await createDaemonFile(place);
  const daemon = await startDaemon(file);
  const generator = new LoadGenerator();
  const view = new DatabaseView(file.database);
  const request = taskPostRequest({ key: file.account.key, tasks: tasksPerRequest, type });
  const load = { ...effort, tasksPerRequest, request, port: daemon.port, pid: daemon.pid };
  return {
    letter,
    title,
    async measure() {
      const slice = await measurePosts(generator, load);
      if (type === "echo") await view.quiet({ msMax: QUIET_MS_MAX });
      return slice;
    },
    async [Symbol.asyncDispose]() {
      generator[Symbol.dispose]();
      view[Symbol.dispose]();
      await daemon.stop();
    },
  };
}

async function measurePosts(generator: LoadGenerator, load: PostLoad): Promise<Slice> {
  const { port, connections, request, seconds, tasksPerRequest } = load;
  const spent = spendingOf(load.pid);
  const until = { measuredMs: seconds * 1000 };
  const report = await generator.ask("run", {
    port,
    connections,
    request,
    warmUpMs: WARM_UP_MS,
    until,
  });
  const { cpuSeconds, rssBytes } = spent();
  const tasks = report.answers * tasksPerRequest;
  return {
    tasks,
    tasksPerSecond: tasks / report.seconds,
    p50Ms: report.p50Ms,
    p99Ms: report.p99Ms,
    cpuSeconds,
    cpuMicrosPerTask: (cpuSeconds * 1e6) / (report.answersInAll * tasksPerRequest),
    rssBytes,
  };
}

/** The body with which postbackd answers the request that the bench posts. */
async function sampleAnswer(place: DaemonPlace): Promise<string> {
  const file = await createDaemonFile(place);
  await using daemon = await startDaemon(file);
  using connection = await KeptConnection.open(daemon.port);
  const request = { key: file.account.key, tasks: 1, type: "parked" };
  return servedText(await connection.ask(taskPostRequest(request)));
}
