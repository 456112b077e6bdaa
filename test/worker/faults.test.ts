import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { test } from "node:test";
import type { TestContext } from "node:test";

import type { ServiceAnswer } from "../../src/deliver/service-client.ts";
import { createServiceClient } from "../../src/deliver/service-client.ts";
import { systemClock } from "../../src/domain/clock/clock.ts";
import { createLogger } from "../../src/log.ts";
import { Link, waitMsAfter } from "../../src/worker/link.ts";
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
const REFUSED: ServiceAnswer = { kind: "unreachable", error: "connection refused" };

const PROXY_PAGE: ServiceAnswer = {
  kind: "answered",
  status: 401,
  headers: { "content-type": "text/html" },
  body: Buffer.from("<html><h1>401 Authorization Required</h1></html>"),
};

const TOO_LARGE = faultAnswer(413, { status_code: 41300, status_message: "Payload Too Large." });

const PROXY_413: ServiceAnswer = {
  kind: "answered",
  status: 413,
  headers: { "content-type": "text/html" },
  body: Buffer.from("<html><h1>413 Request Entity Too Large</h1></html>"),
};

/** Answers with the first ones of the list, then as the other does. */
function first(answers: readonly ServiceAnswer[], operation: string, then: Answering): Answering {
  const left = [...answers];
  return (asked) => (asked.operation === operation ? left.shift() : undefined) ?? then(asked);
}

const GARBAGE: readonly [what: string, ServiceAnswer][] = [
  ["nobody there", REFUSED],
  ["no HTTP", { kind: "malformed", error: "answer is not valid HTTP" }],
  ["an endless answer", { kind: "too_long", status: 200 }],
  [
    "a server's own fault",
    faultAnswer(500, { status_code: 50000, status_message: "Internal Error." }),
  ],
  ["a daemon that drains", faultAnswer(503, { status_code: 50300 }, { "retry-after": "1" })],
  ["a proxy's page", { kind: "answered", status: 502, headers: {}, body: Buffer.from("<html>") }],
  ["a proxy that knows no such path", faultAnswer(404, "not found")],
  ["a proxy that asks who it is", PROXY_PAGE],
  ["a proxy that forbids it, in JSON", faultAnswer(403, { code: 40301, message: "Forbidden." })],
  ["a code that is none of postbackd's", faultAnswer(401, { status_code: 401 })],
  ["a code of postbackd under another status", faultAnswer(403, { status_code: 50300 })],
  ["a redirect", faultAnswer(302)],
  ["no JSON", { kind: "answered", status: 200, headers: {}, body: Buffer.from("{") }],
  ["an empty body", { kind: "answered", status: 200, headers: {}, body: Buffer.alloc(0) }],
  ["a list", answer([])],
  ["a null", answer(null)],
  ["no tasks", answer({})],
  ["tasks that are none", answer({ tasks: [1] })],
  ["tasks that are no list", answer({ tasks: { length: 1 } })],
  ["a task without a lease", answer({ tasks: [{ id: "a", type: "x" }] })],
  [
    "a lease without an end",
    answer({ tasks: [{ ...claimedTask("a"), lease_expires_at: "soon" }] }),
  ],
  ["an id that is no text", answer({ tasks: [{ ...claimedTask("a"), id: 7 }] })],
  [
    "an input that is too deep",
    answer(JSON.parse(`${'{"tasks":['.repeat(400)}1${"]}".repeat(400)}`)),
  ],
  ["success without its status", faultAnswer(204)],
];

for (const [what, given] of GARBAGE) {
  test(`asks for tasks again, after a pause, where there is ${what}`, async (t) => {
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
    assert.equal(warnings.length, 1, "said once");
    await worker.whenLogged("the daemon answers again");
  });

  test(`tells an end until it is answered, where there is ${what}`, async (t) => {
    const worker = setUpWorker(t, {
      answering: first([given], "complete", giving(["a"])),
    });
    (await worker.running(1)).end(DONE);
    await worker.whenAsked("complete");
    await settled();

    worker.clock.advance(1000);
    const { body } = await worker.whenAsked("complete", 2);

    assert.deepEqual(body, { tasks: [{ id: "a", lease_id: "lease-a", result: 1 }] });
    await worker.whenLogged('"msg":"completed"');
  });

  test(`gives a sign of life again, and keeps the run, where there is ${what}`, async (t) => {
    const worker = setUpWorker(t, {
      answering: first([given], "heartbeat", giving(["a"])),
    });
    const run = await worker.running(1);
    await settled();
    worker.clock.advance(10_000);
    await worker.whenAsked("heartbeat");
    await settled();

    worker.clock.advance(1000);
    await worker.whenAsked("heartbeat", 2);

    assert.equal(run.options.signal.aborted, false);
  });
}

const OUTCOMES = [
  ["too few", []],
  ["other tasks", [{ id: "b", outcome: "ok" }]],
  ["unknown words", [{ id: "a", outcome: "fine" }]],
] as const;

for (const [what, tasks] of OUTCOMES) {
  test(`does not take an end for told whose answer has ${what}`, async (t) => {
    const worker = setUpWorker(t, {
      answering: first([answer({ tasks })], "complete", giving(["a"])),
    });
    (await worker.running(1)).end(DONE);
    await worker.whenAsked("complete");
    await settled();

    worker.clock.advance(1000);

    await worker.whenAsked("complete", 2);
  });
}

const FINAL = [
  [401, 40100, "Authentication failed.", /40100 Authentication failed\. Check the token\.$/],
  [401, 40101, "API key revoked.", /40101 API key revoked\. Make another with 'postbackd admin /],
  [
    403,
    40301,
    "Forbidden.",
    /40301 Forbidden\. It is for: y\. Make a token for it with 'postbackd admin /,
  ],
  [403, 40300, "HTTPS Required.", /40300 HTTPS Required\. Give an https URL\.$/],
  [
    400,
    40501,
    "Invalid Field: 'types'. x is not.",
    /40501 Invalid Field: 'types'\. x is not\. On the daemon [^.]+\.$/,
  ],
  [404, 40400, "Not Found.", /40400 Not Found\. Check the URL: .*without \/v1\.$/],
] as const;

for (const [status, status_code, status_message, reason] of FINAL) {
  // At 40501 the message holds the detail already.
  const details: Readonly<Record<number, string>> = { 40301: "It is for: y.", 40501: "x is not." };
  const detail = details[status_code];
  const errors = detail === undefined ? [] : [{ pointer: "/types/0", detail }];
  const given = faultAnswer(status, { status_code, status_message, errors });

  test(`ends for good when a claim is answered ${status_code}`, async (t) => {
    const worker = setUpWorker(t, { answering: () => given });

    const end = await worker.end;

    assert.equal(end.kind, "refused");
    assert.match(end.kind === "refused" ? end.reason : "", reason);
    assert.equal(worker.isReady(), false);
    assert.equal(worker.asked("claim").length, 1);
  });
}

test("says in the log that a refusal is not the daemon's own, and waits as long as it asks for", async (t) => {
  const given = { ...PROXY_PAGE, headers: { "retry-after": "20" } };
  const worker = setUpWorker(t, { answering: first([given], "claim", giving(["a"])) });
  await worker.whenAsked("claim");
  await settled();

  worker.clock.advance(19_999);
  await settled();
  assert.equal(worker.asked("claim").length, 1);
  worker.clock.advance(1);

  await worker.whenAsked("claim", 2);
  await worker.whenLogged(
    "HTTP 401 that is not postbackd's: is there a proxy that refuses the worker?",
  );
});

test("stops what runs, without a word, when its token is revoked", async (t) => {
  const given = faultAnswer(401, { status_code: 40101, status_message: "API key revoked." });
  const worker = setUpWorker(t, { answering: first([given], "heartbeat", giving(["a"])) });
  const run = await worker.running(1);
  await settled();

  worker.clock.advance(10_000);

  assert.equal((await worker.end).kind, "refused");
  assert.ok(run.options.signal.aborted);
  assert.deepEqual([worker.asked("release"), worker.asked("complete")], [[], []]);
});

test("shows no character of an answer that a terminal would act on", async (t) => {
  const status_message = `\u001b[2J\u202e${"x".repeat(500)}`;
  const worker = setUpWorker(t, {
    answering: () => faultAnswer(401, { status_code: 40100, status_message }),
  });

  const end = await worker.end;

  const reason = end.kind === "refused" ? end.reason : "";
  assert.ok(reason.includes("\ufffd[2J\ufffdxxx") && reason.length < 300, reason);
});

test("waits as long as the daemon asks for", async (t) => {
  const given = faultAnswer(429, { status_code: 42900 }, { "retry-after": "20" });
  const worker = setUpWorker(t, { answering: first([given], "claim", giving(["a"])) });
  await worker.whenAsked("claim");
  await settled();

  worker.clock.advance(19_999);
  await settled();
  assert.equal(worker.asked("claim").length, 1);
  worker.clock.advance(1);

  await worker.whenAsked("claim", 2);
});

test("waits twice as long after each failure, up to 10 s, each worker a little differently", () => {
  const waits = [1, 2, 3, 6, 7, 100, 5000].map((failures) => waitMsAfter(failures, { random: 0 }));

  assert.deepEqual(waits, [250, 500, 1000, 8000, 10_000, 10_000, 10_000]);
  assert.equal(waitMsAfter(1, { random: 1 }), 125);
});

test("does not ask without a pause where answers come at once and empty", async (t) => {
  const worker = setUpWorker(t, { answering: () => answer({ tasks: [] }) });
  await worker.whenAsked("claim", 2);

  for (let count = 2; count < 12; count++) {
    await settled();
    assert.equal(worker.asked("claim").length, count);
    worker.clock.advance(10_000);
    await worker.whenAsked("claim", count + 1);
  }
});

test("claims nothing for a while when the daemon says that it drains", async (t) => {
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

test("cuts a batch that is larger than the daemon reads, and fails the run whose result is", async (t) => {
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

  const message = "The result is larger than the daemon takes.";
  assert.deepEqual(body.tasks, [{ id: "b", lease_id: "lease-b", message, detail: {} }]);
  await worker.whenLogged('"task":"c","msg":"completed"');
});

test("a batch of reports grows again after a 413", async (t) => {
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

test("a 413 of a proxy does not fail a completed task, and holds up no other report", async (t) => {
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

test("a report that a proxy refuses is given up when the lease is over", async (t) => {
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

test("asks for half as many where the answer was too long, though they are leased by now", async (t) => {
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

/** Asks a real server once, over the network. */
async function askReal(t: TestContext, server: Server | ReturnType<typeof createTcpServer>) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  const client = createServiceClient({ socketsMax: 4 });
  t.after(() => {
    client.close();
    server.close();
  });
  const log = createLogger({ level: "silent", format: "json" });
  const url = new URL(`http://127.0.0.1:${address.port}`);
  const link = new Link({ client, url, token: "secret", clock: systemClock, log });
  const { signal } = new AbortController();
  const read = (value: unknown) => value;
  return link.ask({ operation: "claim", body: "{}", read, timeoutMs: 10_000, signal });
}

test("reads no more than 128 MiB of an answer", async (t) => {
  const chunk = Buffer.alloc(1024 * 1024, "[");
  const server = createServer((_request, response) => {
    const more = (): void => {
      while (!response.destroyed && response.write(chunk));
    };
    response.on("drain", more);
    more();
  });

  const reply = await askReal(t, server);

  assert.equal(reply.kind, "passing");
  server.closeAllConnections();
});

test("takes a server that speaks something else for one that is away", async (t) => {
  const server = createTcpServer((socket) => socket.end("220 mail.example ESMTP\r\n"));

  assert.equal((await askReal(t, server)).kind, "passing");
});
