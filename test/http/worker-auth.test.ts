import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { newWorkerToken } from "../../src/domain/account/key.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { openBeside, startTestDaemon } from "../helpers/daemon.ts";
import { headerLines, openRaw, type RawRequest } from "../helpers/raw-http.ts";
import { ask, askOn, codeOf, complaints, JSON_TYPE, TASKS_READY } from "./answer.ts";
import { startRing } from "./ring.ts";
import { askAsWorker, createTestWorker, WORKER_OPERATIONS, workerPost } from "./worker-requests.ts";

const CHALLENGE = 'Bearer realm="postbackd"';
const INVALID_TOKEN = `${CHALLENGE}, error="invalid_token"`;
const TYPES = '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n';
const CLAIM = { types: ["print"] };
const BEAT = { leases: [] };

async function startWorkers(t: TestContext, limits = "failed_authentications_per_minute = 0") {
  const daemon = await startTestDaemon(t, { toml: `[limits]\n${limits}\n${TYPES}` });
  const token = await createTestWorker(daemon.file, ["print"]);
  return { ...daemon, token };
}

/** A claim with these lines for its credentials. */
function claimWith(lines: readonly string[]): RawRequest {
  const claim = workerPost({ token: "" }, { operation: "claim", body: CLAIM });
  return { ...claim, headers: [...lines, JSON_TYPE] };
}

test("a worker's token is taken as Bearer in any case, and no limit of accounts applies to it", async (t) => {
  const { url, token } = await startWorkers(t, "requests_per_minute = 1");
  for (const scheme of ["Bearer", "bearer", "bEARER"]) {
    const request = claimWith([`Authorization: ${scheme} ${token}`]);
    const { code, response } = await ask(url, request);
    assert.equal(code, 20000, scheme);
    assert.deepEqual(headerLines(response, "ratelimit"), []);
  }
});

test("a malformed Authorization gets the plain Bearer challenge, and an unknown token invalid_token", async (t) => {
  const { url, token, account } = await startWorkers(t);
  const basic = Buffer.from(`press:${token}`).toString("base64");
  const line = `Authorization: Bearer ${token}`;
  const malformed = [
    [[], [line, line], [line, `Authorization: Bearer ${account.key}`], [`Proxy-${line}`]],
    [[`${line} ${token}`], [`${line}, Bearer ${token}`], [`${line}\xff`]],
    [[`Authorization: ${token}`], [`Authorization: Basic ${basic}`], [`X-Api-Key: ${token}`]],
  ].flat();
  const unknown = [
    [account.key, newWorkerToken().key, token.slice(0, -1), `${token}x`, token.toUpperCase(), "x"],
    [token.replace("pbd_work_", "pbd_live_"), token.slice("pbd_work_".length), `"${token}"`],
  ].flat();
  for (const [shapes, challenge] of [
    [malformed, CHALLENGE],
    [unknown.map((value) => [`Authorization: Bearer ${value}`]), INVALID_TOKEN],
  ] as const) {
    for (const lines of shapes) {
      const { response, body } = await ask(url, claimWith(lines));
      assert.deepEqual(headerLines(response, "www-authenticate"), [challenge], lines.join());
      assert.deepEqual(body, { status_code: 40100, status_message: "Authentication failed." });
    }
  }
});

clusterTest("a token revoked by another process is 40101 at the next request", async (t) => {
  const daemon = await startWorkers(t);
  const store = await openBeside(t, daemon);
  const connection = await openRaw(t, daemon.url);
  const request = (operation: (typeof WORKER_OPERATIONS)[number]) =>
    workerPost(daemon, { operation, body: BEAT });
  assert.equal((await askOn(connection, request("heartbeat"))).code, 20000);
  await store.revokeWorker({ name: "press", revokedAt: Date.now() });

  for (const operation of WORKER_OPERATIONS) {
    const { code, response } = await askOn(connection, request(operation));
    assert.equal(code, 40101, operation);
    assert.deepEqual(headerLines(response, "www-authenticate"), [INVALID_TOKEN]);
  }
  const again = await createTestWorker(daemon.file, ["print"]);
  assert.equal((await askAsWorker({ ...daemon, token: again }, "claim", CLAIM)).code, 20000);
  assert.deepEqual(complaints(daemon), []);
});

test("unknown tokens count for the address, which does not delay valid and revoked tokens", async (t) => {
  const daemon = await startWorkers(t, "failed_authentications_per_minute = 3");
  const other = { ...daemon, token: newWorkerToken().key };
  const gone = { ...daemon, token: await createTestWorker(daemon.file, ["print"], "gone") };
  const store = await openBeside(t, daemon);
  await store.revokeWorker({ name: "gone", revokedAt: Date.now() });
  for (const code of [40100, 40100, 40100, 42900, 42900]) {
    assert.equal((await askAsWorker(other, "claim", CLAIM)).code, code);
  }
  for (let i = 0; i < 5; i++) {
    assert.equal((await askAsWorker(daemon, "heartbeat", BEAT)).code, 20000);
    assert.equal((await askAsWorker(gone, "heartbeat", BEAT)).code, 40101);
  }
  const wrongKey = { target: TASKS_READY, headers: ["Authorization: Bearer x"] };
  assert.equal(await codeOf(daemon.url, wrongKey), 42900);
});

test("a token with a wrong checksum costs no read of the store, and any other token one read", async (t) => {
  const hashes: string[] = [];
  const ring = await startRing(t, {
    store: {
      async findWorkerHolder(hash) {
        hashes.push(hash);
        return null;
      },
    },
  });
  const last = ring.token.endsWith("0") ? "1" : "0";
  const mistyped = { ...ring, token: ring.token.slice(0, -1) + last };
  assert.equal((await askAsWorker(mistyped, "claim", CLAIM)).code, 40100);
  assert.deepEqual(hashes, []);
  for (let i = 0; i < 3; i++) await askAsWorker(ring, "claim", CLAIM);
  assert.equal(hashes.length, 3);
  assert.match([...new Set(hashes)].join(), /^[0-9a-f]{64}$/);
});

test("a stop writes when a worker was last seen, and not for refused tokens", async (t) => {
  const daemon = await startWorkers(t);
  await createTestWorker(daemon.file, ["print"], "silent");
  const before = Date.now();
  assert.equal((await askAsWorker(daemon, "heartbeat", BEAT)).code, 20000);
  await askAsWorker({ ...daemon, token: newWorkerToken().key }, "heartbeat", BEAT);
  await daemon.daemon.stop();

  const store = await openBeside(t, daemon);
  const [press, silent, ...others] = await store.listWorkers();
  assert.ok(press?.name === "press" && Number(press.lastSeenAt) >= before);
  assert.deepEqual([silent?.name, silent?.lastSeenAt, others], ["silent", null, []]);
});
