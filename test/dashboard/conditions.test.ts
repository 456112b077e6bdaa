import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import { testConfig, type TestDaemon } from "../helpers/daemon.ts";
import { accessProblems, openPage } from "./browser.ts";
import { signInAsOperator, takeSteps } from "./visit.ts";

// A condition that lasts until a restart.
const TOML = 'retention_days = 1\nwebhooks.retry_after = ["2d"]\n';
const SHORT = "retention_days = 1 is shorter than the waits of webhooks.retry_after together";
const REMEDY = "raise retention_days or shorten webhooks.retry_after";
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

test("settings that were changed", (t) =>
  takeSteps(t, { "and need a restart are named next to the settings in force": namesRestarts }));

const panel = (page: Page, name: string) => page.getByRole("region", { name });

async function areShown(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  const shown = page.getByRole("listitem").filter({ hasText: `R${SHORT.slice(1)}` });
  assert.match(await shown.innerText(), new RegExp(`R${REMEDY.slice(1)}\\.`));

  await shown.getByRole("link").click();

  await page.getByRole("heading", { level: 1, name: "System" }).waitFor();
  const listed = panel(page, "Conditions").getByRole("listitem");
  await listed.first().waitFor();
  const text = await listed.innerText();
  for (const part of ["retention.short", SHORT, REMEDY, "since "]) {
    assert.ok(text.includes(part), `${part} in ${text}`);
  }
  assert.deepEqual(await accessProblems(page), []);
}

/** Replaces the conditions in the response. */
async function pretend(page: Page, conditions: readonly unknown[]): Promise<void> {
  await page.unrouteAll();
  await page.route("**/v1/operator/system", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...Object(await response.json()), conditions } });
  });
}

async function areTextAndEnd(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  const since = "2026-01-31T09:00:00.000Z";
  const failing = ["a.example", "b.example"].map((subject) => {
    return { name: "host.failing", subject, since, text: `${subject} ${HOSTILE}`, remedy: HOSTILE };
  });
  await pretend(page, failing);

  await page.goto("/dashboard/system");

  const shown = panel(page, "Conditions").getByRole("listitem");
  await shown.nth(1).waitFor();
  assert.equal(await shown.count(), 2);
  const text = await shown.nth(1).innerText();
  assert.ok(text.includes(`b.example ${HOSTILE}: ${HOSTILE}.`), text);
  assert.equal(await page.locator("img[src=x]").count(), 0);

  await pretend(page, []);

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
