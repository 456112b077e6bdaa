import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, watch, writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { withOwnTargets } from "../../src/dev/greeting.ts";
import { mintKey, newWebhookSecret } from "../../src/domain/account/key.ts";
import { EMPTY_ALLOW_LIST } from "../../src/domain/address/allow-list.ts";
import { IdGenerator } from "../../src/domain/id.ts";
import { judgeWebhookUrl } from "../../src/domain/webhook/webhook-url.ts";
import { isThere, untilGone } from "../helpers/process.ts";
import { runProgram, SOURCES, startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { startDevProgram, type DevReady } from "./dev-client.ts";

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

test("--key and --webhook-secret set the key and the secret of the account", async (t) => {
  const [key, secret] = [newKey(), newWebhookSecret()];
  const daemon = await startDevProgram(t, "--key", key, "--webhook-secret", secret);
  await daemon.post({ postback_url: `${daemon.ready.url}/inbox/dev` });
  const [message] = await daemon.look("dev?wait=10");

  assert.deepEqual([daemon.ready.key, daemon.ready.webhook_secret], [key, secret]);
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

test("the ready line has everything that a test needs", async (t) => {
  const { ready } = await startDevProgram(t);

  assert.deepEqual(
    [ready.event, ready.mode, ready.account, ready.worker_token],
    ["ready", "dev", "dev", null],
  );
  assert.match(ready.key, /^pbd_live_/);
  assert.match(ready.webhook_secret, /^whsec_/);
  assert.equal(ready.inbox_url, `${ready.url}/inbox/dev`);
  assert.ok(ready.dashboard_url?.startsWith(ready.url));
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
