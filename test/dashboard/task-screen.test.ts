import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import type { Page } from "playwright-core";

import type { TestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { openPage, signIn, takeSteps } from "./browser.ts";

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
      "writes the times of explanations in the reader's zone": writesOneZone,
      "writes explanations in UTC for an unknown zone": fallsBackToUtc,
      "searches for a day in the reader's zone": searchesReadersDay,
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

// Without daylight saving time, and not a whole number of hours from UTC.
const TIME_ZONE = "Asia/Tehran";

async function writesOneZone(t: TestContext, daemon: TestDaemon): Promise<void> {
  const id = await deliverOne(t, daemon);
  const { page } = await openPage(t, daemon.url, { timeZone: TIME_ZONE });
  await signIn(page, daemon.account);
  await page.getByText(`Times: ${TIME_ZONE}`).waitFor();
  await page.goto(`/dashboard/tasks/${id}`);
  const stands = page.getByRole("region", { name: "State" });
  await stands.getByText("Delivered:").waitFor();

  const told = (await stands.textContent()) ?? "";
  assert.match(told, / responded with 204 at \d{4}-\d\d-\d\d [\d:]{8} UTC\+3:30 \(/);
  const exact = await stands.locator("time").first().getAttribute("title");
  assert.match(exact ?? "", /[\d:]{8} GMT\+3:30 \(/);
}

async function fallsBackToUtc(t: TestContext, daemon: TestDaemon): Promise<void> {
  const id = await deliverOne(t, daemon);
  const opened = await openPage(t, daemon.url);
  const { page } = opened;
  await signIn(page, daemon.account);
  await page.addInitScript(`
    const { resolvedOptions } = Intl.DateTimeFormat.prototype;
    Intl.DateTimeFormat.prototype.resolvedOptions = function () {
      return { ...resolvedOptions.call(this), timeZone: "Europe/Atlantis" };
    };`);
  await page.goto(`/dashboard/tasks/${id}`);
  await page
    .getByText(/responded with 204 at [-\d]+ [\d:]{8} UTC \(/)
    .first()
    .waitFor();
  for (const complaint of opened.complaints.splice(0)) assert.match(complaint, /status of 400/);
}

async function searchesReadersDay(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url, { timeZone: TIME_ZONE });
  await signIn(page, daemon.account);
  const request = page.waitForRequest((each) => /search\?.*after/.test(each.url()));
  await page.goto("/dashboard/tasks?q=after%3A2026-01-31+before%3A2026-02-01");

  const sent = new URL((await request).url()).searchParams.get("q");

  assert.equal(sent, "after:2026-01-30T20:30:00.000Z before:2026-01-31T20:30:00.000Z");
  const field = page.getByRole("textbox", { name: "Search tasks" });
  assert.equal(await field.inputValue(), "after:2026-01-31 before:2026-02-01");
}

/** The id of a task whose postback has arrived. */
async function deliverOne(t: TestContext, daemon: TestDaemon): Promise<string> {
  const receiver = await startReceiver(t);
  const { tasks } = await daemon.post([{ type: "copy", postback_url: receiver.url() }]);
  await receiver.waitFor(1);
  await daemon.daemon.idle();
  return tasks[0]?.id ?? assert.fail();
}
