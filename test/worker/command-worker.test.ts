import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { test, type TestContext } from "node:test";

import { hashKey, newWorkerToken } from "../../src/domain/account/key.ts";
import { systemClock } from "../../src/domain/clock/clock.ts";
import { createLogger } from "../../src/log.ts";
import { RUN_OF, pidNamespace } from "../../src/run/processes.ts";
import { workWithCommand } from "../../src/worker/command-worker.ts";

const skip = existsSync("/proc/self/environ") ? false : "this system has no /proc";

/** A process that an ended worker of this token has started in that namespace. */
async function startLeftover(t: TestContext, token: string, namespace: string) {
  const mark = `worker-${hashKey(token).slice(0, 16)}-${namespace}/1.1`;
  const env = { ...process.env, [RUN_OF]: mark };
  const child = spawn("sleep", ["1000"], { env, stdio: "ignore", detached: true });
  t.after(() => child.kill("SIGKILL"));
  await once(child, "spawn");
  return child;
}

test("a worker ends the leftover processes of its token, except processes of another container", async (t) => {
  if (skip !== false) return t.skip(skip);
  const { key: token } = newWorkerToken();
  const left = await startLeftover(t, token, pidNamespace());
  const ended = once(left, "exit");
  const foreign = await startLeftover(t, token, "1");
  const plan = {
    url: new URL("http://127.0.0.1:1/"),
    token,
    types: ["x"],
    concurrency: 1,
    command: ["true"] as const,
    cwd: process.cwd(),
    timeoutMs: 1000,
    resultBytesMax: 1000,
  };
  const end = await workWithCommand(plan, {
    clock: systemClock,
    log: createLogger({ level: "silent", format: "json" }),
    stop: AbortSignal.abort(),
    graceMs: 0,
    onReady: () => {},
  });
  assert.deepEqual(end, { kind: "stopped" });
  assert.deepEqual(await ended, [null, "SIGKILL"]);
  assert.deepEqual([foreign.exitCode, foreign.signalCode], [null, null]);
  assert.ok(foreign.kill(0));
});
