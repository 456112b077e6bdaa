import assert from "node:assert/strict";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { test, type TestContext } from "node:test";

import { readBodyBytes, type BodyRoom } from "../../src/http/body.ts";
import { ROOM_WAIT_MS_MAX } from "../../src/http/byte-budget.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf, openRaw, toBytes, toChunks } from "../helpers/raw-http.ts";
import { toAnswer } from "./answer.ts";
import { createTestWorker, outcomesOf, workerPost, type Called } from "./worker-requests.ts";

/** What the bodies of requests hold in memory while they come. */

const PLENTY: BodyRoom = { takeNow: () => true, take: async () => {}, set() {} };

test("a body in chunks of one byte takes memory in proportion to its bytes", async () => {
  const request = new IncomingMessage(new Socket());
  request.rawHeaders = ["Content-Type", "application/json"];
  request.headers["transfer-encoding"] = "chunked";
  const size = 500_000;
  const bounds = { bytesMax: size, isOptional: false };
  const reading = readBodyBytes(request, { ...bounds, room: PLENTY });
  // It looks for room first.
  await Promise.resolve();
  const before = process.memoryUsage().rss;
  for (let i = 1; i < size; i++) request.emit("data", Buffer.alloc(1, " "));
  const grownMiB = (process.memoryUsage().rss - before) / 1024 ** 2;
  request.emit("data", Buffer.from("1"));
  request.emit("end");
  const bytes = await reading;
  assert.equal(bytes?.length, size);
  // Each chunk kept by itself is some 200 bytes more: 100 MiB.
  assert.ok(grownMiB < 60, `${grownMiB} MiB for 0.5 MB`);
});

const MIB = 1024 ** 2;
const NOW = Date.parse("2030-01-31T09:00:00.000Z");

async function startWithWorker(t: TestContext) {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: '[types.print]\nrunner = "worker"\n' });
  return { ...daemon, clock, token: await createTestWorker(daemon.file, ["print"]) };
}

/** A completion that asks for nothing that is there. */
function completion(called: Called, bytes: number): Buffer {
  const json = '{"tasks":[null]}';
  const body = json + " ".repeat(bytes - json.length);
  return toBytes(workerPost(called, { operation: "complete", body }));
}

test("large bodies wait until there is room for all of them, and small ones do not", async (t) => {
  const daemon = await startWithWorker(t);
  const { clock } = daemon;
  const request = completion(daemon, 16 * MIB);
  const connections = await Promise.all(Array.from({ length: 3 }, () => openRaw(t, daemon.url)));
  const timers = clock.pending().length;
  // Two have half of the room there is.
  for (const connection of connections) connection.send(request.subarray(0, 1000));
  await clock.whenPending(timers + 1);
  assert.equal((await outcomesOf(daemon, "complete", { tasks: [null] })).length, 1);

  clock.advance(ROOM_WAIT_MS_MAX);
  const answers = connections.map(async (connection) => ({
    connection,
    answer: toAnswer(await connection.next()),
  }));
  const refused = await Promise.race(answers);
  assert.equal(refused.answer.code, 42900);
  assert.match(refused.answer.body.errors?.[0]?.detail ?? "", /may take 33554432 bytes of one/);
  assert.equal(headerOf(refused.answer.response, "retry-after"), "5");
  assert.equal(headerOf(refused.answer.response, "connection"), "close");

  // Those that are taken in come to their end, and make room again.
  for (const connection of connections) connection.send(request.subarray(1000));
  const codes = (await Promise.all(answers)).map(({ answer }) => answer.code);
  assert.deepEqual(
    codes.toSorted((a, b) => Number(a) - Number(b)),
    [20000, 20000, 42900],
  );
  const next = await openRaw(t, daemon.url);
  next.send(request);
  assert.equal(toAnswer(await next.next()).code, 20000);
});

test("a body in chunks is read to its end as soon as there is room", async (t) => {
  const daemon = await startWithWorker(t);
  const { clock } = daemon;
  const declared = completion(daemon, 16 * MIB);
  const others = await Promise.all(Array.from({ length: 3 }, () => openRaw(t, daemon.url)));
  const timers = clock.pending().length;
  for (const connection of others) connection.send(declared.subarray(0, 1000));
  await clock.whenPending(timers + 1);
  const chunked = await openRaw(t, daemon.url);
  const { headers = [], ...asked } = workerPost(daemon, { operation: "complete", body: "" });
  const body = toChunks(`{"tasks":[null]}${" ".repeat(MIB)}`, 10_000);
  const head = toBytes({
    ...{ ...asked, headers: [...headers, "Transfer-Encoding: chunked"] },
    body: "",
  });
  chunked.send(Buffer.concat([head, body]));
  await clock.whenPending(timers + 2);
  for (const connection of others) connection.reset();
  assert.equal(toAnswer(await chunked.next()).code, 20000);
});
