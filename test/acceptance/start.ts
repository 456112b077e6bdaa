import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { makeCertificate } from "../deliver/certificate.ts";
import { farStart } from "../helpers/far-start.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { bearer, Client, only } from "./client.ts";
import { PART, type Started, type Subject } from "./subject.ts";

const START = ["start", "--port", "0"];

/** Contract §8, `start`. */
export function exerciseStart(subject: Subject): void {
  test("contract §8, start", PART, async (t) => {
    await readiness(t, subject);
    await flags(t, subject);
    await refusals(t, subject);
    await end(t, subject);
  });
}

async function readiness(t: TestContext, subject: Subject): Promise<void> {
  await t.test("start: exactly one JSON line on stdout when ready, logs on stderr", async (t) => {
    const program = subject.launch(t, START);
    const ready = await program.ready;
    const { version: _version, ...known } = ready;
    assert.equal((await fetch(`${ready.url}/readyz`)).status, 200);
    await program.stop();

    assert.equal(program.stdout, `${JSON.stringify(ready)}\n`);
    const { port, pid } = ready;
    const db = join(program.cwd, "postbackd.db");
    assert.deepEqual(known, { event: "ready", url: `http://127.0.0.1:${port}`, port, pid, db });
    assert.deepEqual([pid, port > 0], [program.pid, true]);
    const version = await subject.run(t, ["--version"]);
    assert.equal(version.stdout, `${ready.version}\n`);
    const lines = program.stderr.split("\n").filter((line) => line !== "");
    assert.ok(lines.length > 0);
    for (const line of lines) assert.doesNotThrow(() => JSON.parse(line), line);
  });

  await t.test("start --ready-file: gets the ready line; the database has mode 0600", async (t) => {
    const program = subject.launch(t, [...START, "--ready-file", "ready.json"]);
    const { db } = await program.ready;
    assert.equal(readFileSync(join(program.cwd, "ready.json"), "utf8"), program.stdout);
    assert.equal(statSync(db).mode & 0o777, 0o600);
  });
}

async function flags(t: TestContext, subject: Subject): Promise<void> {
  await t.test("start --config --db --host: are followed", async (t) => {
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, "other.toml"), 'port = 0\n[types.only]\nrunner = "echo"\n');
    const args = ["start", "--config", "other.toml", "--db", "other.db", "--host", "127.0.0.2"];
    const program = subject.launch(t, args, { cwd });
    const { url, port, db } = await program.ready;
    const client = await clientOf(t, { subject, program, db });

    assert.deepEqual([url, db], [`http://127.0.0.2:${port}`, join(cwd, "other.db")]);
    assert.equal(only(await client.run({ input: 1 })).type, "only");
  });

  await t.test(
    "start --allow-target: may be repeated; what is not named stays refused",
    async (t) => {
      const receiver = await startReceiver(t);
      const targets = ["10.1.0.0/16", `127.0.0.1:${receiver.port}`, "localhost"];
      const words = targets.flatMap((target) => ["--allow-target", target]);
      const program = subject.launch(t, [...START, ...words]);
      const client = await clientOf(t, { subject, program });
      const codeOf = async (postback_url: string): Promise<number> =>
        only(await client.post({ postback_url, start_at: farStart() })).status_code;

      await client.run({ postback_url: receiver.url("/sent") });
      assert.equal((await receiver.next()).url, "/sent");
      assert.equal(await codeOf("http://10.1.255.1:99/"), 20100);
      assert.equal(await codeOf("http://localhost:99/"), 20100);
      assert.equal(await codeOf("http://127.0.0.1:1/"), 40501);
      assert.equal(await codeOf("http://10.2.0.1/"), 40501);
    },
  );

  await t.test("start --tls-cert --tls-key: serves HTTPS", async (t) => {
    const cwd = temporaryFolder(t);
    const { cert, key } = makeCertificate({ commonName: "x", addresses: ["127.0.0.1"] });
    writeFileSync(join(cwd, "cert.pem"), cert);
    writeFileSync(join(cwd, "key.pem"), key);
    const pair = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    const { url } = await subject.launch(t, [...START, ...pair], { cwd }).ready;
    const sent = request(`${url}/readyz`, { ca: cert });
    sent.end();
    const [response] = await once(sent, "response");
    response.resume();

    assert.match(url, /^https:\/\/127\.0\.0\.1:\d+$/);
    assert.equal(response.statusCode, 200);
    const health = await subject.run(t, ["health"], { cwd });
    assert.equal(health.code, 0, health.stdout);
    // Beyond loopback too, which is judged without listening.
    const beyond = ["config", "check", "--host", "0.0.0.0", ...pair];
    assert.equal((await subject.run(t, beyond, { cwd })).code, 0);
  });

  await t.test("start --trusted-proxy: may say that the client used plain HTTP", async (t) => {
    const program = subject.launch(t, [...START, "--trusted-proxy", "127.0.0.0/8"]);
    const client = await clientOf(t, { subject, program });
    const over = async (scheme: string): Promise<readonly [number, number]> => {
      const headers = { "x-forwarded-proto": scheme, "x-forwarded-for": "192.0.2.1" };
      const { status, body } = await client.send("/v1/tasks", { headers });
      return [status, body.status_code];
    };

    assert.deepEqual(await over("http"), [403, 40300]);
    assert.deepEqual(await over("https"), [200, 20000]);
  });
}

async function refusals(t: TestContext, subject: Subject): Promise<void> {
  await t.test(
    "start: a second instance on the same file is refused with the holder's pid",
    async (t) => {
      const first = subject.launch(t, START);
      await first.ready;
      const second = await subject.run(t, START, { cwd: first.cwd });

      assert.deepEqual([second.code, second.stdout], [1, ""]);
      assert.match(second.stderr, new RegExp(`\\b${first.pid}\\b`));
    },
  );

  await t.test("start: a port in use is 1", async (t) => {
    const first = subject.launch(t, START);
    const { port } = await first.ready;
    const second = await subject.run(t, ["start", "--port", String(port)]);

    assert.deepEqual([second.code, second.stdout], [1, ""]);
    assert.match(second.stderr, new RegExp(`\\b${port}\\b`));
  });

  await t.test("start: plain HTTP beyond loopback is 78", async (t) => {
    for (const host of ["0.0.0.0", "192.0.2.1"]) {
      const refused = await subject.run(t, [...START, "--host", host]);
      assert.deepEqual([refused.code, refused.stdout], [78, ""], host);
      assert.match(refused.stderr, /--insecure-http|insecure_http/);
    }
    // What listens beyond loopback is judged without listening.
    const beyond = ["config", "check", "--host", "0.0.0.0"];
    for (const words of [["--insecure-http"], ["--trusted-proxy", "10.0.0.0/8"]]) {
      assert.equal((await subject.run(t, [...beyond, ...words])).code, 0, words[0]);
    }
  });

  await t.test(
    "start: a command type whose program is missing is a warning, 50010 per task",
    async (t) => {
      const cwd = temporaryFolder(t);
      writeFileSync(join(cwd, "postbackd.toml"), '[types.gone]\ncommand = ["no-such-program-x"]\n');
      const program = subject.launch(t, START, { cwd });
      const client = await clientOf(t, { subject, program });
      const task = only(await client.run({ type: "gone" }));

      assert.deepEqual([task.state, task.status_code], ["failed", 50010]);
      assert.match(program.stderr, /no-such-program-x/);
    },
  );
}

async function end(t: TestContext, subject: Subject): Promise<void> {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    await t.test(`start: ${signal} finishes what is in flight, then exit 0`, async (t) => {
      const gate = createGate();
      const reply = { kind: "status", status: 204 } as const;
      const receiver = await startReceiver(t, {
        reply: { kind: "held", until: gate.opened, reply },
      });
      const program = subject.launch(t, [...START, "--allow-target", "127.0.0.1"]);
      const client = await clientOf(t, { subject, program });
      await client.run({ postback_url: receiver.url() });
      await receiver.next();
      program.kill(signal);
      await program.says("stopping");
      gate.open();

      assert.deepEqual(await program.exit, { code: 0, signal: null });
    });
  }
}

interface Serving {
  readonly subject: Subject;
  readonly program: Started;
  /** Where it is not the usual one. */
  readonly db?: string;
}

/** A client of a started program, with an account of its own. */
async function clientOf(t: TestContext, { subject, program, db }: Serving): Promise<Client> {
  const { url } = await program.ready;
  const words = ["admin", "account", "create", "tester", "--json"];
  const where = db === undefined ? [] : ["--db", db];
  const made = await subject.run(t, [...words, ...where], { cwd: program.cwd });
  assert.equal(made.code, 0, made.stderr);
  return new Client(url, bearer(JSON.parse(made.stdout).key.key));
}
