import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";

import { version } from "../../src/assets.ts";
import { createTestAccount } from "../helpers/daemon.ts";
import { runProgram, SOURCES, startProgram, temporaryFolder } from "../helpers/program.ts";
import type { Program } from "../helpers/program.ts";
import { makeDatabase } from "../helpers/store.ts";
import { runHere } from "./in-process.ts";

const START = ["start", "--port", "0"];

function modeOf(folder: string, file: string): number {
  return statSync(join(folder, file)).mode & 0o777;
}

/** The log entries. */
function logOf({ stderr }: Program): readonly Readonly<Record<string, unknown>>[] {
  return stderr
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
}

test("start writes the ready line, keeps its files to the owner, and stops with 0 at SIGINT", async (t) => {
  const daemon = startProgram(t, [...START, "--ready-file", "ready.json"]);
  const ready = await daemon.ready;

  const response = await fetch(`${ready.url}/readyz`);
  for (const suffix of ["", "-wal", "-shm", ".lock"]) {
    assert.equal(modeOf(daemon.cwd, `postbackd.db${suffix}`), 0o600, suffix);
  }
  assert.equal(modeOf(daemon.cwd, "ready.json"), 0o600);
  assert.equal(readFileSync(join(daemon.cwd, "ready.json"), "utf8"), daemon.stdout);
  const second = await runProgram(t, [...START, "--ready-file", "ready.json"], { cwd: daemon.cwd });
  assert.deepEqual([second.code, second.stdout], [1, ""]);
  assert.ok(second.stderr.includes(`process ${ready.pid} at ${ready.url}`), second.stderr);
  assert.equal(readFileSync(join(daemon.cwd, "ready.json"), "utf8"), daemon.stdout);
  daemon.kill("SIGINT");

  assert.deepEqual(await daemon.exit, { code: 0, signal: null });
  assert.equal(logOf(daemon).at(-1)?.["msg"], "stopped");
  assert.equal(existsSync(join(daemon.cwd, "ready.json")), false);
  assert.equal(response.status, 200);
  assert.equal(daemon.stdout, `${JSON.stringify(ready)}\n`);
  assert.deepEqual(ready, {
    event: "ready",
    url: `http://127.0.0.1:${ready.port}`,
    port: ready.port,
    pid: daemon.pid,
    db: join(daemon.cwd, "postbackd.db"),
    version,
  });
});

test("a second signal stops the daemon and its commands immediately", async (t) => {
  const cwd = temporaryFolder(t);
  const server = createServer().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const hold = [process.execPath, "-e", `require("net").connect(${port}, "127.0.0.1")`];
  writeFileSync(join(cwd, "postbackd.toml"), `[types.hold]\ncommand = ${JSON.stringify(hold)}\n`);
  const { key } = await createTestAccount(join(cwd, "postbackd.db"));
  const daemon = startProgram(t, START, { cwd });
  const { url } = await daemon.ready;
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const connection = once(server, "connection");
  const post = { method: "POST", headers, body: "[{}]" };
  assert.equal((await fetch(`${url}/v1/tasks/task_post`, post)).status, 200);
  const [command] = (await connection) as [Socket];
  const commandEnd = once(command.resume(), "close");

  daemon.kill("SIGTERM");
  await daemon.says("stopping");
  daemon.kill("SIGINT");

  assert.deepEqual(await daemon.exit, { code: 130, signal: null });
  await commandEnd;
});

test("start exits with 1 without a database if it cannot listen or write the ready file", async (t) => {
  const server = createServer().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const foreign = temporaryFolder(t);
  writeFileSync(join(foreign, "x.db"), "this is no database".repeat(100));

  for (const [words, reason] of [
    [`--port ${port}`, new RegExp(`127\\.0\\.0\\.1 port ${port}: .*EADDRINUSE`)],
    [`--port 0 --metrics 127.0.0.1:${port}`, /metrics on 127\.0\.0\.1:\d+: .*EADDRINUSE/],
    ["--port 0 --host 192.0.2.1 --insecure-http", /192\.0\.2\.1 port 0: .*EADDRNOTAVAIL/],
    ["--port 0 --db no-such-folder/x.db", /no-such-folder\/x\.db/],
    [`--port 0 --db ${join(foreign, "x.db")}`, /x\.db is not a database/],
  ] as const) {
    const cwd = temporaryFolder(t);
    const { code, stdout, stderr } = await runHere(t, ["start", ...words.split(" ")], { cwd });
    assert.deepEqual([code, stdout], [1, ""], words);
    assert.match(stderr, reason);
    assert.doesNotMatch(stderr, /\n +at /);
    assert.equal(existsSync(join(cwd, "postbackd.db")), false);
  }
  const unwritable = await runProgram(t, [...START, "--ready-file", "no-such-folder/ready.json"]);
  assert.deepEqual([unwritable.code, unwritable.stdout], [1, ""]);
  assert.match(unwritable.stderr, /ready\.json/);
});

test("start refuses a damaged database, and names the restore", async (t) => {
  const cwd = temporaryFolder(t);
  const file = join(cwd, "postbackd.db");
  await makeDatabase(file);
  const bytes = readFileSync(file);
  // The head of the page with the list of tables.
  bytes.write("garbage", 100);
  writeFileSync(file, bytes);

  const { code, stderr } = await runHere(t, START, { cwd });

  assert.equal(code, 1);
  assert.match(stderr, /postbackd\.db .*damaged.*backup restore/);
  assert.deepEqual(readFileSync(file), bytes);
});

test("start warns of each setting that removes a protection", async (t) => {
  const daemon = startProgram(
    t,
    [...START, "--allow-target", "127.0.0.1:9", "--allow-target", "a.lan", "--insecure-http"],
    { env: { NODE_TLS_REJECT_UNAUTHORIZED: "0" } },
  );
  await daemon.ready;

  const warnings = logOf(daemon).filter(({ level }) => level === "warn");
  assert.deepEqual(
    warnings.slice(0, 2).map(({ target }) => target),
    ["127.0.0.1:9", "a.lan"],
  );
  assert.match(String(warnings[2]?.["msg"]), /insecure_http/);
  assert.match(String(warnings[3]?.["msg"]), /^NODE_TLS_REJECT_UNAUTHORIZED=0 /);
});

test("start logs a new database, how to make an account while none exists, and no link", async (t) => {
  const first = startProgram(t, START);
  const { cwd } = first;
  const { db } = await first.ready;
  await first.stop();
  await createTestAccount(db);
  const second = startProgram(t, START, { cwd });
  await second.ready;

  assert.ok(logOf(first).some(({ msg }) => String(msg).endsWith(`LOGIN --db ${db}`)));
  assert.equal(logOf(first).filter(({ level, file }) => level === "warn" && file === db).length, 1);
  assert.doesNotMatch(first.stderr, /link=/);
  assert.deepEqual(
    logOf(second).map(({ msg }) => msg),
    ["ready"],
  );
});

test("the daemon goes on after SIGUSR1, which opens no debugger, and after its output is closed", async (t) => {
  const daemon = startProgram(t, START);
  const { url } = await daemon.ready;

  daemon.kill("SIGUSR1");
  // Node handles signals before requests.
  await fetch(`${url}/livez`);
  assert.doesNotMatch(daemon.stderr, /Debugger/);
  daemon.closeOutput();
  // The first write gets the error, and the second would end the process.
  daemon.kill("SIGHUP");
  await fetch(`${url}/livez`);
  daemon.kill("SIGHUP");

  assert.equal((await fetch(`${url}/livez`)).status, 200);
  assert.deepEqual(await daemon.stop(), { code: 0, signal: null });
});

test("an unhandled fault is logged once and ends the daemon with 1", async (t) => {
  const fault = 'process.on("SIGUSR2", () => void Promise.reject(new Error("boom")))';
  const daemon = startProgram(t, START, {
    env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(fault)}` },
  });
  await daemon.ready;

  daemon.kill("SIGUSR2");

  assert.deepEqual(await daemon.exit, { code: 1, signal: null });
  const errors = logOf(daemon).filter(({ level }) => level === "error");
  assert.equal(errors.length, 1);
  assert.match(JSON.stringify(errors[0]), /boom/);
});

/** A file system of 4 MiB with a database and so many free pages. */
const FULL_DISK = `mount -t tmpfs -o size=4m none "$0"
cd "$0"
"$2" "$3" admin account create acme >made
head -c 4m /dev/zero >filling 2>/dev/null || truncate -s "-$(($1 * 4096))" filling
shift
exec "$@"`;
const UNSHARE = ["unshare", "--map-root-user", "--mount"] as const;
const noMounts = spawnSync(UNSHARE[0], [...UNSHARE.slice(1), "true"]).status !== 0;

test(
  "start on a full disk serves, or fails with one line",
  { skip: noMounts && "unshare is not allowed" },
  async (t) => {
    for (const left of ["8", "10", "12"]) {
      const command = [
        ...UNSHARE,
        "sh",
        "-uc",
        FULL_DISK,
        temporaryFolder(t),
        left,
        ...SOURCES,
      ] as const;
      const daemon = startProgram(t, ["start", "--port", "0"], { command });
      const served = await daemon.ready.then(
        () => true,
        () => false,
      );
      if (served) await daemon.stop();
      else assert.equal((await daemon.exit).code, 1);
      assert.doesNotMatch(daemon.stderr, /\n {4}at /);
      const lines = daemon.stderr.split("\n").filter((line) => line.startsWith("postbackd: "));
      assert.equal(lines.length, served ? 0 : 1, daemon.stderr);
      for (const line of lines) assert.match(line, /postbackd\.db .*free space/);
    }
  },
);
