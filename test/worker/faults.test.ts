import assert from "node:assert/strict";
import { test } from "node:test";

import type { ServiceAnswer } from "../../src/deliver/service-client.ts";
import { createServiceClient } from "../../src/deliver/service-client.ts";
import { systemClock } from "../../src/domain/clock/clock.ts";
import { createLogger } from "../../src/log.ts";
import { Link, waitMsAfter } from "../../src/worker/link.ts";
import { startReceiver } from "../helpers/receiver.ts";
import {
  answer,
  type Answering,
  claimedTask,
  faultAnswer,
  giving,
  outcomes,
  settled,
  setUpWorker,
} from "./worker-setup.ts";

const DONE = { kind: "completed", resultText: "1" } as const;
const HEAD = "HTTP/1.1 200 OK\r\n\r\n";

function answered(status: number, body: string, headers = {}): ServiceAnswer {
  return { kind: "answered", status, headers, body: Buffer.from(body) };
}

const PROXY_PAGE = answered(401, "<html><h1>401 Authorization Required</h1></html>");
const PROXY_413 = answered(413, "<html><h1>413 Request Entity Too Large</h1></html>");
const TOO_LARGE = faultAnswer(413, { status_code: 41300, status_message: "Payload Too Large." });

/** Responds with the first ones of the list, then as the other does. */
function first(answers: readonly ServiceAnswer[], operation: string, then: Answering): Answering {
  const left = [...answers];
  return (asked) => (asked.operation === operation ? left.shift() : undefined) ?? then(asked);
}

const BAD: readonly [name: string, ServiceAnswer][] = [
  ["a refused connection", { kind: "unreachable", error: "connection refused" }],
  ["invalid HTTP", { kind: "malformed", error: "response is not valid HTTP" }],
  ["an endless response", { kind: "too_long", status: 200 }],
  ["a 50000", faultAnswer(500, { status_code: 50000, status_message: "Internal Error." })],
  ["a 50300", faultAnswer(503, { status_code: 50300 }, { "retry-after": "1" })],
  ["a 502 page", answered(502, "<html>")],
  ["a 404 of a proxy", faultAnswer(404, "not found")],
  ["a 401 page", PROXY_PAGE],
  ["a 403 of a proxy in JSON", faultAnswer(403, { code: 40301, message: "Forbidden." })],
  ["a 401 with an unknown code", faultAnswer(401, { status_code: 401 })],
  ["a 403 with the code of another status", faultAnswer(403, { status_code: 50300 })],
  ["a redirect", faultAnswer(302)],
  ["broken JSON", answered(200, "{")],
  ["an empty body", answered(200, "")],
  ["a list", answer([])],
  ["null", answer(null)],
  ["no tasks", answer({})],
  ["a number as task", answer({ tasks: [1] })],
  ["tasks that are not a list", answer({ tasks: { length: 1 } })],
  ["a task without a lease", answer({ tasks: [{ id: "a", type: "x" }] })],
  [
    "a lease without an end",
    answer({ tasks: [{ ...claimedTask("a"), lease_expires_at: "soon" }] }),
  ],
  ["a number as id", answer({ tasks: [{ ...claimedTask("a"), id: 7 }] })],
  ["deep JSON", answer(JSON.parse(`${'{"tasks":['.repeat(400)}1${"]}".repeat(400)}`))],
  ["success with another status", faultAnswer(204)],
];

for (const [name, given] of BAD) {
  test(`repeats a claim after ${name}, and logs that once`, async (t) => {
    const worker = setUpWorker(t, {
      answering: first([given, given], "claim", giving(["a"])),
    });

    await worker.whenAsked("claim");
    await settled();
    assert.equal(worker.asked("claim").length, 1);
    worker.clock.advance(1000);
    await worker.whenAsked("claim", 2);
    await settled();
    worker.clock.advance(1000);
    (await worker.running(1)).end(DONE);

    await worker.whenAsked("complete");
    const warnings = worker.logged.filter((line) => line.includes('"level":"warn"'));
    assert.equal(warnings.length, 1);
  });
}

const BAD_OUTCOMES = [[], [{ id: "b", outcome: "ok" }], [{ id: "a", outcome: "fine" }]];
const BAD_REPORTS: readonly [name: string, ServiceAnswer][] = [
  ...BAD.filter(([name]) => /connection|50000|401 page|redirect|broken|empty/.test(name)),
  ...BAD_OUTCOMES.map(
    (tasks) => [JSON.stringify(tasks), answer({ tasks })] as [string, ServiceAnswer],
  ),
];
for (const [name, given] of BAD_REPORTS) {
  test(`repeats a completion and a heartbeat after ${name}, and keeps the run`, async (t) => {
    const give = first([given], "heartbeat", giving(["a"]));
    const worker = setUpWorker(t, { answering: first([given], "complete", give) });
    const run = await worker.running(1);
    await settled();
    worker.clock.advance(10_000);
    await worker.whenAsked("heartbeat");
    await settled();
    worker.clock.advance(10_000);
    await worker.whenAsked("heartbeat", 2);
    assert.equal(run.options.signal.aborted, false);

    run.end(DONE);
    await worker.whenAsked("complete");
    await settled();
    worker.clock.advance(1000);
    const { body } = await worker.whenAsked("complete", 2);
    assert.deepEqual(body, { tasks: [{ id: "a", lease_id: "lease-a", result: 1 }] });
    await worker.whenLogged('"msg":"completed"');
  });
}

for (const [status, status_code] of [
  [401, 40100],
  [401, 40101],
  [403, 40301],
  [403, 40300],
  [400, 40501],
  [404, 40400],
] as const) {
  test(`ends permanently when a claim is ${status_code}, with the code and the detail`, async (t) => {
    const errors = [{ pointer: "/types/0", detail: "It is for: y." }];
    const given = faultAnswer(status, { status_code, status_message: "No.", errors });
    const worker = setUpWorker(t, { answering: () => given });

    const end = await worker.end;

    assert.ok(end.kind === "refused" && end.reason.includes(String(status_code)));
    assert.equal(end.reason.split("It is for: y.").length, 2, end.reason);
    assert.deepEqual([worker.isReady(), worker.asked("claim").length], [false, 1]);
  });
}

for (const [name, given] of [
  ["a daemon", faultAnswer(429, { status_code: 42900 }, { "retry-after": "20" })],
  ["a proxy", answered(401, "<html>", { "retry-after": "20" })],
] as const) {
  test(`waits for the Retry-After of ${name}`, async (t) => {
    const worker = setUpWorker(t, { answering: first([given], "claim", giving(["a"])) });
    await worker.whenAsked("claim");
    await settled();

    worker.clock.advance(19_999);
    await settled();
    assert.equal(worker.asked("claim").length, 1);
    worker.clock.advance(1);

    await worker.whenAsked("claim", 2);
  });
}

test("stops its runs without a report when its token is revoked", async (t) => {
  const given = faultAnswer(401, { status_code: 40101, status_message: "API key revoked." });
  const worker = setUpWorker(t, { answering: first([given], "heartbeat", giving(["a"])) });
  const run = await worker.running(1);
  await settled();

  worker.clock.advance(10_000);

  assert.equal((await worker.end).kind, "refused");
  assert.ok(run.options.signal.aborted);
  assert.deepEqual([worker.asked("release"), worker.asked("complete")], [[], []]);
});

test("replaces control characters of a response in its reason", async (t) => {
  const status_message = `\u001b[2J\u202e${"x".repeat(500)}`;
  const worker = setUpWorker(t, {
    answering: () => faultAnswer(401, { status_code: 40100, status_message }),
  });

  const end = await worker.end;

  const reason = end.kind === "refused" ? end.reason : "";
  assert.ok(reason.includes("\ufffd[2J\ufffdxxx") && reason.length < 300, reason);
});

test("waits twice as long after each failure, up to 10 s, less up to a half at random", () => {
  const waits = [1, 2, 3, 6, 7, 100, 5000].map((failures) => waitMsAfter(failures, { random: 0 }));

  assert.deepEqual(waits, [250, 500, 1000, 8000, 10_000, 10_000, 10_000]);
  assert.equal(waitMsAfter(1, { random: 1 }), 125);
});

test("pauses between immediate empty claims", async (t) => {
  const worker = setUpWorker(t, { answering: () => answer({ tasks: [] }) });
  await worker.whenAsked("claim", 2);

  for (let count = 2; count < 12; count++) {
    await settled();
    assert.equal(worker.asked("claim").length, count);
    worker.clock.advance(10_000);
    await worker.whenAsked("claim", count + 1);
  }
});

test("claims nothing for 5 s after a heartbeat with drain", async (t) => {
  const give = giving(["a", "b"]);
  const worker = setUpWorker(t, {
    answering: (asked) => {
      const { operation, body } = asked;
      return operation === "heartbeat" ? outcomes(body.leases, "ok", { drain: true }) : give(asked);
    },
  });
  const run = await worker.running(1);
  await settled();
  worker.clock.advance(10_000);
  await worker.whenAsked("heartbeat");
  await settled();

  run.end(DONE);
  await worker.whenAsked("complete");
  await settled();
  assert.equal(worker.asked("claim").length, 1);
  worker.clock.advance(5000);

  await worker.whenAsked("claim", 2);
});

test("splits a batch after a 41300, and fails the run with a too large result", async (t) => {
  const large = "x".repeat(1000);
  const give = giving(["a", "b", "c"]);
  const worker = setUpWorker(t, {
    concurrency: 3,
    answering: (asked) => (asked.text.length > 900 ? TOO_LARGE : give(asked)),
  });
  const [a, b, c] = await Promise.all([1, 2, 3].map((n) => worker.running(n)));
  a?.end(DONE);
  b?.end({ kind: "completed", resultText: JSON.stringify(large) });
  c?.end(DONE);

  const { body } = await worker.whenAsked("fail");

  assert.partialDeepStrictEqual(body.tasks, [{ id: "b", lease_id: "lease-b", detail: {} }]);
  await worker.whenLogged('"task":"c","msg":"completed"');
});

test("grows its batches again after a 41300", async (t) => {
  const ids = Array.from({ length: 50 }, (_, i) => `t${i}`);
  const rounds = 4;
  const give = giving(
    Array.from({ length: rounds }, (_, round) => ids.map((id) => `${id}.${round}`)).flat(),
  );
  const worker = setUpWorker(t, {
    concurrency: ids.length,
    answering: first([TOO_LARGE, TOO_LARGE, TOO_LARGE], "complete", give),
  });

  for (let round = 1; round <= rounds; round++) {
    await worker.running(round * ids.length);
    for (const run of await Promise.all(
      ids.map((_, i) => worker.running((round - 1) * 50 + i + 1)),
    ))
      run.end(DONE);
    await worker.whenLogged('"msg":"completed"', round * ids.length);
  }

  // 3 refused, 6 + 12 + 25 + 7 in the first round, then whole rounds of at most two requests each.
  assert.ok(worker.asked("complete").length <= 15, `${worker.asked("complete").length} requests`);
});

test("a 413 of a proxy fails no task, and delays no other report", async (t) => {
  const large = JSON.stringify("x".repeat(1000));
  const give = giving(["a", "b", "c"]);
  let isRaised = false;
  const worker = setUpWorker(t, {
    concurrency: 2,
    answering: (asked) => (asked.text.length > 900 && !isRaised ? PROXY_413 : give(asked)),
  });
  (await worker.running(1)).end({ kind: "completed", resultText: large });
  await worker.whenLogged("client_max_body_size");
  (await worker.running(2)).end(DONE);
  await worker.whenLogged('"task":"b","msg":"completed"');
  (await worker.running(3)).end(DONE);
  await worker.whenLogged('"task":"c","msg":"completed"');

  isRaised = true;
  await settled();
  worker.clock.advance(1000);

  await worker.whenLogged('"task":"a","msg":"completed"');
  assert.deepEqual(worker.asked("fail"), []);
  assert.equal(worker.logged.filter((line) => line.includes("client_max_body_size")).length, 1);
});

test("gives up a report that a proxy refuses when the lease is lost", async (t) => {
  const give = giving(["a", "b"]);
  const worker = setUpWorker(t, {
    answering: (asked) => {
      if (asked.operation === "complete") return PROXY_413;
      return asked.operation === "heartbeat" ? outcomes(asked.body.leases, "lost") : give(asked);
    },
  });
  (await worker.running(1)).end(DONE);
  await worker.whenLogged("client_max_body_size");
  await settled();

  worker.clock.advance(10_000);

  await worker.whenLogged("the lease was lost");
  assert.equal((await worker.running(2)).request.id, "b");
});

test("halves max after a too long claim", async (t) => {
  const given: ServiceAnswer = { kind: "too_long", status: 200 };
  const worker = setUpWorker(t, {
    concurrency: 100,
    answering: first([given, given], "claim", giving(["a"])),
  });
  for (const count of [1, 2]) {
    await worker.whenAsked("claim", count);
    await settled();
    worker.clock.advance(1000);
  }
  await worker.whenAsked("claim", 3);

  await worker.whenAsked("claim", 4);

  assert.deepEqual(
    worker.asked("claim").map(({ body }) => body.max),
    [100, 50, 25, 26],
  );
});

for (const [name, reply] of [
  [
    "reads no more than 128 MiB of a response",
    { kind: "flood", head: HEAD, bytes: "[".repeat(2 ** 20) },
  ],
  [
    "treats a server of another protocol as unreachable",
    { kind: "raw", bytes: "220 mail.example ESMTP\r\n", end: true },
  ],
] as const) {
  test(name, async (t) => {
    const server = await startReceiver(t, { reply });
    const client = createServiceClient({ socketsMax: 4 });
    t.after(() => client.close());
    const log = createLogger({ level: "silent", format: "json" });
    const url = new URL(server.url());
    const link = new Link({ client, url, token: "secret", clock: systemClock, log });
    const { signal } = new AbortController();
    const read = (value: unknown) => value;

    const asked = { operation: "claim", body: "{}", read, timeoutMs: 60_000, signal } as const;
    const { kind } = await link.ask(asked);

    assert.equal(kind, "passing");
    await server.whenDisconnected();
  });
}
