import type { DaemonFile } from "./daemon-file.ts";
import type { DaemonProcess } from "./daemon-process.ts";
import { DatabaseView } from "./database-view.ts";
import { sendTimes } from "./load.ts";
import { requestText, servedText } from "./request.ts";
import { until } from "./until.ts";

const TASKS_PER_POST = 100;
const QUIET_MS_MAX = 600_000;

/** One sort of task that the file is filled with, and its part of the whole. */
interface Part {
  readonly share: number;
  readonly task: Readonly<Record<string, unknown>>;
}

const INPUT = { source: "s3://uploads/2026/clip.mov", width: 1280, height: 720 };

// `parked` is never run: its tasks stay queued. An unknown field makes a task that is failed from the start.
const PARTS: readonly Part[] = [
  { share: 0.9, task: { type: "echo", input: INPUT } },
  { share: 0.05, task: { type: "echo", tag: "tagged", input: INPUT } },
  { share: 0.045, task: { type: "parked", tag: "waiting", input: INPUT } },
  { share: 0.005, task: { type: "echo", colour: "red" } },
];

/** The contents that {@link fillDatabase} makes. */
export interface Filling {
  readonly file: DaemonFile;
  readonly daemon: DaemonProcess;
  readonly tasks: number;
}

/** Posts tasks of all sorts, by 100, and waits until all that can be run has been. */
export async function fillDatabase({ file, daemon, tasks }: Filling): Promise<void> {
  for (const { share, task } of PARTS) {
    const body = JSON.stringify(Array.from({ length: TASKS_PER_POST }, () => task));
    const request = requestText("POST /v1/tasks/task_post", { secret: file.account.key, body });
    const times = Math.ceil((tasks * share) / TASKS_PER_POST);
    await sendTimes(times, { port: daemon.port, request }, servedText);
    process.stderr.write(`  posted ${Math.round(tasks * share)} × ${JSON.stringify(task)}\n`);
  }
  using view = new DatabaseView(file.database);
  const left = "SELECT count(*) FROM tasks WHERE state = 'queued' AND type = 'echo'";
  const fault = (): string => "the tasks were not run in time";
  await until(() => view.number(left) === 0, { msMax: QUIET_MS_MAX, everyMs: 500, fault });
}
