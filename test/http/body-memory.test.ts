import assert from "node:assert/strict";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { test, type TestContext } from "node:test";

import { newLargeBodies, readBodyBytes } from "../../src/http/body.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import { toAnswer } from "./answer.ts";
import { createTestWorker, outcomesOf, workerPost, type Called } from "./worker-requests.ts";

/** What the bodies of requests hold in memory while they come. */

test("a body in chunks of one byte takes memory in proportion to its bytes", async () => {
  const request = new IncomingMessage(new Socket());
  request.rawHeaders = ["Content-Type", "application/json"];
  request.headers["transfer-encoding"] = "chunked";
  const size = 500_000;
  const bounds = { bytesMax: size, largeFrom: size, isOptional: false };
  const largeBodies = newLargeBodies();
  const reading = readBodyBytes(request, { ...bounds, largeBodies });
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

const RESULT_BYTES = 16 * 1024;
const LARGEST = 4 * RESULT_BYTES;
const LARGEST_AT_ONCE = 16;

async function startLimited(t: TestContext) {
  const limits = `[limits]\nbody = "1KiB"\nresult = ${RESULT_BYTES}\n`;
  const daemon = await startTestDaemon(t, { toml: `${limits}[types.print]\nrunner = "worker"\n` });
  return { ...daemon, token: await createTestWorker(daemon.file, ["print"]) };
}

/** A completion of exactly so many bytes, which asks for nothing that is there. */
function completion(called: Called, bytes: number): Buffer {
  const json = '{"tasks":[null]}';
  const body = json + " ".repeat(bytes - json.length);
  return toBytes(workerPost(called, { operation: "complete", body }));
}

test("large bodies that come together are taken as far as there is room, and small ones all the same", async (t) => {
  const daemon = await startLimited(t);
  const connections = await Promise.all(
    Array.from({ length: LARGEST_AT_ONCE + 4 }, () => openRaw(t, daemon.url)),
  );
  const request = completion(daemon, LARGEST);
  // All but the last byte: none of them is answered unless it is refused.
  for (const connection of connections) connection.send(request.subarray(0, -1));
  const answers = connections.map(async (connection) => toAnswer(await connection.next()));
  const refused = await Promise.race(answers);
  assert.equal(refused.code, 50300);
  assert.equal(headerOf(refused.response, "retry-after"), "1");
  assert.equal(headerOf(refused.response, "connection"), "close");
  assert.deepEqual((await outcomesOf(daemon, "complete", { tasks: [null] })).length, 1);

  for (const connection of connections) connection.send(request.subarray(-1));
  const codes = (await Promise.all(answers)).map(({ code }) => code);
  assert.ok(codes.filter((code) => code === 20000).length >= LARGEST_AT_ONCE - 1, codes.join());
  // What was taken has made room again, and so has what was refused.
  const next = await Promise.all(
    Array.from({ length: LARGEST_AT_ONCE }, async () => {
      const connection = await openRaw(t, daemon.url);
      connection.send(request);
      return toAnswer(await connection.next()).code;
    }),
  );
  assert.deepEqual([...new Set(next)], [20000]);
});
