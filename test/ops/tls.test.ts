import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { TlsFileError } from "../../src/deliver/trust.ts";
import { DAY_MS } from "../../src/domain/clock/duration.ts";
import { createLogger } from "../../src/log.ts";
import { readTlsFiles, warnOfValidity } from "../../src/ops/check.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { tempFolder } from "../helpers/daemon.ts";

const OWN = makeCertificate({ commonName: "own", names: ["api.example.com"] });
const OTHER = makeCertificate({ commonName: "other" });

/** Writes the two files and gives their paths; null leaves one out. */
function write(t: TestContext, { cert, key }: { cert: string | null; key: string | null }) {
  const folder = tempFolder(t);
  const files = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  if (cert !== null) writeFileSync(files.cert, cert);
  if (key !== null) writeFileSync(files.key, key);
  return files;
}

test("reads a certificate and its key, and what may be said of them", (t) => {
  const files = write(t, OWN);

  const { cert, key, subject, names, validTo } = readTlsFiles(files);

  assert.deepEqual({ cert, key }, { cert: OWN.cert, key: OWN.key });
  assert.equal(subject, "CN=own");
  assert.equal(names, "DNS:api.example.com");
  assert(Math.abs(validTo.getTime() - Date.now() - DAY_MS) < 60_000);
});

const RSA = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
const ENCRYPTION = { format: "pem", cipher: "aes-256-cbc", passphrase: "secret" } as const;
const NEW_KEY = String(RSA.export({ type: "pkcs8", ...ENCRYPTION }));
const OLD_KEY = String(RSA.export({ type: "pkcs1", ...ENCRYPTION }));
const DAMAGED = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const DAMAGED_KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

const FAULTS: readonly [
  what: string,
  files: { readonly cert?: string | null; readonly key?: string | null },
  message: RegExp,
][] = [
  ["a missing certificate", { cert: null }, /cert\.pem \(tls_cert\) does not exist$/],
  ["a missing key", { key: null }, /key\.pem \(tls_key\) does not exist$/],
  ["an empty certificate", { cert: "" }, /cert\.pem \(tls_cert\) holds no certificate in PEM/],
  ["an empty key", { key: "" }, /key\.pem \(tls_key\) holds no private key in PEM form/],
  ["a certificate in DER", { cert: "0\x82\x01\x22" }, /holds no certificate in PEM.* -inform der/],
  ["a damaged certificate", { cert: DAMAGED }, /tls_cert\) is damaged: its certificate 1 cannot/],
  [
    "a damaged chain",
    { cert: OWN.cert + DAMAGED },
    /is damaged: its certificate 2 cannot be read$/,
  ],
  ["a damaged key", { key: DAMAGED_KEY }, /tls_key\) is damaged: its private key cannot be read$/],
  ["a cut certificate", { cert: OWN.cert.slice(0, 200) }, /holds no certificate in PEM form/],
  [
    "exchanged files",
    { cert: OWN.key, key: OWN.cert },
    /cert\.pem .* are tls_cert and tls_key exc/,
  ],
  ["a certificate for a key", { key: OWN.cert }, /key\.pem \(tls_key\) holds a certificate and no/],
  ["an encrypted key", { key: NEW_KEY }, /key\.pem \(tls_key\) is encrypted, .*openssl pkey/],
  ["a key encrypted as of old", { key: OLD_KEY }, /key\.pem \(tls_key\) is encrypted/],
  ["another's key", { key: OTHER.key }, /key\.pem \(tls_key\) does not belong to .*cert\.pem$/],
  [
    "a chain upside down",
    { cert: OTHER.cert + OWN.cert },
    /belongs to certificate 2 in .* the first/,
  ],
];
for (const [what, given, message] of FAULTS) {
  test(`refuses ${what} in a sentence that names the file, and never shows a key`, (t) => {
    const files = write(t, { cert: OWN.cert, key: OWN.key, ...given });

    assert.throws(
      () => readTlsFiles(files),
      (error: unknown) => {
        assert(error instanceof TlsFileError);
        assert.match(error.message, message);
        const keyLine = OWN.key.split("\n")[1] ?? assert.fail();
        assert(!String(error.stack).includes(keyLine) && !String(error.cause).includes(keyLine));
        return true;
      },
    );
  });
}

test("refuses a folder, and a file that this user may not read", (t) => {
  const files = write(t, OWN);
  assert.throws(
    () => readTlsFiles({ ...files, cert: tempFolder(t) }),
    /\) is a folder, not a file$/,
  );

  chmodSync(files.key, 0o000);

  // To root nothing is forbidden.
  if (process.getuid?.() === 0) return;
  assert.throws(() => readTlsFiles(files), /key\.pem \(tls_key\) cannot be read: .*permission$/);
});

test("takes what is around a PEM, a chain, and both in one file", (t) => {
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

test("takes a key in the older form of its kind", (t) => {
  const key = String(createPrivateKey(OWN.key).export({ type: "sec1", format: "pem" }));

  assert.equal(readTlsFiles(write(t, { cert: OWN.cert, key })).subject, "CN=own");
});

const OPENSSL = "/usr/bin/openssl";

test("refuses a key that is too weak to be served", { skip: !existsSync(OPENSSL) }, (t) => {
  const files = write(t, { cert: null, key: null });
  const options = ["-newkey", "rsa:1024", "-nodes", "-subj", "/CN=weak", "-days", "2"];
  const out = ["-keyout", files.key, "-out", files.cert];
  execFileSync(OPENSSL, ["req", "-x509", ...options, ...out], { stdio: "ignore" });

  assert.throws(() => readTlsFiles(files), /cert\.pem \(tls_cert\) cannot be served with .*small/);
});

const VALIDITY: readonly [what: string, days: number, complaint: RegExp | null][] = [
  ["is valid", 0, null],
  ["has expired", 1.1, /"level":"warn".*"expires":"\d{4}-.*the certificate has expired/],
  ["is not valid yet", -1.1, /"level":"warn".*"validFrom":"\d{4}-.*is not valid yet/],
];
for (const [what, days, complaint] of VALIDITY) {
  test(`reads a certificate that ${what}, and ${complaint ? "warns" : "says nothing"}`, (t) => {
    const lines: string[] = [];
    const write_ = (line: string): void => void lines.push(line);
    const log = createLogger({ level: "info", format: "json", write: write_ });

    const material = readTlsFiles(write(t, OWN));
    warnOfValidity(material, { now: Date.now() + days * DAY_MS, log });

    assert.equal(lines.length, complaint === null ? 0 : 1);
    if (complaint !== null) assert.match(lines[0] ?? "", complaint);
  });
}
