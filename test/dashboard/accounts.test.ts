import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { TestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { askAsWorker, createTestWorker } from "../http/worker-requests.ts";
import { forgive, goTo, openPage, signIn, signInAsOperator, takeSteps } from "./browser.ts";

const STRANGE = ["日本", "a\nb\u0000", " tester ", "%74ester", "\ud800"];

const TOML = '[types.echo]\nrunner = "echo"\n[types.work]\nrunner = "worker"\n';

test("an account", (t) =>
  takeSteps(
    t,
    {
      "in the URL that cannot exist is reported to the operator": isReported,
      "in the URL has no effect for an account": hasNoEffect,
      "is disabled after a dialog with the numbers of its work, and the list shows what is held":
        isDisabled,
    },
    { toml: TOML },
  ));

const tasksOf = (login: string): string =>
  `/dashboard/tasks?${new URLSearchParams({ account: login }).toString()}`;

async function isReported(t: TestContext, daemon: TestDaemon): Promise<void> {
  const opened = await openPage(t, daemon.url);
  const { page } = opened;
  await signInAsOperator(page, daemon);
  for (const login of STRANGE) {
    await page.goto(tasksOf(login));
    await page
      .getByText(/No account/)
      .first()
      .waitFor();
  }
  await page.goto(tasksOf("tester"));
  await goTo(page, "Overview");
  assert.equal(await page.getByText(/No account/).count(), 0);
  // A page has several requests, and the browser reports each.
  forgive(opened, /status of 404/);
}

async function hasNoEffect(t: TestContext, daemon: TestDaemon): Promise<void> {
  await daemon.post([{ type: "echo", tag: "own" }]);
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  for (const login of STRANGE) {
    await page.goto(tasksOf(login));
    await page.getByRole("row").filter({ hasText: "own" }).waitFor();
  }
}

async function isDisabled(t: TestContext, daemon: TestDaemon): Promise<void> {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 503 } });
  const token = await createTestWorker(daemon.file, ["work"]);
  await daemon.post([
    ...[1, 2, 3].map(() => ({ type: "work" })),
    { type: "work", start_at: new Date(Date.now() + 3_600_000).toISOString() },
    { type: "echo", postback_url: receiver.url("/hook") },
  ]);
  await askAsWorker({ url: daemon.url, token }, "claim", { types: ["work"], max: 1 });
  await daemon.daemon.idle();
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  await goTo(page, "Accounts");
  const row = page.getByRole("row").filter({ hasText: "tester" });
  await row.getByRole("button", { name: /^Disable/ }).click();
  const dialog = page.getByRole("dialog");

  // Two queued tasks and a delayed one, a running one, and a delivery to be retried.
  assert.deepEqual((await dialog.textContent())?.match(/\d+/g), ["3", "1", "1"]);
  await dialog.getByRole("button", { name: /^Disable/ }).click();

  // The running task is queued again when its lease ends.
  const held = row.getByText(/held/);
  await held.waitFor();
  assert.deepEqual((await held.textContent())?.match(/\d+/g), ["3", "1"]);
}
