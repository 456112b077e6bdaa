import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { TestDaemon } from "../helpers/daemon.ts";
import { openPage } from "./browser.ts";
import { forgive, goTo, signInAsOperator, takeSteps } from "./visit.ts";

const STRANGE = ["日本", "a\nb\u0000", " tester ", "%74ester", "\ud800"];

test("an account in the URL", (t) =>
  takeSteps(t, {
    "that cannot exist is reported to the operator": isReported,
  }));

async function isReported(t: TestContext, daemon: TestDaemon): Promise<void> {
  const opened = await openPage(t, daemon.url);
  const { page } = opened;
  await signInAsOperator(page, daemon);
  for (const login of STRANGE) {
    const query = new URLSearchParams({ account: login }).toString();
    await page.goto(`${daemon.url}/dashboard/tasks?${query}`);
    const fault = page.getByText(/No account/);
    await fault.first().waitFor();
    forgive(opened, /status of 404/);
  }
  await page.goto(`${daemon.url}/dashboard/tasks?account=tester`);
  await goTo(page, "Overview");
  assert.deepEqual(opened.complaints, []);
}
