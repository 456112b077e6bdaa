import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";

import { createTestAccount } from "../helpers/daemon.ts";
import { toBytes } from "../helpers/raw-http.ts";
import { ask, bearer, complaints, posting, TASKS_READY, taskGet } from "./answer.ts";
import { startAt9 } from "./at-nine.ts";

/** The memory of responses that are not read. */

const CONNECTIONS = 40;
// More than the kernel buffers for both ends of a connection.
const SENT_AHEAD = 6;

test("a client that does not read its responses gets no more, and other clients are served", async (t) => {
  const { clock, daemon } = await startAt9(t);
  const other = { account: await createTestAccount(daemon.file, "other") };
  const { tasks } = await daemon.post([{ input: "x".repeat(900_000) }]);
  await daemon.daemon.idle();
  const large = { target: taskGet(tasks[0]?.id ?? ""), headers: [bearer(daemon)] };
  const timers = clock.pending().length;
  const asked = Buffer.concat(Array.from({ length: SENT_AHEAD }, () => toBytes(large)));
  const sockets = Array.from({ length: CONNECTIONS }, () => {
    const socket = connect({ host: "127.0.0.1", port: daemon.daemon.port });
    t.after(() => socket.destroy());
    socket.on("error", () => {});
    socket.write(asked);
    return socket;
  });
  // Half of the room is used: a response waits for room.
  await clock.whenPending(timers + 1);

  assert.equal(
    (await ask(daemon.url, { target: TASKS_READY, headers: [bearer(other)] })).code,
    20000,
  );
  // A small post of the same account needs no room.
  assert.equal((await ask(daemon.url, posting(daemon, '{"input":1}'))).code, 20000);

  const closed = sockets.map((socket) => once(socket, "close"));
  for (const socket of sockets) socket.destroy();
  await Promise.all(closed);
  // The response waits until the server notices the closed connections.
  assert.equal((await ask(daemon.url, large)).code, 20000);
  assert.deepEqual(complaints(daemon), []);
});
