import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, existsSync, readFileSync, readdirSync, watch, writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";

import Database from "better-sqlite3";

import { withOwnTargets } from "../../src/dev/greeting.ts";
import { mintKey, newWebhookSecret } from "../../src/domain/account/key.ts";
import { EMPTY_ALLOW_LIST } from "../../src/domain/address/allow-list.ts";
import { IdGenerator } from "../../src/domain/id.ts";
import { judgeWebhookUrl } from "../../src/domain/webhook/webhook-url.ts";
import { isThere, untilGone } from "../helpers/process.ts";
import { SOURCES, runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { reasonToSkipTerminal, startOnTerminal } from "../helpers/terminal.ts";
import { type DevReady, type ShownBody, startDevProgram } from "./dev-client.ts";

const newKey = (): string => mintKey({ label: null, createdAt: 0 }, new IdGenerator()).key;

const KEY = newKey();
for (const [flag, value] of [
  ["--key", "secret"],
  ["--key", KEY.slice(0, -1) + (KEY.endsWith("0") ? "1" : "0")],
  ["--webhook-secret", "whsec_short"],
  // dev sends no events, and a database on a server cannot be thrown away.
  ["--events-url", "https://ops.example.com/"],
  ["--db", "postgres://u:p@localhost:5432/x"],
] as const) {
  test(`dev refuses ${flag} ${value}, and creates nothing`, async (t) => {
    const folder = temporaryFolder(t);
    const { code, stderr } = await runProgram(t, ["dev", "--port", "0", flag, value], {
      env: { TMPDIR: folder },
    });

    assert.notEqual(code, 0);
    assert.ok(stderr.includes(flag), stderr);
    if (flag !== "--events-url" && flag !== "--db") assert.ok(!stderr.includes(value), stderr);
    assert.deepEqual(readdirSync(folder), []);
  });
}

test("the ready line has all that a test needs, with the key and secret of the flags", async (t) => {
  const [key, secret] = [newKey(), newWebhookSecret()];
  const daemon = await startDevProgram(t, "--key", key, "--webhook-secret", secret);
  await daemon.post({ postback_url: `${daemon.ready.url}/inbox/dev` });
  const [message] = await daemon.look("dev?wait=10");

  const { ready } = daemon;
  assert.deepEqual([ready.key, ready.webhook_secret], [key, secret]);
  const { event, mode, account, worker_token: token } = ready;
  assert.deepEqual([event, mode, account, token], ["ready", "dev", "dev", null]);
  assert.equal(ready.inbox_url, `${ready.url}/inbox/dev`);
  assert.ok(ready.dashboard_url?.startsWith(ready.url));
  assert.equal(message?.signature.verdict, "valid");
  assert.equal((await daemon.ask("GET /v1/appendix/user_data")).webhook_secret, secret);
});

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === "::1"),
);

for (const [host, skip] of [
  ["0.0.0.0", false],
  ["::", !hasIpv6],
] as const) {
  test(`on ${host} the inboxes of dev receive webhooks`, { skip }, async (t) => {
    const flags = ["--clock", "real", "--host", host, "--insecure-http"];
    const { ask, look, post, ready } = await startDevProgram(t, ...flags);
    const { inbox_url: alices = "" } = await ask("POST /dev/accounts", { login: "alice" });

    await post({ postback_url: ready.inbox_url }, { postback_url: alices });

    for (const box of ["dev", "alice"]) {
      const [message] = await look(`${box}?count=1&wait=10`);
      assert.equal(message?.signature.verdict, "valid");
    }
  });
}

test("webhooks may go to the address on which dev listens", () => {
  const webhooks = { allow: [], allowList: EMPTY_ALLOW_LIST };
  const { allowList: allow } = withOwnTargets({ host: "203.0.113.7", webhooks }).webhooks;
  const policy = { allow, ownNames: [], ownAddresses: [] };

  assert.equal(judgeWebhookUrl("http://203.0.113.7:8787/inbox/dev", policy).kind, "allowed");
  assert.equal(judgeWebhookUrl("http://203.0.113.8:8787/inbox/dev", policy).kind, "refused");
  assert.doesNotThrow(() => withOwnTargets({ host: "fe80::1%eth0", webhooks }));
});

test("--strict-targets refuses a task with a receiver on this machine or a private network, unless allowed", async (t) => {
  const receiver = await startReceiver(t);
  const target = `127.0.0.1:${receiver.port}`;
  const { call } = await startDevProgram(t, "--strict-targets", "--allow-target", target);
  const urls = ["http://127.0.0.1:9/", "http://10.0.0.7/", "http://localhost:9/"];

  const tasks = [...urls, receiver.url("/a")].map((url) => ({ postback_url: url }));
  const { body } = await call("POST /v1/tasks/task_post", tasks);

  assert.deepEqual(
    body.tasks?.map((task) => task.status_code),
    [40501, 40501, 40501, 20100],
  );
  await receiver.waitFor(1);
});

/** Settles when the files of a folder satisfy the condition. */
async function until(folder: string, isRight: (files: readonly string[]) => boolean) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const look = (): void => {
    if (isRight(readdirSync(folder))) resolve();
  };
  const watcher = watch(folder, look);
  look();
  await promise;
  watcher.close();
}

test("with --keep the database outlives the daemon, which logs its path", async (t) => {
  const folder = temporaryFolder(t);
  const program = startProgram(t, ["dev", "--port", "0", "--keep"], { env: { TMPDIR: folder } });
  const { db } = await program.ready;
  assert.equal(dirname(dirname(db)), folder);
  assert.equal((await program.stop()).code, 0);

  assert.ok(existsSync(db));
  assert.ok(program.stderr.includes(db), program.stderr);
  const again = await startDevProgram(t, "--db", db);
  assert.equal(again.ready.account, "dev");
});

// Starts its arguments with a pipe for stdin, and does not end by itself.
const PARENT = `
  const [file, ...args] = process.argv.slice(1);
  require("node:child_process").spawn(file, args, { stdio: ["pipe", "inherit", "inherit"] });
`;

test("with --stop-with-stdin the kill of the parent ends daemon and command, and removes all files", async (t) => {
  const [temporary, folder] = [temporaryFolder(t), temporaryFolder(t)];
  const pids: number[] = [];
  // This hook runs before the hook of the program, which waits for all processes with its output.
  t.after(() => {
    for (const pid of pids.filter(isThere)) process.kill(pid, "SIGKILL");
  });
  const file = join(folder, "postbackd.toml");
  const script = 'echo $$ > "$0.new" && mv "$0.new" "$0" && exec sleep 600';
  const command = JSON.stringify(["sh", "-c", script, join(folder, "pid")]);
  writeFileSync(file, `[types.slow]\ncommand = ${command}\n`);
  const program = startProgram(t, ["dev", "--port", "0", "--stop-with-stdin", "--config", file], {
    env: { TMPDIR: temporary },
    command: [process.execPath, "-e", PARENT, ...SOURCES],
  });
  const ready = (await program.ready) as DevReady;
  pids.push(ready.pid);
  const headers = { authorization: `Bearer ${ready.key}`, "content-type": "application/json" };
  await fetch(`${ready.url}/v1/tasks/task_post`, { method: "POST", headers, body: "[{}]" });
  await until(folder, (files) => files.includes("pid"));
  pids.push(Number(readFileSync(join(folder, "pid"), "utf8")));
  assert.deepEqual(pids.map(isThere), [true, true]);

  program.kill("SIGKILL");
  // Settles when the daemon has ended too: it has the parent's output.
  await program.exit;

  await until(temporary, (files) => files.every((name) => !name.startsWith("postbackd-")));
  await untilGone(pids);
});

for (const signal of ["SIGTERM", "SIGKILL"] as const) {
  test(`after ${signal} nothing is left in the temporary folder`, async (t) => {
    const folder = temporaryFolder(t);
    const program = startProgram(t, ["dev", "--port", "0"], { env: { TMPDIR: folder } });
    const { db } = await program.ready;
    assert.ok(existsSync(db) && dirname(dirname(db)) === folder);

    program.kill(signal);
    await program.exit;

    // A process that watches the daemon removes the files after its end.
    await until(folder, (files) => files.every((name) => !name.startsWith("postbackd-")));
  });
}

const START = ["start", "--port", "0", "--db"];
const DEV = ["dev", "--port", "0", "--db"];

/** Asserts that dev refuses the file and changes nothing in it. */
async function assertRefused(t: TestContext, file: string): Promise<void> {
  const before = readFileSync(file);

  const { code, stderr } = await runProgram(t, [...DEV, file]);

  assert.equal(code, 1);
  assert.ok(stderr.includes("postbackd start"), stderr);
  assert.ok(readFileSync(file).equals(before));
}

test("start serves a file without a mark of its mode, as older versions left it, and dev refuses it then", async (t) => {
  const folder = temporaryFolder(t);
  const [file, copy] = [join(folder, "a.db"), join(folder, "b.db")];
  await runProgram(t, ["admin", "account", "create", "alice", "--db", file]);
  copyFileSync(file, copy);

  const real = startProgram(t, [...START, copy]);
  await real.ready;
  assert.equal((await real.stop()).code, 0);
  await assertRefused(t, copy);
});

test("dev refuses a file with accounts and another version of the schema", async (t) => {
  const file = join(temporaryFolder(t), "real.db");
  await runProgram(t, ["admin", "account", "create", "alice", "--db", file]);
  const connection = new Database(file);
  const version = Number(connection.pragma("user_version", { simple: true }));
  connection.pragma(`user_version = ${version - 1}`);
  connection.exec("DELETE FROM secrets");
  connection.pragma("wal_checkpoint(TRUNCATE)");
  connection.close();
  await assertRefused(t, file);
});

test("a file that dev created is served by dev again, and refused by start", async (t) => {
  const file = join(temporaryFolder(t), "tests.db");
  const dev = await startDevProgram(t, "--db", file);
  const [id = ""] = await dev.post({ input: 1 });
  await dev.ask(`GET /dev/wait/${id}`);
  assert.equal((await dev.program.stop()).code, 0);

  const { code, stderr } = await runProgram(t, [...START, file]);
  assert.equal(code, 1);
  assert.ok(stderr.includes("postbackd dev"), stderr);

  const again = await startDevProgram(t, "--db", file);
  assert.equal((await again.task(id)).state, "completed");
  await again.program.stop();
  assert.ok(existsSync(file));
});

const noTerminal = reasonToSkipTerminal();
const run = promisify(execFile);

/** Runs each command that a terminal shows at the start, and returns the responses. */
async function pasted(t: TestContext, { toml, flags, last }: Case): Promise<readonly ShownBody[]> {
  const file = join(temporaryFolder(t), "postbackd.toml");
  writeFileSync(file, toml);
  const args = ["dev", "--port", "0", "--config", file, ...flags];
  const program = startOnTerminal(t, args);
  await program.shows(`${last}\r\n`);
  const commands = program.shown.split("\r\n").filter((line) => line.startsWith("  curl "));
  const bodies: ShownBody[] = [];
  for (const command of commands) {
    const { stdout } = await run("sh", ["-c", command]);
    bodies.push(JSON.parse(stdout) as ShownBody);
  }
  return bodies;
}

interface Case {
  readonly toml: string;
  readonly flags: readonly string[];
  /** The end of the last command. */
  readonly last: string;
}

const TYPES = '[types.thumb]\nrunner = "worker"\n[types.copy]\nrunner = "echo"\n';

for (const [name, toml] of [
  ["the default type", ""],
  ["several types, the first of them for workers", TYPES],
] as const) {
  test(
    `the commands of the greeting post a task and read its webhook, with ${name}`,
    { skip: noTerminal },
    async (t) => {
      const [posted, inbox] = await pasted(t, { toml, flags: [], last: "wait=10'" });

      assert.equal(posted?.tasks?.[0]?.status_code, 20100);
      assert.equal(inbox?.messages?.[0]?.task_id, posted?.tasks?.[0]?.id);
      assert.equal(inbox?.messages?.[0]?.signature.verdict, "valid");
    },
  );
}

test(
  "with --strict-targets the greeting posts a task without the inbox",
  { skip: noTerminal },
  async (t) => {
    const given = { toml: TYPES, flags: ["--strict-targets"], last: "tasks_ready" };
    const [posted, ready] = await pasted(t, given);

    assert.deepEqual([posted?.tasks?.[0]?.status_code, ready?.status_code], [20100, 20000]);
  },
);
