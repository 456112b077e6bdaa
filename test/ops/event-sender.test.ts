import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import type { OperatorEvent } from "../../src/domain/webhook/webhook-request.ts";
import { createLogger } from "../../src/log.ts";
import { EventSender } from "../../src/ops/events.ts";
import { startSender, toPolicy } from "../deliver/sender-setup.ts";
import { readEvent } from "../flow/shown-event.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";

const SECRET = newWebhookSecret();
const EVENT: OperatorEvent = {
  ...{ type: "disk.low", status: "began", time: 0, since: 0, subject: null, hosts: null },
  ...{ what: "the disk is low", remedy: "make room" },
};

const FAILED: AttemptResult = {
  ...{ outcome: "failed", httpStatus: null, error: null, address: null },
  ...{ phases: { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null } },
  ...{ responseExcerpt: null, refusal: null, retryAfter: null },
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

test("an event is retried unchanged after 1, 5 and 15 minutes until it is delivered", async (t) => {
  const down = { kind: "status", status: 503 } as const;
  const receiver = await startReceiver(t, { reply: down });
  const { clock, events, said, lines } = startEvents(t, receiver.url("/5ecret?token=5ecret"));
  // A connection that is kept open has timers of some seconds.
  const retries = () => clock.pending().filter((ms) => ms >= MINUTE_MS);

  events.tell(EVENT);
  await said(AGAIN);
  for (const [index, minutes] of [1, 5].entries()) {
    assert.deepEqual(retries(), [minutes * MINUTE_MS]);
    clock.advance(minutes * MINUTE_MS);
    await said(AGAIN, index + 2);
  }
  assert.deepEqual(retries(), [15 * MINUTE_MS]);
  receiver.answer({ kind: "status", status: 200 });
  clock.advance(15 * MINUTE_MS);
  await said("an event was delivered");
  assert.deepEqual(retries(), []);

  const told = await Promise.all(receiver.requests.map((request) => readEvent(request, SECRET)));
  assert.deepEqual(
    receiver.requests.map(({ headers }) => headers["x-attempt"]),
    ["1", "2", "3", "4"],
  );
  assert.equal(new Set(told.map((event) => JSON.stringify(event))).size, 1);
  assert.deepEqual([told[0]?.type, told[0]?.node], ["disk.low", "east-1"]);
  assert.doesNotMatch(lines.join(""), /5ecret|whsec_/);
});

test("an event is given up after four attempts, which is logged", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "reset" } });
  const { clock, events, said } = startEvents(t, receiver.url());

  events.tell(EVENT);
  for (const [index, minutes] of [1, 5, 15].entries()) {
    await said(AGAIN, index + 1);
    clock.advance(minutes * MINUTE_MS);
  }
  const [line = ""] = await said(GIVEN_UP);

  assert.match(line, /"level":"warn".*"attempt":4/);
  assert.equal(receiver.requests.length, 4);
  assert.deepEqual(clock.pending(), []);
});

/** A sender whose attempts end when the test ends them. */
function startAnswered(t: TestContext) {
  const begun: PromiseWithResolvers<AttemptResult>[] = [];
  const send = (): Promise<AttemptResult> => {
    const result = Promise.withResolvers<AttemptResult>();
    begun.push(result);
    return result.promise;
  };
  const made = startEvents(t, "http://127.0.0.1:9/", { send });
  const end = async (outcome: AttemptResult["outcome"]): Promise<void> => {
    // The clock may have been moved just now.
    await setImmediate();
    begun.at(-1)?.resolve({ ...FAILED, outcome });
    await setImmediate();
  };
  return { ...made, begun, end };
}

test("the end of a condition whose event was never delivered cancels both events", async (t) => {
  const { clock, events, begun, end } = startAnswered(t);
  events.tell(EVENT);
  await end("failed");
  assert.deepEqual(clock.pending(), [MINUTE_MS]);

  events.tell({ ...EVENT, status: "ended" });
  await setImmediate();

  assert.equal(begun.length, 1);
  assert.deepEqual(clock.pending(), []);
});

for (const outcome of ["delivered", "timed_out"] as const) {
  test(`the end waits for the attempt of the beginning, and is sent after its outcome ${outcome}`, async (t) => {
    const { clock, events, begun, end } = startAnswered(t);
    events.tell(EVENT);
    events.tell({ ...EVENT, status: "ended" });
    await setImmediate();
    assert.equal(begun.length, 1);

    await end(outcome);
    assert.equal(begun.length, 2);
    await end("delivered");
    assert.equal(begun.length, 2);
    assert.deepEqual(clock.pending(), []);
  });
}

test("a condition that returns replaces its pending end, and sends an end later", async (t) => {
  const { clock, events, begun, end } = startAnswered(t);
  events.tell(EVENT);
  await end("delivered");
  events.tell({ ...EVENT, status: "ended" });
  await end("failed");
  events.tell({ ...EVENT, time: 1, since: 1 });
  await setImmediate();
  await end("failed");
  assert.equal(begun.length, 3);
  assert.deepEqual(clock.pending(), [MINUTE_MS]);

  events.tell({ ...EVENT, time: 2, since: 1, status: "ended" });
  await setImmediate();
  await end("delivered");

  assert.equal(begun.length, 4);
  assert.deepEqual(clock.pending(), []);
});

test("an event that is given up or dropped is lost, and a replaced event is not", async (t) => {
  const { clock, events, end } = startAnswered(t);
  const lost: string[] = [];
  const tell = (name: string, event = EVENT): void => events.tell(event, () => lost.push(name));
  tell("replaced");
  await end("failed");
  tell("given up");
  await setImmediate();
  for (const minutes of [1, 5, 15]) {
    await end("failed");
    assert.deepEqual(lost, []);
    clock.advance(minutes * MINUTE_MS);
  }
  await end("failed");
  assert.deepEqual(lost, ["given up"]);

  for (let i = 0; i < 100; i++) tell("waits", { ...EVENT, subject: `${i}.example` });
  tell("dropped");
  assert.deepEqual(lost, ["given up", "dropped"]);
});

test("an attempt to an address that is not allowed is refused", async (t) => {
  const receiver = await startReceiver(t);
  const { events, said } = startEvents(t, receiver.url(), { allow: [] });

  events.tell(EVENT);
  const [line = ""] = await said(GIVEN_UP);

  assert.match(line, /"outcome":"refused".*webhooks\.allow/);
  assert.equal(receiver.requests.length, 0);
});

test("of a thousand events a hundred wait, and the drop of the others is logged once", async (t) => {
  const { events, begun, lines } = startAnswered(t);

  for (let i = 0; i < 1000; i++) events.tell({ ...EVENT, subject: `${i}.example` });

  assert.equal(begun.length, 100);
  assert.equal(lines.filter((line) => line.includes("events are dropped")).length, 1);
});

test("without a URL, or after drain, no event is sent", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const silent = startEvents(t, null);
  silent.events.tell(EVENT);
  assert.deepEqual(silent.lines, []);

  const { clock, events, said, lines } = startEvents(t, receiver.url());
  events.tell(EVENT);
  await said(AGAIN);
  events.drain();
  events.drain();
  events.tell(EVENT);
  clock.advance(60 * MINUTE_MS);

  const dropped = lines.filter((line) => line.includes("the daemon stops"));
  assert.equal(dropped.length, 1);
  assert.match(dropped[0] ?? "", /"types":\["disk\.low"\]/);
  assert.equal(lines.filter((line) => line.includes("an event is sent")).length, 1);
  assert.deepEqual(clock.pending(), []);
});

test("a retry uses the new URL and the new secret", async (t) => {
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
