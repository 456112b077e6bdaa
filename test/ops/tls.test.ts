import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createPrivateKey } from "node:crypto";
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import { createLogger } from "../../src/log.ts";
import { readTlsFiles, warnOfValidity } from "../../src/ops/check.ts";
import { makeCertificate } from "../helpers/certificate.ts";
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
