import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { SESSIONS_MAX } from "../../src/domain/account/account.ts";
import { newSessionSecret, sessionHash } from "../../src/domain/account/credentials.ts";
import type { Store } from "../../src/store/store.ts";
import { headerLines, headerOf, openRaw, toBytes, type RawRequest } from "../helpers/raw-http.ts";
import { NOW, revokeKeysOf, startAt9 } from "./account.ts";
import { ask, bearer, posting, taskGet, toAnswer } from "./answer.ts";
import { atStore, cookieLine, createOperatorSession, FROM_PAGE } from "./session-requests.ts";

/** Responses to admitted requests whose credentials are refused before the response. */

async function start(t: TestContext) {
  const { clock, daemon } = await startAt9(t);
  const { tasks } = await daemon.post({ input: 1, start_at: "2030-01-31T10:00:00Z" });
  return { clock, daemon, id: tasks[0]?.id ?? "" };
}

type Setup = Awaited<ReturnType<typeof start>>;

/** Sends a request that waits for the task; settles when the daemon waits. */
async function startWaiting(
  t: TestContext,
  { clock, daemon, id }: Setup,
  headers: readonly string[],
) {
  const asked: RawRequest = { target: taskGet(id), headers: [...headers, "Prefer: wait=60"] };
  // The first use of credentials starts a timer of its own.
  await ask(daemon.url, { target: taskGet(id), headers });
  const timers = clock.pending().length;
  const connection = await openRaw(t, daemon.url);
  connection.send(toBytes(asked));
  await clock.whenPending(timers + 1);
  return { answered: async () => toAnswer(await connection.next()) };
}

/** The task runs and ends. */
async function runOut({ clock, daemon }: Setup): Promise<void> {
  clock.jump(3_600_000);
  await daemon.daemon.idle();
  clock.advance(1000);
  await daemon.daemon.idle();
}

async function isReady({ daemon, id }: Setup): Promise<boolean> {
  const found = await atStore(daemon.file, async (store) => {
    const account = await store.findAccount(daemon.account.login);
    return store.findTask({ accountId: account?.accountId ?? 0, id });
  });
  return found?.isReady ?? false;
}

const REFUSALS: Readonly<
  Record<string, readonly [40101 | 40102, (store: Store) => Promise<unknown>]>
> = {
  "key was revoked": [40101, (store) => revokeKeysOf(store, "tester", NOW)],
  "account was disabled": [
    40102,
    (store) => store.setAccountDisabled({ login: "tester", disabledAt: NOW }),
  ],
};

for (const [what, [code, refuse]] of Object.entries(REFUSALS)) {
  test(`a wait whose ${what} meanwhile is ${code} and collects nothing`, async (t) => {
    const setup = await start(t);
    const waiting = await startWaiting(t, setup, [bearer(setup.daemon)]);
    await atStore(setup.daemon.file, refuse);
    await runOut(setup);

    const late = await waiting.answered();

    assert.equal(late.code, code);
    assert.equal(headerLines(late.response, "www-authenticate").length, 2);
    // No task of a disabled account runs.
    assert.equal(await isReady(setup), code === 40101);
  });

  test(`a wait that times out after its ${what} is ${code}`, async (t) => {
    const setup = await start(t);
    const waiting = await startWaiting(t, setup, [bearer(setup.daemon)]);
    await atStore(setup.daemon.file, refuse);
    setup.clock.advance(60_000);

    assert.equal((await waiting.answered()).code, code);
  });
}

test("a wait whose session ended is 40100 and removes the cookie", async (t) => {
  const setup = await start(t);
  const { url, file } = setup.daemon;
  const { secret, hash } = newSessionSecret();
  await atStore(file, async (store) => {
    const [key] = (await store.listKeys("tester")) ?? [];
    const keyId = key?.keyId ?? "";
    await store.createSession({ hash, keyId, createdAt: NOW, sessionsMax: SESSIONS_MAX });
  });
  const waiting = await startWaiting(t, setup, [...FROM_PAGE, cookieLine(url, secret)]);
  await atStore(file, (store) => store.endSession(hash));
  setup.clock.advance(60_000);

  const late = await waiting.answered();

  assert.equal(late.code, 40100);
  assert.match(headerOf(late.response, "set-cookie") ?? "", /Max-Age=0/);
});

test("a wait of the operator whose session ended is 40100", async (t) => {
  const setup = await start(t);
  const { url, file } = setup.daemon;
  const secret = await createOperatorSession(file, NOW);
  const headers = [...FROM_PAGE, cookieLine(url, secret), "X-Account: tester"];
  const waiting = await startWaiting(t, setup, headers);
  await atStore(file, (store) => store.endSession(sessionHash(secret) ?? ""));
  setup.clock.advance(60_000);

  assert.equal((await waiting.answered()).code, 40100);
});

test("a slow body is refused if its key was revoked meanwhile", async (t) => {
  const { clock, daemon } = await start(t);
  const whole = toBytes(posting(daemon, '{"input":"late"}'));
  const connection = await openRaw(t, daemon.url);
  connection.send(whole.subarray(0, -1));
  // At the third response the daemon has read the earlier requests of other connections.
  for (let i = 0; i < 3; i++) await ask(daemon.url, {});
  await atStore(daemon.file, (store) => revokeKeysOf(store, "tester", NOW));
  clock.advance(2000);
  connection.send(whole.subarray(-1));

  assert.equal(toAnswer(await connection.next()).code, 40101);
});
