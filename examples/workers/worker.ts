// A worker that sleeps as long as each task says. Node 24, nothing to install:
// POSTBACKD_URL=https://tasks.example.com POSTBACKD_TOKEN=pbd_work_... node worker.ts
import { setTimeout } from "node:timers/promises";

const { POSTBACKD_URL: url = "http://127.0.0.1:8787", POSTBACKD_TOKEN: token } = process.env;
const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
const BEAT_MS = 1000 * Number(process.env["BEAT_SECONDS"] ?? 10); // a third of the type's lease
type Task = { id: string; lease_id: string; input: { seconds: number }; outcome: string };

// Your own work; `signal` is aborted when nobody wants its result any more.
async function work({ seconds }: Task["input"], signal: AbortSignal): Promise<unknown> {
  return setTimeout(seconds * 1000, { slept: seconds }, { signal });
}
// Asks until there is an answer: the daemon may restart at any time.
async function ask(operation: string, body: object): Promise<readonly Task[]> {
  const post = { method: "POST", headers, body: JSON.stringify(body) };
  for (; ; await setTimeout(1000)) {
    const answer = await fetch(`${url}/v1/worker/${operation}`, post).catch(console.error);
    const text = await answer?.text().catch(console.error);
    if (answer?.ok && text) return (JSON.parse(text) as { tasks: Task[] }).tasks;
    if (answer && [400, 401, 403, 404, 413].includes(answer.status)) throw new Error(String(text));
  }
}
for (;;) {
  const tasks = await ask("claim", { types: ["sleep"], max: 1, wait_seconds: 30 });
  for (const { id, lease_id, input } of tasks) {
    const over = new AbortController();
    const beat = setInterval(() => {
      const told = ask("heartbeat", { leases: [{ id, lease_id }] });
      void told.then(([lease]) => lease?.outcome === "ok" || over.abort());
    }, BEAT_MS); // without it the lease runs out, and another worker gets the task
    const [operation, end] = await work(input, over.signal)
      .then((result) => ["complete", { result }] as const)
      .catch((error: unknown) => ["fail", { message: String(error) }] as const);
    await ask(operation, { tasks: [{ id, lease_id, ...end }] }); // again is safe: it ends once
    clearInterval(beat);
  }
  if (tasks.length === 0) await setTimeout(1000); // a daemon that stops answers at once
}
