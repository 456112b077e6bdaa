import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { TestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { askAsWorker, createTestWorker } from "../http/worker-requests.ts";
import { openPage } from "./browser.ts";
import { signInAsOperator, takeSteps } from "./visit.ts";

const TOML = `
[types.echo]
runner = "echo"
[types.work]
runner = "worker"
`;

test("disabling an account", (t) =>
  takeSteps(
    t,
    { "shows the numbers of its open tasks and deliveries": asksWithNumbers },
    { toml: TOML },
  ));

async function asksWithNumbers(t: TestContext, daemon: TestDaemon): Promise<void> {
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "status", status: 503 });
  const token = await createTestWorker(daemon.file, ["work"], "worker-1");
  await daemon.post([
    ...[1, 2, 3].map(() => ({ type: "work" })),
    { type: "work", start_at: new Date(Date.now() + 3_600_000).toISOString() },
    { type: "echo", postback_url: receiver.url("/hook") },
  ]);
  await askAsWorker({ url: daemon.url, token }, "claim", { types: ["work"], max: 1 });
  await daemon.daemon.idle();
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  await page.goto("/dashboard/accounts");
  await page.getByRole("button", { name: "Disable tester" }).click();
  const dialog = page.getByRole("dialog", { name: "Disable tester?" });
  await dialog.getByText(/3 queued tasks, 1 running task, 1 delivery/).waitFor();
  await dialog.getByRole("button", { name: "Disable the account" }).click();
  const row = page.getByRole("row").filter({ hasText: "tester" });
  await row.getByText("held:").waitFor();
  assert.match((await row.textContent()) ?? "", /held: 3 queued tasks, 1 webhook/);
}
