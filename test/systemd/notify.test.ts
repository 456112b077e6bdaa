import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { createTestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { taskClient } from "../helpers/task-client.ts";
import { areAtHand } from "../peers/peer-process.ts";

const SOCKET = fileURLToPath(new URL("../fixtures/systemd/notify-socket.py", import.meta.url));

const NEEDED = [
  { program: "python3", debianPackage: "python3" },
  { program: "systemd-notify", debianPackage: "systemd" },
];

/** Listens as a service manager. Returns a function that reads the next message. */
async function listen(t: TestContext, path: string): Promise<() => Promise<string>> {
  const child = spawn("python3", [SOCKET, path], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    const { value, done } = await lines.next();
    return done === true ? assert.fail("the socket was closed") : String(JSON.parse(value));
  };
  assert.equal(await next(), "listening");
  return next;
}

/** The next message that is not of the watchdog. */
async function nextOf(next: () => Promise<string>): Promise<string> {
  for (;;) {
    const message = await next();
    if (message !== "WATCHDOG=1") return message;
  }
}

for (const kind of ["of a path", "that is abstract"]) {
  test(`a service manager's socket ${kind} gets READY, WATCHDOG and STOPPING`, async (t) => {
    if (!areAtHand(t, NEEDED)) return;
    const cwd = temporaryFolder(t);
    const socket = kind === "of a path" ? join(cwd, "notify") : `@postbackd-${randomUUID()}`;
    const next = await listen(t, socket);
    const env = { NOTIFY_SOCKET: socket, WATCHDOG_USEC: "200000" };

    const program = startProgram(t, ["start", "--port", "0"], { cwd, env });
    const ready = await next();
    const alive = [await next(), await next()];
    program.kill("SIGTERM");
    const last = await nextOf(next);

    assert.equal(ready, `READY=1\nSTATUS=Serving at ${(await program.ready).url}`);
    assert.deepEqual(alive, ["WATCHDOG=1", "WATCHDOG=1"]);
    assert.equal(last, "STOPPING=1\nSTATUS=Stopping after the work under way");
    assert.equal((await program.exit).code, 0);
    assert.doesNotMatch(program.stderr, /systemd/);
  });
}

test("commands do not inherit the variables of the service manager", async (t) => {
  const cwd = temporaryFolder(t);
  const command = JSON.stringify(["sh", "-c", "env | grep -E '^(NOTIFY|WATCHDOG)' || echo none"]);
  writeFileSync(join(cwd, "postbackd.toml"), `[types.env]\ncommand = ${command}\n`);
  const { key } = await createTestAccount(join(cwd, "postbackd.db"));
  const env = { NOTIFY_SOCKET: join(cwd, "nobody"), WATCHDOG_USEC: "1000000000" };
  const program = startProgram(t, ["start", "--port", "0"], { cwd, env });
  const { url } = await program.ready;
  const client = taskClient({ url, key });

  const { result } = await client.ended(await client.post({ type: "env" }));

  assert.equal(result, "none");
  // The daemon serves without a listener at the socket.
  await program.says("systemd");
});
