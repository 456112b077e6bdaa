import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import type { Page } from "playwright-core";

import { type TestDaemon, testConfig } from "../helpers/daemon.ts";
import { accessProblems, openPage, signInAsOperator, takeSteps } from "./browser.ts";

// A condition that lasts until a restart.
const TOML = 'retention_days = 1\nwebhooks.retry_after = ["2d"]\n';
const HOSTILE = "<img src=x onerror=alert(1)>";

test("conditions", (t) =>
  takeSteps(
    t,
    {
      "are shown in the overview, with a link to their names and remedies": areShown,
      "are shown as text and disappear when they end": areTextAndEnd,
    },
    { toml: TOML },
  ));

test("the screen of the system", (t) =>
  takeSteps(t, {
    "names the changed settings that need a restart next to those in force": namesRestarts,
    "of nodes shows the state of PostgreSQL, and nothing for SQLite": showsPostgres,
  }));

const panel = (page: Page, name: string) => page.getByRole("region", { name });

async function areShown(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  await page.getByRole("listitem").filter({ hasText: "etention_days" }).getByRole("link").click();

  await page.getByRole("heading", { level: 1, name: "System" }).waitFor();
  const listed = panel(page, "Conditions").getByRole("listitem");
  await listed.first().waitFor();
  const text = await listed.innerText();
  for (const part of ["retention.short", "retention_days = 1", "webhooks.retry_after"])
    assert.ok(text.includes(part), `${part} in ${text}`);
  assert.deepEqual(await accessProblems(page), []);
}

/** Replaces a part of the operator's response. */
async function pretend(page: Page, path: string, part: object): Promise<void> {
  await page.unrouteAll();
  await page.route(`**/v1/operator/${path}`, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...Object(await response.json()), ...part } });
  });
}

async function areTextAndEnd(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  const since = "2026-01-31T09:00:00.000Z";
  const failing = ["a.example", "b.example"].map((subject) => {
    return { name: "host.failing", subject, since, text: `${subject} ${HOSTILE}`, remedy: HOSTILE };
  });
  await pretend(page, "system", { conditions: failing });

  await page.goto("/dashboard/system");

  const shown = panel(page, "Conditions").getByRole("listitem");
  await shown.nth(1).waitFor();
  assert.equal(await shown.count(), 2);
  const text = await shown.nth(1).innerText();
  assert.ok(text.includes(`b.example ${HOSTILE}: ${HOSTILE}.`), text);
  assert.equal(await page.locator("img[src=x]").count(), 0);

  await pretend(page, "system", { conditions: [] });

  // The screen polls.
  await panel(page, "Conditions").waitFor({ state: "detached" });
  await page.getByText("Up for").waitFor();
}

async function namesRestarts(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  await page.goto("/dashboard/system");
  const settings = panel(page, "Settings");
  const row = settings.getByRole("row").filter({ hasText: "retention_days" });
  await row.getByText("30", { exact: true }).waitFor();
  assert.doesNotMatch(await settings.innerText(), /restart/);

  daemon.daemon.reload(testConfig(daemon.folder, { toml: "retention_days = 7\n" }));

  await settings.getByText(/restart.*: retention_days/).waitFor();
  await row.getByText("30", { exact: true }).waitFor();
  assert.deepEqual(await accessProblems(page), []);
}

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

async function showsPostgres(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  await page.goto(`${daemon.url}/dashboard/nodes`);
  await page.getByText("answers you").waitFor();
  const panel = page.getByRole("region", { name: "Database PostgreSQL 15.14" });
  assert.equal(await panel.count(), 0);

  await pretend(page, "nodes", { database: DATABASE });
  await page.reload();

  const text = await panel.innerText();
  for (const shown of [
    ...["claims get slower", "3.0 MiB", "12 of 200", "1 min 15 s", "1,234", "<b>report</b>"],
    ...["4711", "east", "2.0 KiB", "3 ms", "west", "pg_monitor", "5,000"],
  ]) {
    assert(text.includes(shown), `${shown} in ${text}`);
  }
  assert.deepEqual(await accessProblems(page), []);
}
