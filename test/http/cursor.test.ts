import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import {
  createTestAccount,
  startTestDaemon,
  type TestAccount,
  type TestDaemon,
} from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { ask } from "./answer.ts";
import { atStore } from "./session-requests.ts";
import { asked, byKey, byOperator, type Asker } from "./task-requests.ts";

/** Cursors of each list of an account, and of the operator's search. */

const LISTS = ["/v1/tasks", "/v1/tasks/tasks_ready", "/v1/tasks/search"] as const;
const MINUTE = 60_000;
const RETENTION_MS = 30 * 24 * 60 * MINUTE;

interface Page {
  readonly next_cursor: string | null;
  readonly tasks: readonly { readonly id: string }[];
}

function toRequest(list: string, who: Asker, cursor: string | null): RawRequest {
  const place = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
  return { target: `${list}?limit=1${place}`, headers: who };
}

async function cursorOf(daemon: TestDaemon, list: string, who: Asker): Promise<string> {
  const { next_cursor: cursor } = await asked<Page>(daemon, toRequest(list, who, null));
  assert(cursor !== null);
  return cursor;
}

async function post(daemon: TestDaemon, { key }: TestAccount, count: number): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = JSON.stringify(Array.from({ length: count }, (_, input) => ({ input })));
  await daemon.call("/v1/tasks/task_post", { method: "POST", headers, body });
  await daemon.daemon.idle();
}

/** A daemon with finished tasks of two accounts. */
async function start(t: TestContext) {
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const daemon = await startTestDaemon(t, { clock });
  const other = await createTestAccount(daemon.file, "other");
  await post(daemon, daemon.account, 3);
  await post(daemon, other, 3);
  return { clock, daemon, who: byKey(daemon), other };
}

// 44 bytes in Base64 without padding.
const SHAPE = /^[A-Za-z0-9_-]{59}$/;

test("a cursor reveals nothing: its length is constant and every byte changes", async (t) => {
  const { daemon, who, other } = await start(t);
  await post(daemon, daemon.account, 9);
  for (const list of LISTS) {
    const bytes = new Map<number, Set<number>>();
    let cursor: string | null = null;
    for (let i = 0; i < 8; i++) {
      const request = toRequest(list, who, cursor);
      const page: Page = await asked<Page>(daemon, request);
      assert.equal((await asked<Page>(daemon, request)).next_cursor, page.next_cursor, list);
      cursor = page.next_cursor;
      assert(cursor !== null);
      assert.match(cursor, SHAPE, list);
      for (const [place, byte] of Buffer.from(cursor, "base64url").entries()) {
        bytes.set(place, (bytes.get(place) ?? new Set()).add(byte));
      }
      if (i === 3) await post(daemon, other, 10);
    }
    // Of eight random bytes all are alike once in 10^17.
    const constant = [...bytes].filter(([, values]) => values.size === 1);
    assert.deepEqual(constant, [], list);
  }
});

test("a cursor of another account, another list or the operator is 40000, as a forged one", async (t) => {
  const { clock, daemon, who, other } = await start(t);
  const operator = await byOperator(daemon, clock.now());
  for (const list of LISTS) {
    const cursor = await cursorOf(daemon, list, who);
    const refused: [string, RawRequest][] = [
      ["another account's", toRequest(list, byKey({ account: other }), cursor)],
      ["forged", toRequest(list, who, forge(cursor))],
      ...LISTS.filter((each) => each !== list).map((each): [string, RawRequest] => [
        `for ${each}`,
        toRequest(each, who, cursor),
      ]),
    ];
    if (list === "/v1/tasks/search") {
      refused.push(["the operator", toRequest(list, operator, cursor)]);
      const all = await cursorOf(daemon, list, operator);
      refused.push(["the operator's", toRequest(list, who, all)]);
    }
    const answers = [];
    for (const [what, request] of refused) {
      const { code, body } = await ask(daemon.url, request);
      assert.equal(code, 40000, `${list}: ${what}`);
      answers.push(body.errors?.[0]?.detail);
    }
    assert.deepEqual(new Set(answers), new Set([REFUSAL]), "all are told the same");
  }
});

/** The cursor with another first byte. */
function forge(cursor: string): string {
  return `${cursor.startsWith("A") ? "B" : "A"}${cursor.slice(1)}`;
}

const REFUSAL =
  "The query parameter 'cursor' takes the next_cursor of an earlier page of this list.";

test("the operator and an account can use each other's cursor of the account's list", async (t) => {
  const { clock, daemon, who } = await start(t);
  const named = [...(await byOperator(daemon, clock.now())), "X-Account: tester"];
  const [own, operators] = [
    await cursorOf(daemon, "/v1/tasks", who),
    await cursorOf(daemon, "/v1/tasks", named),
  ];
  const [first, second] = await Promise.all([
    asked<Page>(daemon, toRequest("/v1/tasks", named, own)),
    asked<Page>(daemon, toRequest("/v1/tasks", who, operators)),
  ]);
  assert.deepEqual(first.tasks, second.tasks);
});

test("a cursor with any changed byte is 40000", async (t) => {
  const { daemon, who } = await start(t);
  const bytes = Buffer.from(await cursorOf(daemon, "/v1/tasks", who), "base64url");
  for (let i = 0; i < bytes.length; i++) {
    const forged = Buffer.from(bytes);
    forged[i] = (forged[i] ?? 0) ^ 1;
    const request = toRequest("/v1/tasks", who, forged.toString("base64url"));
    assert.equal((await ask(daemon.url, request)).code, 40000, `byte ${i}`);
  }
});

test("a cursor is valid after a restart", async (t) => {
  const { clock, daemon, who } = await start(t);
  const cursors = [];
  for (const list of LISTS) cursors.push([list, await cursorOf(daemon, list, who)] as const);
  const expected = [];
  for (const [list, cursor] of cursors) {
    expected.push((await asked<Page>(daemon, toRequest(list, who, cursor))).tasks);
  }
  await daemon.daemon.stop();
  const { folder, account } = daemon;
  const again = await startTestDaemon(t, { clock, folder, account });

  for (const [i, [list, cursor]] of cursors.entries()) {
    const { tasks } = await asked<Page>(again, toRequest(list, who, cursor));
    assert.deepEqual(tasks, expected[i], list);
    assert.equal(tasks.length, 1, list);
  }
});

test("a cursor whose last task was erased continues after it", async (t) => {
  const { clock, daemon, who } = await start(t);
  clock.advance(MINUTE);
  await post(daemon, daemon.account, 2);
  const list = "/v1/tasks/tasks_ready";
  // Oldest first: its first page ends among what is erased.
  const cursor = await cursorOf(daemon, list, who);
  const now = clock.now() - MINUTE / 2 + RETENTION_MS;
  await atStore(daemon.file, (store) => store.eraseExpired({ now, max: 100 }));

  const second = await asked<Page>(daemon, toRequest(list, who, cursor));
  assert.equal(second.tasks.length, 1);
  const third = await asked<Page>(daemon, toRequest(list, who, second.next_cursor));
  assert.equal(third.tasks.length, 1);
  assert.equal(third.next_cursor, null);
});
