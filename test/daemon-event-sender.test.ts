import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { EventSender } from "../src/daemon/event-sender.ts";
import { newWebhookSecret } from "../src/domain/account/account.ts";
import type { AttemptResult } from "../src/domain/webhook/delivery.ts";
import type { OperatorEvent } from "../src/domain/webhook/operator-event.ts";
import { createLogger } from "../src/log.ts";
import { readEvent } from "./flow/shown-event.ts";
import { createFakeClock } from "./helpers/fake-clock.ts";
import { startReceiver } from "./helpers/receiver.ts";
import { startSender, toPolicy } from "./net/sender-setup.ts";

const SECRET = newWebhookSecret();
const MINUTE_MS = 60_000;
const EVENT: OperatorEvent = {
  ...{ type: "disk.low", status: "began", time: 0, since: 0, subject: null, hosts: null },
  ...{ what: "the disk is low", remedy: "make room" },
};

/** A sender of events, whose log can be waited for. */
function startEvents(
  t: TestContext,
  url: string | null,
  { allow = ["127.0.0.1"], send }: { allow?: string[]; send?: () => Promise<AttemptResult> } = {},
) {
  const clock = createFakeClock();
  const lines: string[] = [];
  const watches = new Set<() => void>();
  const write = (line: string): void => {
    lines.push(line);
    for (const watch of watches) watch();
  };
  const log = createLogger({ level: "debug", format: "json", write });
  const events = new EventSender({
    ...{ clock, log, node: "east-1", target: { url, secret: SECRET } },
    sender: send === undefined ? startSender(t, { clock, allow }) : { send },
    urlPolicy: () => toPolicy(allow),
    retryAfterMs: [MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS],
  });
  /** Settles when so many lines have this message. */
  const said = (message: string, times = 1): Promise<readonly string[]> =>
    new Promise((resolve) => {
      const watch = (): void => {
        const found = lines.filter((line) => line.includes(`"msg":"${message}`));
        if (found.length < times) return;
        watches.delete(watch);
        resolve(found);
      };
      watches.add(watch);
      watch();
    });
  return { clock, events, lines, said };
}

const AGAIN = "an event was not delivered, and is sent again";
const GIVEN_UP = "an event was not delivered, and is not sent again";

test("an event is retried after 1, 5 and 15 minutes, the same each time, until its receiver is back", async (t) => {
  const down = { kind: "status", status: 503 } as const;
  const receiver = await startReceiver(t, { reply: down });
  const { clock, events, said, lines } = startEvents(t, receiver.url("/5ecret?token=5ecret"));

  events.tell(EVENT);
  await said(AGAIN);
  for (const [index, minutes] of [1, 5].entries()) {
    clock.advance(minutes * MINUTE_MS - 1);
    assert.equal(receiver.requests.length, index + 1);
    clock.advance(1);
    await said(AGAIN, index + 2);
  }
  receiver.answer({ kind: "status", status: 200 });
  clock.advance(15 * MINUTE_MS);
  await said("an event was delivered");

  const told = await Promise.all(receiver.requests.map((request) => readEvent(request, SECRET)));
  assert.deepEqual(
    receiver.requests.map(({ headers }) => headers["x-attempt"]),
    ["1", "2", "3", "4"],
  );
  assert.equal(new Set(told.map((event) => JSON.stringify(event))).size, 1);
  assert.deepEqual([told[0]?.type, told[0]?.node], ["disk.low", "east-1"]);
  assert.doesNotMatch(lines.join(""), /5ecret|whsec_/);
});

test("after four attempts an event is given up, which is logged and told to nobody", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "reset" } });
  const { clock, events, said } = startEvents(t, receiver.url());

  events.tell(EVENT);
  for (const [index, minutes] of [1, 5, 15].entries()) {
    await said(AGAIN, index + 1);
    clock.advance(minutes * MINUTE_MS);
  }
  const [line = ""] = await said(GIVEN_UP);

  assert.match(line, /"level":"warn".*"number":4/);
  clock.advance(60 * MINUTE_MS);
  assert.equal(receiver.requests.length, 4);
});

test("an address that webhooks may not go to is refused at the attempt, and nothing is sent", async (t) => {
  const receiver = await startReceiver(t);
  const { events, said } = startEvents(t, receiver.url(), { allow: [] });

  events.tell(EVENT);
  const [line = ""] = await said(GIVEN_UP);

  assert.match(line, /"outcome":"refused".*webhooks\.allow/);
  assert.equal(receiver.requests.length, 0);
});

test("of a flood a hundred events wait, the others are dropped, and that is logged once", async (t) => {
  const results: PromiseWithResolvers<AttemptResult>[] = [];
  const send = (): Promise<AttemptResult> => {
    const result = Promise.withResolvers<AttemptResult>();
    results.push(result);
    return result.promise;
  };
  const { events, lines } = startEvents(t, "http://127.0.0.1:9/", { send });

  for (let i = 0; i < 1000; i++) events.tell(EVENT);

  assert.equal(results.length, 100);
  assert.equal(lines.filter((line) => line.includes("events are dropped")).length, 1);
});

test("where nobody wants to be told, and after a stop has begun, nothing is sent", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const silent = startEvents(t, null);
  silent.events.tell(EVENT);
  assert.deepEqual(silent.lines, []);

  const { clock, events, said, lines } = startEvents(t, receiver.url());
  events.tell(EVENT);
  await said(AGAIN);
  events.drain();
  events.tell(EVENT);
  clock.advance(60 * MINUTE_MS);

  assert.equal(lines.filter((line) => line.includes("an event is told")).length, 1);
  assert.deepEqual(clock.pending(), []);
});

test("what waits for a retry goes to the new place, signed with the new secret", async (t) => {
  const gone = await startReceiver(t, { reply: { kind: "status", status: 410 } });
  const receiver = await startReceiver(t);
  const { clock, events, said } = startEvents(t, gone.url());
  const secret = newWebhookSecret();
  events.tell(EVENT);
  await said(AGAIN);

  assert.equal(events.aim({ url: receiver.url(), secret }), true);
  assert.equal(events.aim({ url: receiver.url(), secret }), false);
  clock.advance(MINUTE_MS);

  assert.equal((await readEvent(await receiver.next(), secret)).type, "disk.low");
});
