import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import type { TestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { openPage, signIn } from "./browser.ts";
import { takeSteps } from "./visit.ts";

const TOML = `
[types.convert]
command = ["sh", "-c", "echo no such file >&2; exit 3"]
[types.copy]
runner = "echo"
[types.print]
runner = "worker"
[webhooks]
allow = ["127.0.0.1"]
`;

test("the page of a task", (t) =>
  takeSteps(
    t,
    {
      "starts with the failure and its reason, before the delivered webhook": leadsWithFailure,
      "of a refused task shows the refusal once": showsRefusal,
      "starts with the state of the task": showsOthers,
    },
    { toml: TOML },
  ));

async function leadsWithFailure(t: TestContext, daemon: TestDaemon): Promise<void> {
  const receiver = await startReceiver(t);
  const { tasks } = await daemon.post([{ type: "convert", postback_url: receiver.url() }]);
  await receiver.waitFor(1);
  await daemon.daemon.idle();
  const page = await openSignedIn(t, daemon);

  const [verdict, webhook] = await sentencesOf(page, tasks[0]?.id);

  assert.match(verdict ?? "", /^Task: Failed after \d+ ms: The command exited with code 3\.$/);
  assert.match(webhook ?? "", /^Postback: Delivered: /);
  const titles = await page
    .locator("section[aria-label], section[aria-labelledby]")
    .evaluateAll((sections) => sections.map((each) => each.querySelector("h2")?.textContent ?? ""));
  assert.equal(
    titles.find((title) => title !== ""),
    "Error",
  );
  await page.getByRole("region", { name: "Error" }).getByText("no such file").waitFor();
}

async function showsRefusal(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { tasks } = await daemon.post([{ type: "copy", tag: 7 }]);
  const page = await openSignedIn(t, daemon);

  const sentences = await sentencesOf(page, tasks[0]?.id);

  assert.equal(sentences.length, 1);
  assert.match(sentences[0] ?? "", /^Task: Refused .*: Invalid Field: 'tag'\./);
}

async function showsOthers(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { tasks } = await daemon.post([{ type: "copy" }, { type: "print" }, { type: "print" }]);
  const [completed, cancelled, queued] = tasks.map(({ id }) => id);
  await daemon.daemon.idle();
  await daemon.call(`/v1/tasks/task_cancel/${cancelled}`, { method: "POST" });
  const page = await openSignedIn(t, daemon);

  const verdicts = [];
  for (const id of [completed, cancelled, queued]) verdicts.push((await sentencesOf(page, id))[0]);

  for (const [i, state] of ["Completed", "Cancelled", "Queued"].entries()) {
    assert(verdicts[i]?.startsWith(`Task: ${state}`), verdicts[i]);
  }
}

async function openSignedIn(t: TestContext, daemon: TestDaemon): Promise<Page> {
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  return page;
}

/** The explanations at the top of a task's page. */
async function sentencesOf(page: Page, id: string | undefined): Promise<readonly string[]> {
  await page.goto(`/dashboard/tasks/${id}`);
  await page.getByRole("heading", { name: id ?? "" }).waitFor();
  return page.getByRole("region", { name: "State" }).locator("p.explanation").allTextContents();
}
