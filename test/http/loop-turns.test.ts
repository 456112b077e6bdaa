import assert from "node:assert/strict";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { test } from "node:test";

import { Arrivals, type EventLoop, TurnQueue, shareTurns } from "../../src/http/admission/turns.ts";
import { inTurns, openApiDocument } from "../../src/http/openapi/document.ts";
import { type ShownDocument, referencePieces } from "../../src/http/reference/page.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { exchange } from "../helpers/raw-http.ts";
import { apiOperations } from "./operation-cases.ts";

/** An event loop that the test turns. */
class HandLoop implements EventLoop {
  time = 0;
  #calls: (() => void)[] = [];

  now(): number {
    return this.time;
  }

  goRound(callback: () => void): void {
    this.#calls.push(callback);
  }

  /** False if no callback was waiting. */
  round(): boolean {
    const calls = this.#calls.splice(0);
    for (const call of calls) call();
    return calls.length > 0;
  }
}

interface Sent {
  readonly name: string;
  readonly url?: string;
  readonly address?: string;
  readonly credential?: string;
}

/** A listener behind its turns; each request takes `costMs`. */
function startTurns({ costMs }: { readonly costMs: number }) {
  const loop = new HandLoop();
  const arrivals = new Arrivals(loop);
  const begun: string[] = [];
  const sockets = new Map<string, Socket>();
  const listener = shareTurns(
    (request) => {
      begun.push(String(request.headers["x-name"]));
      loop.time += costMs;
    },
    { arrivals, loop },
  );

  function send({ name, url = "/", address = "192.0.2.1", credential }: Sent): void {
    const socket = new Socket();
    Object.defineProperty(socket, "remoteAddress", { value: address });
    sockets.set(name, socket);
    const request = new IncomingMessage(socket);
    request.url = url;
    request.headers = { "x-name": name, ...(credential && { authorization: credential }) };
    listener(request, new ServerResponse(request));
  }

  /** The requests that start in one turn of the loop. */
  function round(): readonly string[] {
    const before = begun.length;
    loop.round();
    return begun.slice(before);
  }

  /** The requests that start until no request waits. */
  function rest(): readonly string[] {
    const before = begun.length;
    while (loop.round()) continue;
    return begun.slice(before);
  }

  return { arrivals, begun, loop, round, rest, send, sockets };
}

test("a single request starts immediately, and so does the next one a turn later", () => {
  const { begun, round, send } = startTurns({ costMs: 1000 });
  send({ name: "first" });
  assert.deepEqual(begun, ["first"]);
  round();
  send({ name: "second" });
  assert.deepEqual(begun, ["first", "second"]);
});

test("requests start for 5 ms in one turn of the loop, and at least one starts", () => {
  const { begun, rest, round, send } = startTurns({ costMs: 1 });
  for (let i = 1; i <= 12; i++) send({ name: String(i) });
  assert.deepEqual(begun, ["1", "2", "3", "4", "5"]);
  // The next requests start in the next turn.
  assert.deepEqual(round(), []);
  assert.deepEqual(round(), ["6", "7", "8", "9", "10"]);
  assert.deepEqual(rest(), ["11", "12"]);

  const slow = startTurns({ costMs: 60 });
  for (let i = 1; i <= 3; i++) slow.send({ name: String(i) });
  assert.deepEqual(slow.begun, ["1"]);
  const turns = [1, 2, 3, 4].map(() => slow.round().length);
  assert.deepEqual(turns, [0, 1, 0, 1]);
});

test("a new client waits behind one request of each other client", () => {
  const { rest, round, send } = startTurns({ costMs: 5 });
  const flood = { address: "192.0.2.1" };
  for (let i = 0; i < 50; i++) send({ ...flood, name: `flood ${i}` });
  send({ name: "other address", address: "192.0.2.2" });
  send({ ...flood, name: "other key", credential: "Bearer b" });
  send({ ...flood, name: "health", url: "/livez" });
  send({ ...flood, name: "health too", url: "/readyz?x" });
  assert.deepEqual(round(), []);
  const order = rest();
  const places = ["health", "other address", "health too", "other key"].map((name) =>
    order.indexOf(name),
  );
  assert.ok(
    places.every((place) => place >= 0 && place <= 7),
    String(places),
  );
  assert.equal(order.length, 53);
});

test("addresses of one IPv6 network share one turn", () => {
  const { rest, send } = startTurns({ costMs: 5 });
  for (let i = 0; i < 50; i++) send({ name: `flood ${i}`, address: `2001:db8::${i}` });
  send({ name: "other", address: "2001:db8:0:1::1" });
  assert.ok(rest().indexOf("other") <= 1);
});

test("a request of a disconnected client does not start", () => {
  const { rest, send, sockets } = startTurns({ costMs: 5 });
  for (const name of ["first", "gone", "last"]) send({ name });
  sockets.get("gone")?.destroy();
  assert.deepEqual(rest(), ["last"]);
});

test("all requests beyond one round start later", () => {
  const { begun, rest, send } = startTurns({ costMs: 0.01 });
  for (let i = 0; i < 2000; i++) send({ name: String(i) });
  const ahead = begun.length;
  assert.ok(ahead >= 499 && ahead <= 501, String(ahead));
  assert.equal(rest().length, 2000 - ahead);
  assert.deepEqual(
    begun,
    [...begun].toSorted((a, b) => Number(a) - Number(b)),
  );
});

/** Opens a connection in each turn of the loop; returns the number of requests that start in each turn. */
function flood(
  { arrivals, loop, round }: ReturnType<typeof startTurns>,
  { turns, turnMs }: { readonly turns: number; readonly turnMs: number },
): readonly number[] {
  return Array.from({ length: turns }, () => {
    arrivals.note();
    loop.time += turnMs;
    return round().length;
  });
}

test("one or two new connections delay no request", () => {
  const turns = startTurns({ costMs: 1 });
  turns.arrivals.note();
  turns.round();
  turns.send({ name: "over the first" });
  turns.arrivals.note();
  turns.round();
  turns.send({ name: "over the second" });
  assert.deepEqual(turns.rest(), ["over the second"]);
  assert.deepEqual(turns.begun, ["over the first", "over the second"]);
});

test("requests start after 3 ms of new connections", () => {
  const turns = startTurns({ costMs: 5 });
  flood(turns, { turns: 2, turnMs: 1 });
  for (let i = 1; i <= 4; i++) turns.send({ name: String(i) });
  assert.deepEqual(turns.begun, []);

  const begun = flood(turns, { turns: 40, turnMs: 1 });

  assert.deepEqual(turns.begun, ["1", "2", "3", "4"]);
  const gaps = begun.flatMap((count, turn) => (count > 0 ? [turn] : []));
  assert.ok((gaps[0] ?? 0) >= 2 && (gaps[0] ?? 0) <= 6, String(gaps));
  assert.ok(
    gaps.every((turn, i) => i === 0 || turn - (gaps[i - 1] ?? 0) <= 6),
    String(gaps),
  );
});

test("connections and requests both progress in long turns of the loop", () => {
  const turns = startTurns({ costMs: 50 });
  flood(turns, { turns: 2, turnMs: 50 });
  for (let i = 1; i <= 5; i++) turns.send({ name: String(i) });
  const begun = flood(turns, { turns: 30, turnMs: 50 });
  assert.equal(turns.begun.length, 5);
  assert.ok(begun.filter((count) => count === 0).length >= 5);
});

test("waiting requests start when no more connections come", () => {
  const turns = startTurns({ costMs: 1 });
  flood(turns, { turns: 3, turnMs: 0 });
  turns.send({ name: "waiting" });
  assert.deepEqual(turns.begun, []);
  assert.deepEqual(turns.rest(), ["waiting"]);
});

test("deferred work waits for new connections for 3 ms at most", () => {
  const turns = startTurns({ costMs: 1 });
  const { arrivals, loop } = turns;
  let doneAt: number | null = null;
  const note = (): void => void (doneAt = loop.time);
  arrivals.afterwards(note);
  turns.round();
  assert.equal(doneAt, 0);
  flood(turns, { turns: 2, turnMs: 1 });
  doneAt = null;
  const from = loop.time;
  arrivals.afterwards(note);
  flood(turns, { turns: 20, turnMs: 1 });
  assert.ok(doneAt !== null && doneAt - from >= 2 && doneAt - from <= 6, String(doneAt));
});

test("a queue of turns returns its items in turn by every key", () => {
  const queue = new TurnQueue<string>();
  const put = (...names: readonly string[]) => {
    for (const name of names) queue.push(name, [name[0] ?? "", name[1] ?? ""]);
  };
  put("ax1", "ax2", "ay1", "bx1", "ax3", "ay2");
  assert.equal(queue.size, 6);
  const taken = [queue.shift(), queue.shift()];
  put("cz1");
  while (queue.size > 0) taken.push(queue.shift());
  assert.deepEqual(taken, ["ax1", "bx1", "ay1", "cz1", "ax2", "ay2", "ax3"]);
  assert.equal(queue.shift(), undefined);
});

test("other tasks run between two steps of long work", async () => {
  const seen: string[] = [];
  function* work(): Generator<void, string> {
    for (const step of ["a", "b", "c"]) {
      seen.push(step);
      setImmediate(() => seen.push(`after ${step}`));
      yield;
    }
    return "done";
  }

  assert.equal(await inTurns(work()), "done");
  assert.deepEqual(seen, ["a", "after a", "b", "after b", "c", "after c"]);
});

test("an error of a step rejects the work", async () => {
  // It fails at its second step.
  function* work(): Generator<void, string> {
    yield;
    throw new Error("no page");
  }

  await assert.rejects(inTurns(work()), /no page/);
});

test("the document and its reference are made in many small steps", async () => {
  const document = await inTurns(openApiDocument(apiOperations(), "1"));

  const pieces = [...referencePieces(document as unknown as ShownDocument, "/style.css")];

  const { length } = pieces.join("");
  const largest = Math.max(...pieces.map((piece) => piece.length));
  assert.ok(pieces.length > 100, `${pieces.length} pieces`);
  assert.ok(largest < length / 10, `${largest} of ${length} characters in one piece`);
});

test("concurrent requests for the reference get the same page", async (t) => {
  const { url } = await startTestDaemon(t);
  const ask = async (target: string) => (await exchange(url, { target })).body.toString();

  const pages = await Promise.all([ask("/docs"), ask("/docs"), ask("/livez"), ask("/docs")]);

  assert.equal(pages[2], '{"status":"ok"}');
  assert.equal(new Set([pages[0], pages[1], pages[3]]).size, 1);
  assert.match(pages[0] ?? "", /<\/html>\n$/);
});
