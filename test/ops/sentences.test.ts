import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { TlsFileError } from "../../src/deliver/trust.ts";
import { readTlsFiles } from "../../src/ops/check.ts";
import { judgePlace } from "../../src/ops/database-checks.ts";
import { fileSystemOfType } from "../../src/ops/storage.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { tempFolder } from "../helpers/daemon.ts";
import { assertSentences } from "../helpers/sentences.ts";

const OWN = makeCertificate({ commonName: "own", names: ["api.example.com"] });
const OTHER = makeCertificate({ commonName: "other" });
const RSA = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
const ENCRYPTION = { format: "pem", cipher: "aes-256-cbc", passphrase: "secret" } as const;
const NEW_KEY = String(RSA.export({ type: "pkcs8", ...ENCRYPTION }));
const OLD_KEY = String(RSA.export({ type: "pkcs1", ...ENCRYPTION }));
const DAMAGED = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const DAMAGED_KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

/** Faulty files of a certificate and its key. */
const FAULTS: readonly (readonly [
  what: string,
  files: { readonly cert?: string | null; readonly key?: string | null },
])[] = [
  ["a missing certificate", { cert: null }],
  ["a missing key", { key: null }],
  ["an empty certificate", { cert: "" }],
  ["an empty key", { key: "" }],
  ["a certificate in DER", { cert: "0\x82\x01\x22" }],
  ["a damaged certificate", { cert: DAMAGED }],
  ["a damaged chain", { cert: OWN.cert + DAMAGED }],
  ["a damaged key", { key: DAMAGED_KEY }],
  ["a cut certificate", { cert: OWN.cert.slice(0, 200) }],
  ["exchanged files", { cert: OWN.key, key: OWN.cert }],
  ["a certificate for a key", { key: OWN.cert }],
  ["an encrypted key", { key: NEW_KEY }],
  ["a key encrypted as of old", { key: OLD_KEY }],
  ["another's key", { key: OTHER.key }],
  ["a chain upside down", { cert: OTHER.cert + OWN.cert }],
];

/** Network, memory, overlay and local. */
const FILE_SYSTEMS = [0x6969, 0x01021994, 0x794c7630, 0xef53];

test("every fault of a certificate and of a file system has its sentence, without a key", (t) => {
  const folder = tempFolder(t);
  const sentences = FAULTS.map(([what, given], index): readonly [string, string] => {
    const place = join(folder, String(index));
    mkdirSync(place);
    const files = { cert: join(place, "cert.pem"), key: join(place, "key.pem") };
    const texts = { cert: OWN.cert, key: OWN.key, ...given };
    if (texts.cert !== null) writeFileSync(files.cert, texts.cert);
    if (texts.key !== null) writeFileSync(files.key, texts.key);
    let message = "";
    assert.throws(
      () => readTlsFiles(files),
      (error: unknown) => {
        assert(error instanceof TlsFileError, what);
        const keyLine = OWN.key.split("\n")[1] ?? assert.fail();
        assert(!String(error.stack).includes(keyLine) && !String(error.cause).includes(keyLine));
        message = error.message.replaceAll(place, "FOLDER");
        return true;
      },
    );
    return [what, message];
  });
  const places = FILE_SYSTEMS.map((type): readonly [string, string] => {
    const system = fileSystemOfType(type);
    const { verdict, detail, remedy } = judgePlace("/data/x.db", system);
    return [`a database on ${system.name}: ${verdict}`, `${detail}; ${remedy}`];
  });
  assertSentences(t, import.meta.dirname, [...sentences, ...places]);
});
