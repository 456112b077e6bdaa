import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";

import type { UserData } from "../../src/api/account.ts";
import type { ListedAttempt } from "../../src/api/delivery.ts";
import type { Timeline, TimelineDelivery } from "../../src/api/timeline.ts";
import { signWebhook } from "../../src/domain/webhook/signature.ts";
import {
  DaemonRefusal,
  DaemonUnreachable,
  type AttemptPage,
} from "../../src/listen/account-api.ts";
import { Listener, type ListenerDeps } from "../../src/listen/listener.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";
const URL = "https://example.com/hook";

/** An attempt of the pingback of a task. */
function attempt(id: string, number: number, startedAt: string | null): ListedAttempt {
  return {
    task_id: id,
    type: "a",
    tag: null,
    kind: "pingback",
    number,
    due_at: "2030-01-31T09:00:00.000Z",
    started_at: startedAt,
    cursor: startedAt === null ? `${id}${number}` : null,
  };
}

const STARTED = "2030-01-31T09:00:01.000Z";

type Api = ListenerDeps["api"];

/** The response to a request for attempts. */
type Page = readonly ListedAttempt[] | Error;

/** Listens to a scripted daemon until its last page, and returns all reports. */
async function listenTo(
  t: TestContext,
  {
    scheduled = [],
    pages,
    again = () => [],
    timelines = [],
  }: {
    readonly scheduled?: readonly ListedAttempt[];
    readonly pages: readonly Page[];
    readonly again?: (cursor: string) => readonly ListedAttempt[];
    /** Errors of the first requests for timelines. */
    readonly timelines?: readonly Error[];
  },
) {
  const clock = createFakeClock({ now: Date.parse(STARTED) });
  const stop = new AbortController();
  const events: string[] = [];
  const left = [...pages];
  const faults = [...timelines];
  const api: Api = {
    userData: async () => ({ webhook_secret: SECRET, webhook_secret_next: null }) as UserData,
    async attempts(cursor, limit) {
      if (cursor === null) return page(scheduled);
      if (limit === 1) return page(again(cursor));
      const next = left.shift();
      if (next === undefined) stop.abort();
      if (next instanceof Error) throw next;
      return page(next ?? []);
    },
    async timeline() {
      const fault = faults.shift();
      if (fault !== undefined) throw fault;
      return { deliveries: [delivery()] } as unknown as Timeline;
    },
    taskBytes: async () => null,
  };
  const listener = new Listener({
    ...{ api, clock, type: null, tag: null, stop: stop.signal },
    forwarder: { send: async () => ({ httpStatus: 204, error: null }) },
    report: {
      secrets: () => events.push("secrets"),
      forwarded: ({ task_id: id, number }) => events.push(`${id}${number}`),
      gone: () => events.push("gone"),
      lost: (reason) => events.push(`lost: ${reason}`),
      back: () => events.push("back"),
    },
  });
  t.after(() => stop.abort());
  const end = listener.run();
  let isOver = false;
  const over = end.finally(() => (isOver = true));
  over.catch(() => {});
  while (!isOver) {
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(1000);
  }
  await end;
  return events;
}

function page(attempts: readonly ListedAttempt[]): AttemptPage {
  return {
    status_code: 20000,
    status_message: "Ok.",
    attempts,
    next_cursor: "end",
    more: false,
  };
}

function delivery(): TimelineDelivery {
  const request = {
    ...{ method: "GET", target: "/hook", headers: [], body: { bytes: 0, text: "" }, message: URL },
    ...{ signature: signWebhook(URL, SECRET), signature_next: null },
  } as const;
  return { kind: "pingback", url: URL, request } as unknown as TimelineDelivery;
}

test("forwards a scheduled attempt at its start, and before the next attempt", async (t) => {
  const events = await listenTo(t, {
    scheduled: [attempt("x", 1, null)],
    pages: [[attempt("x", 2, STARTED), attempt("y", 1, STARTED)], []],
    again: () => [attempt("x", 1, STARTED)],
  });

  assert.deepEqual(events, ["secrets", "x1", "x2", "y1"]);
});

test("reads a scheduled attempt again until its start, and forwards it once", async (t) => {
  let asked = 0;
  const events = await listenTo(t, {
    pages: [[attempt("x", 1, null)], [], [], [], [], [], [], []],
    again: () => [attempt("x", 1, asked++ < 2 ? null : STARTED)],
  });

  assert.deepEqual([events, asked], [["secrets", "x1"], 3]);
});

test("forgets a scheduled attempt whose task was erased, although its place has another attempt", async (t) => {
  const events = await listenTo(t, {
    scheduled: [attempt("x", 1, null)],
    pages: [[], [], [], [], []],
    again: () => [attempt("y", 1, STARTED)],
  });

  assert.deepEqual(events, ["secrets"]);
});

test("continues in the middle of a page after an outage, and reports the outage once", async (t) => {
  const gone = new DaemonUnreachable("connection refused");
  const events = await listenTo(t, {
    pages: [gone, gone, [attempt("x", 1, STARTED), attempt("y", 1, STARTED)], []],
    timelines: [gone],
  });

  const lost = "lost: connection refused";
  assert.deepEqual(events, ["secrets", lost, "x1", "y1", "back"]);
});

test("ends when the daemon refuses the key", async (t) => {
  const pages = [new DaemonRefusal("the key was revoked")];

  await assert.rejects(listenTo(t, { pages }), /the key was revoked/);
});
