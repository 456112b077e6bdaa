import assert from "node:assert/strict";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { readServedFile } from "../../src/store/sqlite/served-file.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runProgram, SOURCES, startProgram, temporaryFolder } from "../helpers/program.ts";
import { leaveOnlyWal, makeDatabase } from "../helpers/store.ts";
import { runHere } from "./in-process.ts";

interface Finding {
  readonly check: string;
  readonly verdict: "ok" | "warning" | "failed" | "skipped";
  readonly detail: string;
  readonly remedy: string | null;
}

function findingsOf(stdout: string): readonly Finding[] {
  return JSON.parse(stdout).findings;
}

/** Runs the doctor in a folder with a name server of the test. Returns `CHECK VERDICT` of each finding. */
async function examine(
  t: TestContext,
  cwd: string,
  {
    names = { "example.com": "93.184.216.34" },
    env = {},
  }: { names?: Readonly<Record<string, string>>; env?: Readonly<Record<string, string>> } = {},
) {
  const dns = await startDnsServer(t);
  for (const [name, address] of Object.entries(names)) dns.script(name, { A: addresses(address) });
  const words = ["doctor", "--json", ...dns.servers.flatMap((each) => ["--dns-server", each])];
  // Node reads its own variables when it starts.
  const run = "NODE_OPTIONS" in env ? runProgram : runHere;
  const { code, stdout, stderr } = await run(t, words, { cwd, env });
  assert.equal(stderr, "");
  const findings = findingsOf(stdout);
  const { ok } = JSON.parse(stdout);
  assert.equal(code, ok === true ? 0 : 1);
  for (const { verdict, remedy } of findings) {
    assert.equal(remedy !== null, verdict === "warning" || verdict === "failed");
  }
  const verdicts = findings.map(({ check, verdict }) => `${check} ${verdict}`);
  return { ok, findings, verdicts };
}

function assertVerdicts(
  { verdicts }: Awaited<ReturnType<typeof examine>>,
  expected: readonly string[],
): void {
  for (const each of expected) assert.ok(verdicts.includes(each), verdicts.join());
}

function detailOf({ findings }: Awaited<ReturnType<typeof examine>>, check: string): string {
  return findings.find((finding) => finding.check === check)?.detail ?? "";
}

test("doctor finds no fault while a daemon serves", async (t) => {
  const cwd = temporaryFolder(t);
  const daemon = startProgram(t, ["start", "--port", "0"], { cwd });
  const { url, pid } = await daemon.ready;

  const examined = await examine(t, cwd);

  assert.equal(examined.ok, true);
  assert.ok(detailOf(examined, "daemon").includes(url));
  assert.ok(detailOf(examined, "open files").includes(`process ${pid}`));
  const checks = ["configuration", "addon", "owner", "content", "disk", "resolver"];
  assertVerdicts(
    examined,
    checks.map((check) => `${check} ok`),
  );
});

test("doctor warns of a database in memory", async (t) => {
  const folder = "/dev/shm";
  if (!existsSync(folder)) return t.skip(`there is no ${folder}`);
  const cwd = mkdtempSync(join(folder, "postbackd-test-"));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  await makeDatabase(join(cwd, "postbackd.db"));

  const examined = await examine(t, cwd);

  assertVerdicts(examined, ["file system warning"]);
  assert.match(detailOf(examined, "file system"), /tmpfs/);
  assert.match(detailOf(examined, "addon"), /SQLite 3\.\d+\.\d+/);
});

test("doctor warns of a missing database, and makes none", async (t) => {
  const cwd = temporaryFolder(t);

  const first = await examine(t, cwd, { names: {} });
  const second = await examine(t, cwd, { names: {} });

  assert.equal(first.ok, true);
  assert.deepEqual(first.verdicts, second.verdicts);
  assertVerdicts(first, ["database warning", "daemon warning", "resolver warning"]);
});

test("doctor finds that a served database is missing, and advises no start", async (t) => {
  const cwd = temporaryFolder(t);
  const daemon = startProgram(t, ["start", "--port", "0"], { cwd });
  await daemon.ready;
  rmSync(join(cwd, "postbackd.db"));
  await daemon.says("50300");

  const served = await examine(t, cwd);
  daemon.kill("SIGKILL");
  await daemon.exit;
  const ended = await examine(t, cwd);

  for (const examined of [served, ended]) {
    assert.equal(examined.ok, false);
    assertVerdicts(examined, ["database failed", "daemon warning"]);
    const remedies = examined.findings.map(({ remedy }) => remedy ?? "");
    assert.ok(remedies.some((remedy) => /^stop .* backup restore/.test(remedy)));
    assert.ok(!remedies.some((remedy) => remedy.startsWith("start")));
  }
});

test("doctor finds a -wal without its database", async (t) => {
  const cwd = temporaryFolder(t);
  const file = join(cwd, "postbackd.db");
  await makeDatabase(file);
  leaveOnlyWal(file);

  assertVerdicts(await examine(t, cwd), ["database failed"]);
});

test("doctor warns of a pause of all webhooks, and of no other pause", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "postbackd.db"));
  const findAfter = async (...words: string[]): Promise<Finding | undefined> => {
    const { code, stderr } = await runHere(t, ["admin", "delivery", "pause", ...words], { cwd });
    assert.equal(code, 0, stderr);
    const { findings } = await examine(t, cwd);
    return findings.find(({ check }) => check === "deliveries");
  };

  assert.equal(await findAfter("--host", "a.example"), undefined);

  const found = await findAfter("--reason", "a rehearsal");
  assert.equal(found?.verdict, "warning");
  assert.match(found.detail, /\d{4}-\d\d-\d\dT.*\(a rehearsal\)/);
  assert.match(found.remedy ?? "", /postbackd admin delivery resume$/);
});

test("doctor reports every fault: configuration, mode, command, certificate, target", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "postbackd.db"));
  chmodSync(join(cwd, "postbackd.db"), 0o644);
  const old = makeCertificate({ commonName: "a.example.com", notAfter: new Date("2020-01-02") });
  writeFileSync(join(cwd, "old.pem"), old.cert);
  writeFileSync(join(cwd, "old.key"), old.key);
  const settings = [
    'databse = "x"',
    'tls_cert = "old.pem"',
    'tls_key = "old.key"',
    "[webhooks]",
    'allow = ["0.0.0.0/0"]',
    "[types.probe]",
    'command = ["no-such-program"]',
  ];
  writeFileSync(join(cwd, "postbackd.toml"), settings.join("\n"));

  const examined = await examine(t, cwd);

  assert.equal(examined.ok, false);
  const faults = ["configuration failed", "certificate failed", "commands failed"];
  assertVerdicts(examined, [...faults, "owner warning", "targets warning"]);
  assert.match(detailOf(examined, "configuration"), /databse.*database/);
});

test("doctor judges the addresses of events.url, and sends nothing there", async (t) => {
  const cwd = temporaryFolder(t);
  const secret = newWebhookSecret();
  const toml = `[events]\nurl = "https://ops.example.com/5ecret"\nsecret = "${secret}"\n`;
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  const verdictFor = async (names: Readonly<Record<string, string>>): Promise<string> => {
    const { findings } = await examine(t, cwd, { names });
    const found = findings.filter(({ check }) => check === "events");
    assert.doesNotMatch(JSON.stringify(found), /5ecret/);
    return found.map(({ verdict, detail }) => `${verdict}: ${detail}`).join();
  };

  assert.match(await verdictFor({ "ops.example.com": "93.184.216.34" }), /^ok: /);
  assert.match(await verdictFor({ "ops.example.com": "169.254.169.254" }), /^failed: /);
  assert.match(await verdictFor({}), /^warning: /);
});

test("doctor warns of a schedule without a recent backup", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), '[backup]\nschedule = "0 3 * * *"\n');
  const daemon = startProgram(t, ["start", "--port", "0"], { cwd });
  await daemon.ready;
  await daemon.stop();
  const verdictOf = async (): Promise<string | undefined> =>
    (await examine(t, cwd)).verdicts.find((each) => each.startsWith("backups"));

  assert.equal(await verdictOf(), "backups warning");

  const { installation } = readServedFile(join(cwd, "postbackd.db"));
  const file = join(cwd, "backups", `postbackd-${installation}-000001.db`);
  await runProgram(t, ["backup", "create", file], { cwd });
  assert.equal(await verdictOf(), "backups ok");

  const document = JSON.parse(readFileSync(`${file}.json`, "utf8"));
  writeFileSync(
    `${file}.json`,
    JSON.stringify({ ...document, created_at: "2020-01-31T03:00:00.000Z" }),
  );
  assert.equal(await verdictOf(), "backups warning");
});

test("doctor finds a damaged page, and names the restore", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "postbackd.db"));
  const descriptor = openSync(join(cwd, "postbackd.db"), "r+");
  // Far from the header, and in every page behind it.
  for (let page = 3; page < 40; page++)
    writeSync(descriptor, Buffer.alloc(64, 0xff), 0, 64, page * 4096);
  closeSync(descriptor);

  const examined = await examine(t, cwd);

  assert.equal(examined.ok, false);
  const found = examined.findings.filter(({ verdict }) => verdict === "failed");
  assert.match(JSON.stringify(found), /damage|malformed/u);
  assert.match(JSON.stringify(found), /backup restore/u);
});

test("doctor without SQLite's addon skips checks, and advises no restore", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "postbackd.db"));
  writeFileSync(join(cwd, "postbackd.toml"), '[backup]\nschedule = "0 3 * * *"\n');
  const fault = "process.dlopen=()=>{throw(new(Error)('noexec'))}";

  const examined = await examine(t, cwd, {
    env: { NODE_OPTIONS: `--import=data:text/javascript,${fault}` },
  });

  assert.equal(examined.ok, false);
  const ofFile = ["addon", "file system", "owner", "content", "WAL", "disk", "backups", "daemon"];
  assert.deepEqual(
    examined.verdicts.filter((each) => ofFile.includes(each.replace(/ \w+$/, ""))),
    [
      "addon failed",
      "file system ok",
      "owner ok",
      "content skipped",
      "WAL ok",
      "disk ok",
      "backups skipped",
      "daemon skipped",
    ],
  );
  assert.doesNotMatch(JSON.stringify(examined.findings), /backup restore/);
});

test("doctor does not report an unreadable file as damaged", async (t) => {
  const cwd = temporaryFolder(t);
  const file = join(cwd, "postbackd.db");
  await makeDatabase(file);
  mkdirSync(`${file}-wal`);

  const examined = await examine(t, cwd);

  assertVerdicts(examined, ["content failed"]);
  const found = examined.findings.find(({ check }) => check === "content");
  assert.doesNotMatch(found?.remedy ?? "", /backup restore/);
});

test("doctor skips all other checks if the configuration cannot be read", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "other.db"));
  writeFileSync(join(cwd, "postbackd.toml"), 'database = "other.db\n');

  const examined = await examine(t, cwd);

  const others = examined.verdicts.filter((each) => !/^(configuration|clock) /.test(each));
  assert.deepEqual([...new Set(others.map((each) => each.split(" ").at(-1)))], ["skipped"]);
});

test("doctor warns of fewer open files than limits.connections", async (t) => {
  const cwd = temporaryFolder(t);
  const { code, stdout } = await runProgram(
    t,
    ["doctor", "--json", "--dns-server", "127.0.0.1:9"],
    {
      cwd,
      env: { POSTBACKD_LIMITS_CONNECTIONS: "60000" },
      command: ["sh", "-c", 'ulimit -n 5000; exec "$0" "$@"', ...SOURCES],
    },
  );

  assert.equal(code, 0);
  const found = findingsOf(stdout).find(({ check }) => check === "open files");
  assert.equal(found?.verdict, "warning");
  assert.match(found.detail, /5000/);
});

test(
  "doctor examines PostgreSQL, and reports why it is unreachable",
  { skip: reasonToSkipPostgres() },
  async (t) => {
    const url = await newDatabaseUrl(t);
    const cwd = temporaryFolder(t);
    const env = { POSTBACKD_DB: url };
    assert.equal((await runHere(t, ["database", "migrate"], { cwd, env })).code, 0);
    const words = ["doctor", "--json", "--dns-server", "127.0.0.1:9"];

    const there = await runHere(t, words, { cwd, env });
    const gone = await runHere(t, words, { cwd, env: { POSTBACKD_DB: `${url}_gone` } });

    const findingOf = (stdout: string) =>
      findingsOf(stdout).find(({ check }) => check === "database");
    assert.equal(there.code, 0, there.stdout);
    assert.match(findingOf(there.stdout)?.detail ?? "", /^PostgreSQL \d+/u);
    assert.equal(gone.code, 1);
    assert.equal(findingOf(gone.stdout)?.verdict, "failed");
  },
);

test("doctor prints a line for each finding, and one for its remedy", async (t) => {
  const cwd = temporaryFolder(t);
  const { stdout } = await runHere(t, ["doctor", "--dns-server", "127.0.0.1:9"], { cwd });

  assert.match(stdout, /^ok {7}configuration  \S/mu);
  assert.match(stdout, /^WARNING {2}database {7}\S/mu);
  assert.match(stdout, /^ {24}→ \S/mu);
  assert.match(stdout, /\n\n0 failed, 3 warnings\.\n$/u);
});
