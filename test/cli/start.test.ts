import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";

import { version } from "../../src/assets.ts";
import { runProgram, SOURCES, startProgram, temporaryFolder } from "../helpers/program.ts";
import type { Program } from "../helpers/program.ts";
import { areAtHand } from "../peers/peer-process.ts";

const START = ["start", "--port", "0"];

function modeOf(folder: string, file: string): number {
  return statSync(join(folder, file)).mode & 0o777;
}

/** The messages that were logged, each with its facts. */
function logOf({ stderr }: Program): readonly Readonly<Record<string, unknown>>[] {
  return stderr
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
}

test("at a terminal a start says where the API is described", async (t) => {
  if (!areAtHand(t, [{ program: "script", debianPackage: "bsdutils" }])) return;
  const line = [...SOURCES, ...START].map((part) => `'${part}'`).join(" ");
  const terminal = startProgram(t, ["-qefc", line, "/dev/null"], { command: ["script"] });
  const { url, pid } = await terminal.ready;

  process.kill(pid, "SIGTERM");
  assert.equal((await terminal.exit).code, 0);
  assert.ok(terminal.stdout.includes(`API reference: ${url}/docs\r\n`), terminal.stdout);
});

test("prints one line of JSON when it is ready, and nothing else", async (t) => {
  const daemon = startProgram(t, START);
  const ready = await daemon.ready;

  const response = await fetch(`${ready.url}/readyz`);
  const { code } = await daemon.stop();

  assert.equal(response.status, 200);
  assert.equal(code, 0);
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

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`stops with 0 at ${signal}`, async (t) => {
    const daemon = startProgram(t, START);
    await daemon.ready;

    daemon.kill(signal);

    assert.deepEqual(await daemon.exit, { code: 0, signal: null });
    assert.equal(logOf(daemon).at(-1)?.["msg"], "stopped");
  });
}

test("stops at once at a second signal, and takes running commands along", async (t) => {
  const cwd = temporaryFolder(t);
  const server = createServer().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const hold = [process.execPath, "-e", `require("net").connect(${port}, "127.0.0.1")`];
  writeFileSync(join(cwd, "postbackd.toml"), `[types.hold]\ncommand = ${JSON.stringify(hold)}\n`);
  const account = await runProgram(t, ["admin", "account", "create", "alice", "--json"], { cwd });
  const { key } = JSON.parse(account.stdout) as { readonly key: { readonly key: string } };
  const daemon = startProgram(t, START, { cwd });
  const { url } = await daemon.ready;
  const headers = { authorization: `Bearer ${key.key}`, "content-type": "application/json" };
  const connection = once(server, "connection");
  const post = { method: "POST", headers, body: "[{}]" };
  assert.equal((await fetch(`${url}/v1/tasks/task_post`, post)).status, 200);
  const [command] = (await connection) as [Socket];
  const commandEnd = once(command.resume(), "close");

  daemon.kill("SIGTERM");
  await daemon.says("stopping after the work under way");
  daemon.kill("SIGINT");

  assert.deepEqual(await daemon.exit, { code: 130, signal: null });
  await commandEnd;
});

test("goes on after SIGHUP", async (t) => {
  const daemon = startProgram(t, START);
  const { url } = await daemon.ready;

  daemon.kill("SIGHUP");
  await daemon.says("configuration reloaded");

  assert.equal((await fetch(`${url}/livez`)).status, 200);
});

test("keeps all its files to its owner, whatever the umask", async (t) => {
  const daemon = startProgram(t, [...START, "--ready-file", "ready.json"]);
  await daemon.ready;

  for (const suffix of ["", "-wal", "-shm", ".lock"]) {
    assert.equal(modeOf(daemon.cwd, `postbackd.db${suffix}`), 0o600, suffix);
  }
  assert.equal(modeOf(daemon.cwd, "ready.json"), 0o600);
});

test("writes the ready line to the ready file, and takes the file away when it stops", async (t) => {
  const daemon = startProgram(t, [...START, "--ready-file", "ready.json"]);
  await daemon.ready;
  const file = join(daemon.cwd, "ready.json");

  assert.equal(readFileSync(file, "utf8"), daemon.stdout);
  await daemon.stop();
  assert.equal(existsSync(file), false);
});

test("exits with 1 when the ready file cannot be written", async (t) => {
  const finished = await runProgram(t, [...START, "--ready-file", "no-such-folder/ready.json"]);

  assert.equal(finished.code, 1);
  assert.equal(finished.stdout, "");
  assert.match(finished.stderr, /^postbackd: the ready file .*ready\.json cannot be written: /m);
});

test("refuses a second instance on the same file and names the first", async (t) => {
  const first = startProgram(t, [...START, "--ready-file", "ready.json"]);
  const { cwd } = first;
  const { pid, url } = await first.ready;

  const second = await runProgram(t, [...START, "--ready-file", "ready.json"], { cwd });

  assert.equal(second.code, 1);
  assert.equal(second.stdout, "");
  assert.ok(second.stderr.includes(`is already served by process ${pid} at ${url}`), second.stderr);
  assert.equal(readFileSync(join(cwd, "ready.json"), "utf8"), first.stdout);
});

test("starts again on a file whose daemon was killed", async (t) => {
  const first = startProgram(t, START);
  const { cwd } = first;
  await first.ready;
  first.kill("SIGKILL");
  await first.exit;

  const second = startProgram(t, START, { cwd });

  assert.equal((await second.ready).pid, second.pid);
});

test("exits with 1 when the port is taken, and makes no database", async (t) => {
  const server = createServer().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  const cwd = temporaryFolder(t);
  const { code, stdout, stderr } = await runProgram(t, ["start", "--port", `${port}`], { cwd });

  assert.deepEqual([code, stdout], [1, ""]);
  const message = `postbackd: cannot listen on 127.0.0.1 port ${port}: another program listens there (EADDRINUSE)`;
  assert.ok(stderr.includes(message), stderr);
  assert.equal(existsSync(join(cwd, "postbackd.db")), false);
});

test("exits with 1 when the port of metrics is taken, and makes no database", async (t) => {
  const server = createServer().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const cwd = temporaryFolder(t);
  const words = [...START, "--metrics", `127.0.0.1:${port}`];

  const { code, stderr } = await runProgram(t, words, { cwd });

  assert.equal(code, 1);
  assert.match(stderr, /cannot serve metrics on 127\.0\.0\.1:\d+: .*EADDRINUSE.*--metrics/);
  assert.equal(existsSync(join(cwd, "postbackd.db")), false);
});

test("says that an address is not this machine's, and makes no database", async (t) => {
  const cwd = temporaryFolder(t);
  const words = ["start", "--host", "192.0.2.1", "--port", "0", "--insecure-http"];
  const { code, stderr } = await runProgram(t, words, { cwd });

  assert.equal(code, 1);
  assert.match(stderr, /192\.0\.2\.1 port 0: that is no address of this machine \(EADDRNOTAVAIL\)/);
  assert.equal(existsSync(join(cwd, "postbackd.db")), false);
});

test("exits with 1 when the database's folder does not exist", async (t) => {
  const { code, stderr } = await runProgram(t, [...START, "--db", "no-such-folder/x.db"]);

  assert.equal(code, 1);
  assert.match(
    stderr,
    /^postbackd: .*no-such-folder\/x\.db cannot be opened: the folder .* does not exist; make it/,
  );
});

test("exits with 1 when the database is another program's", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.db"), "this is no database".repeat(100));

  const { code, stderr } = await runProgram(t, START, { cwd });

  assert.equal(code, 1);
  assert.match(stderr, /^postbackd: \/.*postbackd\.db is not a database; name another file/);
  assert.doesNotMatch(stderr, /\n +at /, "no stack");
});

test("exits with 1 when the database is damaged where it begins, and says how a copy takes its place", async (t) => {
  const cwd = temporaryFolder(t);
  await runProgram(t, ["admin", "account", "create", "alice"], { cwd });
  const file = join(cwd, "postbackd.db");
  const bytes = readFileSync(file);
  // The head of the page that says which tables there are.
  bytes.write("garbage", 100);
  writeFileSync(file, bytes);

  const { code, stderr } = await runProgram(t, START, { cwd });

  assert.equal(code, 1);
  assert.match(stderr, /postbackd\.db cannot be opened: the database file is damaged \(/);
  assert.match(stderr, /postbackd backup restore COPY/);
  assert.deepEqual(readFileSync(file), bytes);
});

test("exits with 78 and names every problem of every source", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), 'databse = "x.db"\n[webhooks]\ntimeout = 10\n');

  const env = { POSTBACKD_HOTS: "::1", POSTBACKD_PORT: "99999" };
  const finished = await runProgram(t, ["start"], { cwd, env });

  assert.equal(finished.code, 78);
  assert.equal(finished.stdout, "");
  const lines = finished.stderr.split("\n");
  assert.equal(lines.length, 5, finished.stderr);
  assert.match(lines[0] ?? "", /^postbackd: environment POSTBACKD_HOTS: .*POSTBACKD_HOST/);
  assert.match(
    lines[1] ?? "",
    /^postbackd: file .*postbackd\.toml, line 1: .*databse.* is database$/,
  );
  assert.match(lines[2] ?? "", /^postbackd: environment POSTBACKD_PORT: /);
  assert.match(lines[3] ?? "", /^postbackd: file .*webhooks\.timeout needs a unit/);
  assert.equal(existsSync(join(cwd, "postbackd.db")), false);
});

test("exits with 2 when a flag of a setting has a value that it cannot have", async (t) => {
  for (const [words, reason] of [
    [["--port", "x"], "--port must be a whole number from 0 to 65535"],
    [["--no-dashboard=maybe"], "--no-dashboard takes no value but true and false"],
    [["--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "x"], "--trusted-proxy item 1 must be"],
  ] as const) {
    const { code, stdout, stderr } = await runProgram(t, ["start", ...words]);
    assert.deepEqual([code, stdout], [2, ""]);
    assert.ok(stderr.startsWith(`postbackd: ${reason}`), stderr);
    assert.ok(stderr.endsWith("\nTry 'postbackd start --help'.\n"), stderr);
  }
});

test("exits with 78 when it would serve plain HTTP beyond loopback", async (t) => {
  const { code, stderr } = await runProgram(t, [...START, "--host", "0.0.0.0"]);

  assert.equal(code, 78);
  assert.match(stderr, /^postbackd: flag --host: .*--trusted-proxy.*--insecure-http/);
});

test("takes settings from flags before variables before the file", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "other.toml"), 'database = "file.db"\nport = 99\n');
  const env = { POSTBACKD_CONFIG: "other.toml", POSTBACKD_PORT: "98" };

  const daemon = startProgram(t, START, { cwd, env });

  const { db, port } = await daemon.ready;
  assert.equal(db, join(cwd, "file.db"));
  assert.ok(port > 1024);
});

test("warns of everything that takes protection away, each by its name", async (t) => {
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

test("says how to make an account while there is none", async (t) => {
  const first = startProgram(t, START);
  const { cwd } = first;
  const { db } = await first.ready;
  await first.stop();
  await runProgram(t, ["admin", "account", "create", "alice"], { cwd });
  const second = startProgram(t, START, { cwd });
  await second.ready;

  const hint = `make one with: postbackd admin account create LOGIN --db ${db}`;
  assert.ok(logOf(first).some(({ msg }) => String(msg).endsWith(hint)));
  assert.deepEqual(
    logOf(second).map(({ msg }) => msg),
    ["ready"],
  );
});

test("serves on when nobody reads what it writes", async (t) => {
  const daemon = startProgram(t, START);
  const { url } = await daemon.ready;

  daemon.closeOutput();
  // Two, because the first write finds out that nobody reads and the second meets the consequence.
  daemon.kill("SIGHUP");
  await fetch(`${url}/livez`);
  daemon.kill("SIGHUP");

  assert.equal((await fetch(`${url}/livez`)).status, 200);
  assert.deepEqual(await daemon.stop(), { code: 0, signal: null });
});

test("logs a fault that nothing handles once and exits with 1", async (t) => {
  const fault = 'process.on("SIGUSR2", () => void Promise.reject(new Error("boom")))';
  const daemon = startProgram(t, START, {
    env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(fault)}` },
  });
  await daemon.ready;

  daemon.kill("SIGUSR2");

  assert.deepEqual(await daemon.exit, { code: 1, signal: null });
  const errors = logOf(daemon).filter(({ level }) => level === "error");
  assert.equal(errors.length, 1);
  assert.match(JSON.stringify(errors[0]), /boom.*an unhandled error/);
});

/** A file system of 4 MiB with a database, and with so many pages left. */
const FULL_DISK = `mount -t tmpfs -o size=4m none "$0"
cd "$0"
"$2" "$3" admin account create acme >made
head -c 4m /dev/zero >filling 2>/dev/null || truncate -s "-$(($1 * 4096))" filling
shift
exec "$@"`;
const UNSHARE = ["unshare", "--map-root-user", "--mount"] as const;
const noMounts = spawnSync(UNSHARE[0], [...UNSHARE.slice(1), "true"]).status !== 0;

test(
  "on a full disk start serves, or says in one line what to do",
  { skip: noMounts && "unshare is not allowed" },
  async (t) => {
    for (const left of ["8", "9", "10", "11", "12"]) {
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
