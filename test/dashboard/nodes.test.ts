import assert from "node:assert/strict";
import { test } from "node:test";

import type { Page } from "playwright-core";

import { startTestDaemon } from "../helpers/daemon.ts";
import { accessProblems, hasBrowser, openPage } from "./browser.ts";
import { signInAsOperator } from "./visit.ts";

const DATABASE = {
  version: "15.14",
  bytes: 3 * 1024 ** 2,
  connections: { used: 12, max: 200 },
  oldest_snapshot: {
    ...{ holder: "session", name: "<b>report</b>", pid: 4711 },
    ...{ age_ms: 75_000, transactions: 1234 },
  },
  standbys: [
    { name: "east", state: "streaming", sync_state: "async", lag_bytes: 2048, lag_ms: 3 },
    { name: "west", state: null, sync_state: null, lag_bytes: null, lag_ms: null },
  ],
  commits_wait: false,
  dead_rows: { queue: 5000, outbox: 7 },
  warnings: ["claims get slower"],
};

/** Replaces the database in the response. */
async function pretend(page: Page, database: typeof DATABASE): Promise<void> {
  await page.route("**/v1/operator/nodes", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...Object(await response.json()), database } });
  });
}

test("the screen of nodes shows the state of PostgreSQL, and nothing for SQLite", async (t) => {
  if (!hasBrowser(t)) return;
  const daemon = await startTestDaemon(t);
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  await page.goto(`${daemon.url}/dashboard/nodes`);
  await page.getByText("answers you").waitFor();
  const panel = page.getByRole("region", { name: "Database PostgreSQL 15.14" });
  assert.equal(await panel.count(), 0);

  await pretend(page, DATABASE);
  await page.reload();

  const text = await panel.innerText();
  for (const shown of [
    "claims get slower",
    "3.0 MiB",
    "12 of 200",
    "1 min 15 s and 1,234 transactions, kept by the session <b>report</b>, process 4711",
    "east streaming, async, 2.0 KiB behind, replays within 3 ms",
    "west no permission to see more (needs pg_monitor)",
    "asynchronous",
    "5,000 in the queue, 7 in the outbox",
  ]) {
    assert(text.includes(shown), `${shown} in ${text}`);
  }
  assert.deepEqual(await accessProblems(page), []);
});
