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

import { z } from "zod";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { readServedFile } from "../../src/store/sqlite/served-file.ts";
import { makeCertificate } from "../deliver/certificate.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runProgram, SOURCES, startProgram, temporaryFolder } from "../helpers/program.ts";
import { makeDatabase } from "../helpers/store.ts";

const EXAMINED = z.object({
  ok: z.boolean(),
  findings: z.array(
    z.object({
      check: z.string(),
      verdict: z.enum(["ok", "warning", "failed", "skipped"]),
      detail: z.string(),
      remedy: z.string().nullable(),
    }),
  ),
});

/** Runs the doctor in a folder, and answers `CHECK VERDICT` of all findings. Names are looked up in the test alone. */
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
  const { code, stdout, stderr } = await runProgram(t, words, { cwd, env });
  assert.equal(stderr, "");
  const { ok, findings } = EXAMINED.parse(JSON.parse(stdout));
  assert.equal(code, ok ? 0 : 1);
  for (const { verdict, remedy } of findings) {
    assert.equal(remedy !== null, verdict === "warning" || verdict === "failed");
  }
  const verdicts = findings.map(({ check, verdict }) => `${check} ${verdict}`);
  return { ok, findings, verdicts };
}

function detailOf({ findings }: Awaited<ReturnType<typeof examine>>, check: string): string {
  return findings.find((finding) => finding.check === check)?.detail ?? "";
}

test("finds nothing to mend where a daemon serves", async (t) => {
  const cwd = temporaryFolder(t);
  const daemon = startProgram(t, ["start", "--port", "0"], { cwd });
  const { url, pid } = await daemon.ready;

  const examined = await examine(t, cwd);

  assert.equal(examined.ok, true);
  assert.equal(detailOf(examined, "daemon"), `it accepts tasks at ${url}`);
  assert.ok(detailOf(examined, "open files").startsWith(`the daemon (process ${pid}) may open `));
  for (const expected of [
    "configuration ok",
    "addon ok",
    "owner ok",
    "content ok",
    "disk ok",
    "resolver ok",
  ]) {
    assert.ok(examined.verdicts.includes(expected), examined.verdicts.join());
  }
});

test("warns of a database in memory, which a reboot takes", async (t) => {
  const folder = "/dev/shm";
  if (!existsSync(folder)) return t.skip(`there is no ${folder}`);
  const cwd = mkdtempSync(join(folder, "postbackd-test-"));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  await makeDatabase(join(cwd, "postbackd.db"));

  const examined = await examine(t, cwd);

  assert.ok(examined.verdicts.includes("file system warning"), examined.verdicts.join());
  assert.match(detailOf(examined, "file system"), /lies in memory \(tmpfs\): a reboot takes it/);
  assert.match(detailOf(examined, "addon"), /^SQLite 3\.\d+\.\d+ is loaded$/);
});

test("takes a missing database for a warning, and makes none", async (t) => {
  const cwd = temporaryFolder(t);

  const first = await examine(t, cwd, { names: {} });
  const second = await examine(t, cwd, { names: {} });

  assert.equal(first.ok, true);
  assert.deepEqual(first.verdicts, second.verdicts);
  for (const expected of ["database warning", "daemon warning", "resolver warning"]) {
    assert.ok(first.verdicts.includes(expected), first.verdicts.join());
  }
});

test("names everything that is wrong at once: configuration, mode, program, certificate, target", async (t) => {
  const cwd = temporaryFolder(t);
  await runProgram(t, ["admin", "account", "create", "acme"], { cwd });
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
  for (const expected of [
    "configuration failed",
    "owner warning",
    "certificate failed",
    "commands failed",
    "targets warning",
  ]) {
    assert.ok(examined.verdicts.includes(expected), examined.verdicts.join());
  }
  assert.match(detailOf(examined, "configuration"), /databse.*database/);
});

test("judges the address to which the host of events.url resolves, and sends nothing there", async (t) => {
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

  assert.equal(
    await verdictFor({ "ops.example.com": "93.184.216.34" }),
    "ok: they go to https://ops.example.com",
  );
  assert.match(
    await verdictFor({ "ops.example.com": "169.254.169.254" }),
    /^failed: .* is refused/,
  );
  assert.match(await verdictFor({}), /^warning: .* does not resolve .* nobody is told/);
});

test("warns of a schedule that has made no backup, and of one whose newest is old", async (t) => {
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

test("finds a page that is damaged, and says to restore a copy", async (t) => {
  const cwd = temporaryFolder(t);
  await runProgram(t, ["admin", "account", "create", "acme"], { cwd });
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

test("does not check what needs SQLite's addon if that cannot be loaded, and advises no restore", async (t) => {
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

test("says that a file could not be read, and not that it is damaged, after an error of the system", async (t) => {
  const cwd = temporaryFolder(t);
  const file = join(cwd, "postbackd.db");
  await makeDatabase(file);
  mkdirSync(`${file}-wal`);

  const examined = await examine(t, cwd);

  assert.ok(examined.verdicts.includes("content failed"), examined.verdicts.join());
  const found = examined.findings.find(({ check }) => check === "content");
  assert.doesNotMatch(found?.remedy ?? "", /backup restore/);
});

test("checks nothing by the defaults if the configuration cannot be read", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "other.db"));
  writeFileSync(join(cwd, "postbackd.toml"), 'database = "other.db\n');

  const examined = await examine(t, cwd);

  const others = examined.verdicts.filter((each) => !/^(configuration|clock) /.test(each));
  assert.deepEqual([...new Set(others.map((each) => each.split(" ").at(-1)))], ["skipped"]);
});

test("warns of a limit of open files that is lower than the connections it may take", async (t) => {
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
  const { findings } = EXAMINED.parse(JSON.parse(stdout));
  const found = findings.find(({ check }) => check === "open files");
  assert.equal(found?.verdict, "warning");
  assert.match(found.detail, /may open 5000 files/);
  assert.match(found.remedy ?? "", /LimitNOFILE=/);
});

test(
  "examines a server instead of a file, and says why it cannot be reached",
  { skip: reasonToSkipPostgres() },
  async (t) => {
    const url = await newDatabaseUrl(t);
    const cwd = temporaryFolder(t);
    const env = { POSTBACKD_DB: url };
    assert.equal((await runProgram(t, ["database", "migrate"], { cwd, env })).code, 0);
    const words = ["doctor", "--json", "--dns-server", "127.0.0.1:9"];

    const there = await runProgram(t, words, { cwd, env });
    const gone = await runProgram(t, words, { cwd, env: { POSTBACKD_DB: `${url}_gone` } });

    const findingOf = (stdout: string) =>
      EXAMINED.parse(JSON.parse(stdout)).findings.find(({ check }) => check === "database");
    assert.equal(there.code, 0, there.stdout);
    assert.match(findingOf(there.stdout)?.detail ?? "", /^PostgreSQL \d+.*connections used$/u);
    assert.equal(gone.code, 1);
    assert.equal(findingOf(gone.stdout)?.verdict, "failed");
  },
);

test("prints a line for each finding, with what to do, for a person", async (t) => {
  const cwd = temporaryFolder(t);
  const { stdout } = await runProgram(t, ["doctor", "--dns-server", "127.0.0.1:9"], { cwd });

  assert.match(stdout, /^ok {7}configuration  no file; all defaults$/mu);
  assert.match(stdout, /^WARNING {2}database {7}there is no /mu);
  assert.match(stdout, /^ {24}→ start the daemon, or make the first account/mu);
  assert.match(stdout, /\n\n0 failed, 3 warnings\.\n$/u);
});
