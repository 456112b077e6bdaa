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
      "leads with the failure and its reason, before the webhook that was delivered":
        leadsWithFailure,
      "says of a task that was refused that it never ran, once": tellsRefusal,
      "says first that a task has completed, was cancelled or has yet to run": tellsOthers,
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

async function tellsRefusal(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { tasks } = await daemon.post([{ type: "copy", tag: 7 }]);
  const page = await openSignedIn(t, daemon);

  const sentences = await sentencesOf(page, tasks[0]?.id);

  assert.equal(sentences.length, 1);
  assert.match(
    sentences[0] ?? "",
    /^Task: Refused by task_post, so it never ran and sends nothing: Invalid Field: 'tag'\./,
  );
}

async function tellsOthers(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { tasks } = await daemon.post([{ type: "copy" }, { type: "print" }, { type: "print" }]);
  const [completed, cancelled, queued] = tasks.map(({ id }) => id);
  await daemon.daemon.idle();
  await daemon.call(`/v1/tasks/task_cancel/${cancelled}`, { method: "POST" });
  const page = await openSignedIn(t, daemon);

  const verdicts = [];
  for (const id of [completed, cancelled, queued]) verdicts.push((await sentencesOf(page, id))[0]);

  assert.match(verdicts[0] ?? "", /^Task: Completed after <?\d+ ms\.$/);
  assert.deepEqual(verdicts.slice(1), [
    "Task: Cancelled before it ran.",
    "Task: Queued: it has not run yet.",
  ]);
}

async function openSignedIn(t: TestContext, daemon: TestDaemon): Promise<Page> {
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  return page;
}

/** What the page of a task says before anything else. */
async function sentencesOf(page: Page, id: string | undefined): Promise<readonly string[]> {
  await page.goto(`/dashboard/tasks/${id}`);
  await page.getByRole("heading", { name: id ?? "" }).waitFor();
  return page.getByRole("region", { name: "State" }).locator("p.explanation").allTextContents();
}
