import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import type { Certificate } from "../helpers/certificate.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { httpsClient, loopbackCertificate } from "../http/tls-client.ts";
import { runHere } from "./in-process.ts";

const FIRST = loopbackCertificate("first");
const SECOND = loopbackCertificate("second");
const TRUST = [FIRST, SECOND];
const ARGS = ["start", "--port", "0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];

function writePair(folder: string, { cert, key }: Pick<Certificate, "cert" | "key">): void {
  writeFileSync(join(folder, "cert.pem"), cert);
  writeFileSync(join(folder, "key.pem"), key);
}

/** The program in a folder with the first certificate. */
async function startHttps(t: TestContext) {
  const cwd = temporaryFolder(t);
  writePair(cwd, FIRST);
  const program = startProgram(t, ARGS, { cwd });
  const { url } = await program.ready;
  const connect = () => httpsClient(t, { url, trust: TRUST });
  return { cwd, program, url, connect };
}

function keyLines({ key }: Certificate): readonly string[] {
  return key.split("\n").filter((line) => line.length > 30 && !line.startsWith("-"));
}

test("SIGHUP loads a new certificate for new connections", async (t) => {
  const { cwd, program, url, connect } = await startHttps(t);
  const old = connect();
  assert.equal((await old.get("/livez")).status, 200);
  assert.match(url, /^https:\/\/127\.0\.0\.1:\d+$/);

  writePair(cwd, SECOND);
  program.kill("SIGHUP");
  await program.says("certificate reloaded");

  assert.equal((await connect().get("/livez")).servedBy, "second");
  assert.equal((await old.get("/livez")).servedBy, "first");
  assert.match(program.stderr, /"file":"[^"]*cert\.pem","subject":"CN=second".*"expires":"20/);
  assert.deepEqual(await program.stop(), { code: 0, signal: null });
  for (const line of [...keyLines(FIRST), ...keyLines(SECOND)]) {
    assert(!program.stderr.includes(line), "the log shows a key");
  }
});

test("SIGHUP keeps the certificate if the new files are faulty, and loads them once they are fixed", async (t) => {
  const { cwd, program, connect } = await startHttps(t);

  writePair(cwd, { cert: SECOND.cert, key: FIRST.key });
  program.kill("SIGHUP");
  await program.says("certificate not reloaded");

  assert.match(program.stderr, /"level":"error".*key\.pem \(tls_key\) does not belong to/);
  assert.equal((await connect().get("/livez")).servedBy, "first");
  writePair(cwd, SECOND);
  program.kill("SIGHUP");
  await program.says("certificate reloaded");
  assert.equal((await connect().get("/livez")).servedBy, "second");
});

test("start exits with 78 if key and certificate do not belong together", async (t) => {
  const cwd = temporaryFolder(t);
  writePair(cwd, { cert: FIRST.cert, key: SECOND.key });

  const { code, stdout, stderr } = await runHere(t, ARGS, { cwd });

  assert.deepEqual([code, stdout], [78, ""]);
  assert.match(stderr, /key\.pem.*cert\.pem/);
  assert.equal(existsSync(join(cwd, "postbackd.db")), false);
});
