import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { newWorkerToken } from "../../src/domain/account/key.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { openBeside, startTestDaemon } from "../helpers/daemon.ts";
import { headerLines, openRaw, toBytes, type RawRequest } from "../helpers/raw-http.ts";
import { ask, askOn, bearer, complaints, JSON_TYPE, TASKS_READY, toAnswer } from "./answer.ts";
import { startRing } from "./ring.ts";
import {
  askAsWorker,
  createTestWorker,
  WORKER_OPERATIONS,
  workerPath,
  workerPost,
} from "./worker-requests.ts";

const CHALLENGE = 'Bearer realm="postbackd"';
const INVALID_TOKEN = `${CHALLENGE}, error="invalid_token"`;
const TYPES = '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n';

async function startWorkers(t: TestContext, limits = "failed_authentications_per_minute = 0") {
  const daemon = await startTestDaemon(t, { toml: `[limits]\n${limits}\n${TYPES}` });
  const token = await createTestWorker(daemon.file, ["print"]);
  return { ...daemon, token };
}

/** The same request with these lines for its credentials. */
function withLines({ headers: _headers, ...request }: RawRequest, lines: readonly string[]) {
  return { ...request, headers: [...lines, JSON_TYPE] };
}

const SOUND = { claim: { types: ["print"] }, heartbeat: { leases: [] } } as const;

test("takes a worker's token as Bearer, the scheme in any case, and says nothing of limits", async (t) => {
  const daemon = await startWorkers(t, "requests_per_minute = 1");
  for (const operation of ["claim", "heartbeat"] as const) {
    const request = workerPost(daemon, { operation, body: SOUND[operation] });
    for (const scheme of ["Bearer", "bearer", "bEARER"]) {
      const lines = [`Authorization: ${scheme} ${daemon.token}`];
      const { code, response } = await ask(daemon.url, withLines(request, lines));
      assert.equal(code, 20000, `${operation} ${scheme}`);
      assert.deepEqual(headerLines(response, "www-authenticate"), []);
      assert.deepEqual(headerLines(response, "ratelimit"), []);
    }
  }
});

test("refuses every malformed Authorization with 40100 and the one challenge, no more", async (t) => {
  const { url, token, account } = await startWorkers(t);
  const basic = (text: string) => `Authorization: Basic ${Buffer.from(text).toString("base64")}`;
  const plain: readonly (readonly string[])[] = [
    [],
    ["Authorization:"],
    ["Authorization: Bearer"],
    [`Authorization: Bearer  ${token}`],
    [`Authorization: Bearer\t${token}`],
    [`Authorization: Bearer ${token} ${token}`],
    [`Authorization: Bearer ${token}, Bearer ${token}`],
    [`Authorization: Bearer ${token}\xff`],
    [`Authorization: Bearer=${token}`],
    [`Authorization: ${token}`],
    [`Authorization: Token ${token}`],
    [`Authorization: Bearer ${"k".repeat(5000)}`],
    [basic(`press:${token}`)],
    [basic(`${token}:`)],
    [basic(`${account.login}:${account.key}`)],
    [`Authorization: Bearer ${token}`, `Authorization: Bearer ${token}`],
    [`Authorization: Bearer ${token}`, `Authorization: Bearer ${account.key}`],
    [`Proxy-Authorization: Bearer ${token}`],
    [`X-Api-Key: ${token}`],
    [`Cookie: authorization=Bearer ${token}`],
  ];
  const wellFormed = [
    account.key,
    newWorkerToken().key,
    token.slice(0, -1),
    `${token}x`,
    token.toUpperCase(),
    token.replace("pbd_work_", "pbd_live_"),
    token.slice("pbd_work_".length),
    `"${token}"`,
    "x",
  ].map((each) => [`Authorization: Bearer ${each}`]);
  for (const operation of WORKER_OPERATIONS) {
    const request = workerPost({ token }, { operation, body: "not JSON" });
    for (const [shapes, challenge] of [
      [plain, CHALLENGE],
      [wellFormed, INVALID_TOKEN],
    ] as const) {
      for (const lines of shapes) {
        const { code, response, body } = await ask(url, withLines(request, lines));
        assert.equal(code, 40100, JSON.stringify(lines));
        assert.deepEqual(headerLines(response, "www-authenticate"), [challenge], lines.join());
        assert.deepEqual(body, { status_code: 40100, status_message: "Authentication failed." });
      }
    }
    const inQuery = { method: "POST", target: `${workerPath(operation)}?access_token=${token}` };
    assert.equal((await ask(url, inQuery)).code, 40100);
  }
});

test("a worker's token opens nothing of an account's, by either scheme", async (t) => {
  const daemon = await startWorkers(t);
  const { url, token, account } = daemon;
  const basic = Buffer.from(`${account.login}:${token}`).toString("base64");
  for (const target of [TASKS_READY, "/v1/appendix/user_data", "/v1/tasks"]) {
    for (const line of [`Authorization: Bearer ${token}`, `Authorization: Basic ${basic}`]) {
      assert.equal((await ask(url, { target, headers: [line] })).code, 40100, target);
    }
    assert.equal((await ask(url, { target, headers: [bearer(daemon)] })).code, 20000);
  }
});

clusterTest(
  "a revoked token is 40101 from the next request on, whichever process revoked it",
  async (t) => {
    const daemon = await startWorkers(t);
    const store = await openBeside(t, daemon);
    const connection = await openRaw(t, daemon.url);
    const request = (operation: (typeof WORKER_OPERATIONS)[number]) =>
      workerPost(daemon, { operation, body: { leases: [] } });
    assert.equal((await askOn(connection, request("heartbeat"))).code, 20000);
    await store.revokeWorker({ name: "press", revokedAt: Date.now() });

    for (const operation of WORKER_OPERATIONS) {
      const { code, response } = await askOn(connection, request(operation));
      assert.equal(code, 40101, operation);
      assert.deepEqual(headerLines(response, "www-authenticate"), [INVALID_TOKEN]);
    }
    const again = await createTestWorker(daemon.file, ["print"]);
    assert.equal(
      (await askAsWorker({ ...daemon, token: again }, "claim", SOUND.claim)).code,
      20000,
    );
    assert.deepEqual(complaints(daemon), []);
  },
);

test("unknown tokens count for their address, and never hold up a valid or a revoked one", async (t) => {
  const daemon = await startWorkers(t, "failed_authentications_per_minute = 3");
  const other = { ...daemon, token: newWorkerToken().key };
  const revoked = await createTestWorker(daemon.file, ["print"], "gone");
  const store = await openBeside(t, daemon);
  await store.revokeWorker({ name: "gone", revokedAt: Date.now() });
  const codes: (number | null)[] = [];
  for (let i = 0; i < 5; i++) codes.push((await askAsWorker(other, "claim", SOUND.claim)).code);
  assert.deepEqual(codes, [40100, 40100, 40100, 42900, 42900]);
  for (let i = 0; i < 10; i++) {
    assert.equal((await askAsWorker(daemon, "heartbeat", SOUND.heartbeat)).code, 20000);
    const gone = await askAsWorker({ ...daemon, token: revoked }, "heartbeat", SOUND.heartbeat);
    assert.equal(gone.code, 40101);
  }
  const wrongKey = { target: TASKS_READY, headers: ["Authorization: Bearer x"] };
  assert.equal((await ask(daemon.url, wrongKey)).code, 42900, "the count is of the address");
});

test("a token whose checksum does not fit is refused without a look at the store, any other looked up each time", async (t) => {
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
  assert.equal((await askAsWorker(mistyped, "claim", SOUND.claim)).code, 40100);
  assert.deepEqual(hashes, []);
  for (let i = 0; i < 3; i++) await askAsWorker(ring, "claim", SOUND.claim);
  assert.equal(hashes.length, 3);
  assert.equal(new Set(hashes).size, 1);
  assert.match(hashes[0] ?? "", /^[0-9a-f]{64}$/);
});

test("when a worker was last heard is kept, at the latest when the daemon stops; a refused one is not", async (t) => {
  const daemon = await startWorkers(t);
  await createTestWorker(daemon.file, ["print"], "silent");
  const before = Date.now();
  assert.equal((await askAsWorker(daemon, "heartbeat", SOUND.heartbeat)).code, 20000);
  await askAsWorker({ ...daemon, token: newWorkerToken().key }, "heartbeat", SOUND.heartbeat);
  await daemon.daemon.stop();

  const store = await openBeside(t, daemon);
  const workers = await store.listWorkers();
  const times = new Map(workers.map(({ name, lastSeenAt }) => [name, lastSeenAt]));
  assert.deepEqual([...times.keys()], ["press", "silent"]);
  assert.ok(Number(times.get("press")) >= before);
  assert.equal(times.get("silent"), null);
});

test("nothing of a token is logged, also when its request ends in a fault", async (t) => {
  const ring = await startRing(t, { desk: { claim: () => Promise.reject(new Error("broken")) } });
  const body = { types: ["print"], wait_seconds: 1 };
  const connection = await openRaw(t, ring.url);
  connection.send(toBytes(workerPost(ring, { operation: "claim", body })));
  assert.equal(toAnswer(await connection.next()).code, 50000);
  assert.equal(ring.logged.length, 1);
  assert.ok(!JSON.stringify(ring.logged).includes(ring.token.slice(9)));
});
