import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { TestDaemon } from "../helpers/daemon.ts";
import { openPage, signIn } from "./browser.ts";
import { forgive, goTo, signInAsOperator, takeSteps } from "./visit.ts";

const STRANGE = ["日本", "naïve ✓", "a\nb", "\u0000", " tester ", "%74ester", "\ud800"];

test("an account in the URL", (t) =>
  takeSteps(t, {
    "that nobody can have is told so to the operator, and the page goes on": tellsOperator,
    "means nothing to an account, whatever it is": meansNothing,
  }));

async function tellsOperator(t: TestContext, daemon: TestDaemon): Promise<void> {
  const opened = await openPage(t, daemon.url);
  const { page } = opened;
  await signInAsOperator(page, daemon);
  for (const login of STRANGE) {
    const query = new URLSearchParams({ account: login }).toString();
    await page.goto(`${daemon.url}/dashboard/tasks?${query}`);
    const told = page.getByText("No account has the login that X-Account names.");
    await told.first().waitFor();
    // What is refused, the browser says too; nothing else is wrong.
    forgive(opened, /status of 404/);
  }
  await page.goto(`${daemon.url}/dashboard/tasks?account=tester`);
  await goTo(page, "Overview");
  assert.deepEqual(opened.complaints, []);
}

async function meansNothing(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page, complaints } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  for (const login of STRANGE) {
    const query = new URLSearchParams({ account: login }).toString();
    await page.goto(`${daemon.url}/dashboard/tasks?${query}`);
    await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
    assert.equal(await page.getByText("does not answer").count(), 0);
  }
  assert.deepEqual(complaints, []);
}
