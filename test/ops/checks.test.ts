import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createPrivateKey } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import { createLogger } from "../../src/log.ts";
import { readTlsFiles, warnOfValidity } from "../../src/ops/check.ts";
import { checkClock, checkLimits } from "../../src/ops/doctor.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { loaded } from "../helpers/config.ts";
import { tempFolder } from "../helpers/daemon.ts";

const OWN = makeCertificate({ commonName: "own", names: ["api.example.com"] });
const OTHER = makeCertificate({ commonName: "other" });
const STRANGER = 61_234;

/** Writes the two files and gives their paths; null leaves one out. */
function write(t: TestContext, { cert, key }: { cert: string | null; key: string | null }) {
  const folder = tempFolder(t);
  const files = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  if (cert !== null) writeFileSync(files.cert, cert);
  if (key !== null) writeFileSync(files.key, key);
  return files;
}

test("a certificate and its key are read with subject, names and expiry", (t) => {
  const files = write(t, OWN);

  const { cert, key, subject, names, validTo } = readTlsFiles(files);

  assert.deepEqual({ cert, key }, { cert: OWN.cert, key: OWN.key });
  assert.equal(subject, "CN=own");
  assert.equal(names, "DNS:api.example.com");
  assert(Math.abs(validTo.getTime() - Date.now() - DAY_MS) < 60_000);
});

test("a folder, or an unreadable file, is refused", (t) => {
  const files = write(t, OWN);
  assert.throws(() => readTlsFiles({ ...files, cert: tempFolder(t) }), /folder/);

  chmodSync(dirname(files.key), 0o755);
  chmodSync(files.key, 0o000);
  // Root may read any file.
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(STRANGER);
  try {
    assert.throws(() => readTlsFiles(files), /key\.pem.*permission/);
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
});

test("text around a PEM, a chain, and one file for both are accepted", (t) => {
  const remark = `Bag Attributes\r\n    friendlyName: own\r\n${OWN.cert}\nissued by\n${OTHER.cert}`;
  assert.equal(readTlsFiles(write(t, { cert: remark, key: `own\n${OWN.key}` })).subject, "CN=own");

  const both = write(t, { cert: OWN.key + OWN.cert, key: null });
  assert.equal(readTlsFiles({ cert: both.cert, key: both.cert }).subject, "CN=own");

  const windows = write(t, {
    cert: OWN.cert.replaceAll("\n", "\r\n"),
    key: OWN.key.replaceAll("\n", "\r\n"),
  });
  assert.equal(readTlsFiles(windows).subject, "CN=own");
});

test("a key in the older form (SEC1) is accepted", (t) => {
  const key = String(createPrivateKey(OWN.key).export({ type: "sec1", format: "pem" }));

  assert.equal(readTlsFiles(write(t, { cert: OWN.cert, key })).subject, "CN=own");
});

const OPENSSL = "/usr/bin/openssl";

test("a key that is too weak to be served is refused", { skip: !existsSync(OPENSSL) }, (t) => {
  const files = write(t, { cert: null, key: null });
  const options = ["-newkey", "rsa:1024", "-nodes", "-subj", "/CN=weak", "-days", "2"];
  const out = ["-keyout", files.key, "-out", files.cert];
  execFileSync(OPENSSL, ["req", "-x509", ...options, ...out], { stdio: "ignore" });

  assert.throws(() => readTlsFiles(files), /cert\.pem \(tls_cert\) cannot be served with .*small/);
});

test("an expired or future certificate is logged as a warning", (t) => {
  const material = readTlsFiles(write(t, OWN));
  for (const [days, complaint] of [
    [0, /^$/],
    [1.1, /"level":"warn".*"expires":"\d{4}-.*expired/],
    [-1.1, /"level":"warn".*"validFrom":"\d{4}-.*not valid yet/],
  ] as const) {
    const lines: string[] = [];
    const log = createLogger({
      ...{ level: "info", format: "json" },
      write: (line) => void lines.push(line),
    });
    warnOfValidity(material, { now: Date.now() + days * DAY_MS, log });
    assert.match(lines.join(""), complaint);
  }
});

const CONFIG = loaded({});
const PID = 7;
const MIB = 1024 ** 2;

interface Machine {
  readonly openFiles?: string;
  readonly fileSize?: string;
  /** The line of its control group. */
  readonly group?: string;
  readonly memory?: string;
  readonly processes?: string;
}

/** The checks that warn on a machine with one process. */
function warnings(t: TestContext, machine: Machine): readonly string[] {
  const root = tempFolder(t);
  const { openFiles = "524288", fileSize = "unlimited", group = "0::/system.slice/one" } = machine;
  const process = join(root, "proc", String(PID));
  const groups = join(root, "sys", "fs", "cgroup", "system.slice", "one");
  for (const folder of [process, groups]) mkdirSync(folder, { recursive: true });
  const limits = [
    "Limit                     Soft Limit           Hard Limit           Units     ",
    `Max file size             unlimited            ${fileSize}            bytes     `,
    `Max open files            1024                 ${openFiles}               files     `,
  ];
  writeFileSync(join(process, "limits"), `${limits.join("\n")}\n`);
  writeFileSync(join(process, "cgroup"), `${group}\n`);
  writeFileSync(join(groups, "memory.max"), `${machine.memory ?? "max"}\n`);
  writeFileSync(join(groups, "pids.max"), `${machine.processes ?? "max"}\n`);
  const found = checkLimits(CONFIG, { pid: PID, isDaemon: true, root });
  const unsound = found.filter(({ verdict }) => verdict !== "ok");
  for (const { remedy } of unsound) assert.ok(remedy);
  return unsound.map(({ check }) => check);
}

test("a process without limits is sound, and so is one with just enough", (t) => {
  assert.deepEqual(warnings(t, {}), []);
  assert.deepEqual(warnings(t, { openFiles: "unlimited" }), []);
  assert.deepEqual(warnings(t, { memory: String(256 * MIB), processes: "64" }), []);
});

test("too little memory or too few processes in the control group are warnings", (t) => {
  assert.deepEqual(warnings(t, { memory: String(256 * MIB - 1) }), ["control group"]);
  assert.deepEqual(warnings(t, { processes: "63" }), ["control group"]);
  assert.deepEqual(warnings(t, { memory: "0", processes: "0" }), ["control group"]);
});

test("control groups of version 1 and unreadable ones are not judged", (t) => {
  const few = { memory: "1", processes: "1" };
  assert.deepEqual(warnings(t, { ...few, group: "4:memory:/system.slice/one" }), []);
  assert.deepEqual(warnings(t, { ...few, group: "0::/elsewhere" }), []);
  assert.deepEqual(warnings(t, { ...few, group: "" }), []);
});

test("hard limits on open files and on the size of a file are warnings", (t) => {
  assert.deepEqual(warnings(t, { openFiles: "1024" }), ["open files"]);
  assert.deepEqual(warnings(t, { fileSize: "1073741824" }), ["file size"]);
});

test("limits that cannot be read are skipped", () => {
  const found = checkLimits(CONFIG, { pid: PID, isDaemon: true, root: "/nonexistent" });
  assert.deepEqual(
    found.map(({ check, verdict }) => `${check} ${verdict}`),
    ["limits skipped"],
  );
});

test("a clock before the build of the program is wrong", () => {
  const made = Math.ceil(statSync(process.execPath).mtimeMs);
  assert.equal(checkClock(made).verdict, "ok");
  const wrong = checkClock(made - 1000);
  assert.equal(wrong.verdict, "failed");
  assert.match(wrong.remedy ?? "", /NTP/);
});
