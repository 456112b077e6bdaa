import { setImmediate, setTimeout as sleep } from "node:timers/promises";

import { Meter } from "../../src/daemon/meter.ts";
import { guardObserver } from "../../src/daemon/observer.ts";
import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, startDaemon } from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { median } from "../kit/durations.ts";
import { fillDatabase } from "../kit/fill-tasks.ts";
import { whole } from "../kit/flags.ts";
import { findFreePort } from "../kit/free-port.ts";
import { sendTimes } from "../kit/load.ts";
import { mainThreadMs, processUsage } from "../kit/processes.ts";
import { requestText, servedText } from "../kit/request.ts";
import { factTable } from "../kit/text-table.ts";

// Numbers that were read from the database are used for so long: each scrape has them read anew.
const SAMPLE_MS = 5000;
const TASK = JSON.stringify([{ type: "echo", input: 1 }]);
const COUNTED_ROUNDS = 200_000;
const ROUNDS_A_TURN = 100;
const UNCOUNTED = 3;

export const command = defineCommand({
  about: `What metrics cost: a scrape while the database holds many tasks, and what is counted for each task, beside all that the
main thread does for it. Both are the processor time of a thread, which other work on the machine does not lengthen much.`,
  flags: {
    tasks: whole("tasks in the file before", 1_000_000),
    scrapes: whole("scrapes, one each 5 s", 12),
    posts: whole("requests of one task, one after the other", 5000),
  },
  async run({ tasks, scrapes, posts }, { place, print }) {
    const metrics = `http://127.0.0.1:${await findFreePort()}/metrics`;
    const { host } = new URL(metrics);
    const file = await createDaemonFile(place, { more: `[metrics]\nlisten = "${host}"\n` });
    await using daemon = await startDaemon(file);
    await fillDatabase({ file, daemon, tasks });
    const scrape = await measureScrapes(daemon, { url: metrics, times: scrapes });
    const request = requestText("POST /v1/tasks/task_post", {
      secret: file.account.key,
      body: TASK,
    });
    const before = mainThreadMs(daemon.pid);
    await sendTimes(posts, { port: daemon.port, request }, servedText);
    const taskMicros = ((mainThreadMs(daemon.pid) - before) * 1000) / posts;
    const countedMicros = await measureCounting();
    await daemon.stop();
    print(
      factTable([
        ["tasks in the database", tasks],
        ["a scrape, until its answer is read, ms (median)", scrape.answerMs.toFixed(2)],
        ["of the main thread, ms (median)", scrape.mainMs.toFixed(2)],
        ["of the whole process, ms (mean)", scrape.allMs.toFixed(1)],
        ["a task, of the main thread, µs", taskMicros.toFixed(1)],
        ["what is counted for it, µs", countedMicros.toFixed(2)],
        ["part of it, %", ((100 * countedMicros) / taskMicros).toFixed(1)],
      ]),
    );
  },
});

async function measureScrapes(
  { pid }: DaemonProcess,
  { url, times }: { readonly url: string; readonly times: number },
) {
  const [answers, mains]: [number[], number[]] = [[], []];
  let cpuBefore = 0;
  for (let i = 0; i < UNCOUNTED + times; i++) {
    await sleep(SAMPLE_MS);
    if (i === UNCOUNTED) cpuBefore = processUsage(pid).cpuSeconds;
    const [start, before] = [performance.now(), mainThreadMs(pid)];
    await (await fetch(url)).text();
    if (i < UNCOUNTED) continue;
    answers.push(performance.now() - start);
    mains.push(mainThreadMs(pid) - before);
  }
  const allMs = ((processUsage(pid).cpuSeconds - cpuBefore) * 1000) / times;
  return { answerMs: median(answers), mainMs: median(mains), allMs };
}

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** The time that it takes to count what happens for one task that is posted by itself and runs at once, in µs. */
async function measureCounting(): Promise<number> {
  const observer = guardObserver(new Meter(), SILENT);
  const one = (): void => {
    observer.request?.({ operation: "POST /v1/tasks/task_post", status: 200, ms: 2 });
    observer.post?.({ accepted: new Map([["echo", 1]]), refused: 0 });
    observer.start?.({ type: "echo", waitedMs: 1 });
    observer.run?.({ type: "echo", outcome: "completed", ms: 1 });
    observer.end?.({ type: "echo", state: "completed" });
    // Of the post, of the claim and of the end; where others come with them they share these.
    for (let i = 0; i < 3; i++) observer.commit?.({ operations: 1, ms: 1 });
  };
  const count = async (): Promise<void> => {
    for (let i = 0; i < COUNTED_ROUNDS; i++) {
      one();
      // What it leaves to later in the turn is part of it.
      if (i % ROUNDS_A_TURN === 0) await setImmediate();
    }
  };
  await count();
  const before = process.cpuUsage();
  await count();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / COUNTED_ROUNDS;
}
