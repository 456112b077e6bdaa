import assert from "node:assert/strict";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { test, type TestContext } from "node:test";

import { FINE_CHUNKS_MAX, TURN_CHUNKS_MAX } from "../../src/domain/json/chunks.ts";
import { ROOM_WAIT_MS_MAX } from "../../src/http/admission/limits.ts";
import { type BodyRoom, boundFineChunks, readBodyBytes } from "../../src/http/body.ts";
import { headerOf, openRaw, toBytes, toChunks } from "../helpers/raw-http.ts";
import { startAt9 } from "./account.ts";
import { toAnswer } from "./answer.ts";
import { createTestWorker, outcomesOf, workerPost, type Called } from "./worker-requests.ts";

/** The memory of bodies while they arrive. */

const PLENTY: BodyRoom = { takeNow: () => true, take: async () => {}, set() {} };

test("a body with too many small chunks is refused", async () => {
  const inChunks = async (count: number, chunk: string): Promise<number | undefined> => {
    const request = new IncomingMessage(new Socket());
    request.rawHeaders = ["Content-Type", "application/json"];
    request.headers["transfer-encoding"] = "chunked";
    const reading = readBodyBytes(request, { bytesMax: MIB, isOptional: false, room: PLENTY });
    // The body takes room first.
    await Promise.resolve();
    for (let i = 0; i < count; i++) request.emit("data", Buffer.from(chunk));
    request.emit("end");
    return (await reading)?.length;
  };
  // One more chunk is allowed for each 64 bytes.
  const most = Math.floor((FINE_CHUNKS_MAX * 64) / 63);

  assert.equal(await inChunks(most, "1"), most);
  await assert.rejects(inChunks(most + 2, "1"), { code: 40000, headers: { connection: "close" } });
  assert.equal(await inChunks(MIB / 64, "1".repeat(64)), MIB);
});

const MIB = 1024 ** 2;
test("a connection with too many unread chunks is closed", () => {
  const socket = new Socket();
  const request = new IncomingMessage(socket);
  request.headers["transfer-encoding"] = "chunked";
  boundFineChunks(request);
  // Chunks of 512 bytes do not count as small chunks of one turn.
  const send = (count: number): void => {
    for (let i = 0; i < count; i++) request.push(Buffer.alloc(512));
  };

  send(FINE_CHUNKS_MAX + 1);
  assert.equal(socket.destroyed, false);
  assert.equal(request.read()?.length, (FINE_CHUNKS_MAX + 1) * 512);
  send(FINE_CHUNKS_MAX + 1);
  assert.equal(socket.destroyed, false);
  send(1);
  assert.equal(socket.destroyed, true);
});

test("a body with the largest number of unread chunks is read to its end", () => {
  const socket = new Socket();
  const request = new IncomingMessage(socket);
  request.headers["transfer-encoding"] = "chunked";
  boundFineChunks(request);
  for (let i = 0; i <= FINE_CHUNKS_MAX; i++) request.push(Buffer.alloc(512));
  request.push(null);

  assert.equal(socket.destroyed, false);
  assert.equal(request.read()?.length, (FINE_CHUNKS_MAX + 1) * 512);
});

async function startWithWorker(t: TestContext) {
  const { clock, daemon } = await startAt9(t, '[types.print]\nrunner = "worker"\n');
  return { ...daemon, clock, token: await createTestWorker(daemon.file, ["print"]) };
}

/** A completion without a lease. */
function completion(called: Called, bytes: number): Buffer {
  const json = '{"tasks":[null]}';
  const body = json + " ".repeat(bytes - json.length);
  return toBytes(workerPost(called, { operation: "complete", body }));
}

test("large bodies wait for room, and small ones do not", async (t) => {
  const daemon = await startWithWorker(t);
  const { clock } = daemon;
  const request = completion(daemon, 16 * MIB);
  const connections = await Promise.all(Array.from({ length: 3 }, () => openRaw(t, daemon.url)));
  const timers = clock.pending().length;
  // Two bodies use half of the room.
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
  assert.match(refused.answer.body.errors?.[0]?.detail ?? "", /may take 33554432 bytes/);
  assert.equal(headerOf(refused.answer.response, "retry-after"), "5");
  assert.equal(headerOf(refused.answer.response, "connection"), "close");

  // The admitted bodies are read to their end and return their room.
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

test("a chunked body is read to its end when there is room", async (t) => {
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

test("too many chunks in one turn are 40000, and the parser that dropped them reads the next body", async (t) => {
  const daemon = await startWithWorker(t);
  const ask = async (chunks: number): Promise<number | null> => {
    const { headers = [], ...asked } = workerPost(daemon, { operation: "complete", body: "" });
    const head = toBytes({
      ...{ ...asked, headers: [...headers, "Transfer-Encoding: chunked"] },
      body: "",
    });
    const json = '{"tasks":[null]}';
    const body = toChunks(json + " ".repeat(chunks - json.length), 1);
    const connection = await openRaw(t, daemon.url);
    connection.send(Buffer.concat([head, body]));
    const { code } = toAnswer(await connection.next());
    connection.reset();
    return code;
  };

  assert.equal(await ask(TURN_CHUNKS_MAX), 20000);
  assert.equal(await ask(TURN_CHUNKS_MAX * 4), 40000);
  for (let i = 0; i < 3; i++) assert.equal(await ask(TURN_CHUNKS_MAX), 20000);
});
