import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";

import { createDaemon, createVirtualClock, verifyPostback } from "postbackd";

// How an application handles postbacks, tested with a real daemon: the first one fails, and comes again a minute
// later, which on this clock takes no time at all.
test("a postback that was answered with an error comes again, signed", async (t) => {
  const attempts: { body: Buffer; signature: string | string[] | undefined; attempt: unknown }[] =
    [];
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { "x-signature": signature, "x-attempt": attempt } = request.headers;
    attempts.push({ body: await buffer(request), signature, attempt });
    response.writeHead(attempts.length === 1 ? 500 : 204).end();
  };
  const receiver = createServer((request, response) => void receive(request, response));
  await once(receiver.listen(0, "127.0.0.1"), "listening");
  t.after(() => receiver.close());
  const target = `127.0.0.1:${(receiver.address() as AddressInfo).port}`;

  const clock = createVirtualClock();
  const daemon = await createDaemon({
    types: { double: ({ input }) => 2 * Number(input) },
    // Receivers on private networks are refused unless they are allowed.
    config: { webhooks: { allow: [target] } },
    clock,
  });
  t.after(() => daemon.stop());
  const { key, webhookSecret } = await daemon.account("acme");

  await fetch(`${daemon.url}/v1/tasks/task_post`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify([{ type: "double", input: 21, postback_url: `http://${target}/done` }]),
  });
  await daemon.idle();
  clock.advance(60_000);
  await daemon.idle();

  assert.deepEqual(
    attempts.map(({ attempt }) => attempt),
    ["1", "2"],
  );
  for (const { body, signature } of attempts) {
    assert.ok(await verifyPostback(body, signature, webhookSecret));
    assert.match(body.toString(), /"result":42/);
  }
});
