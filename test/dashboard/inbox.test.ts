import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import { startDevProgram, type DevClient } from "../dev/dev-client.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { accessProblems, goTo, hasBrowser, openPage, signInAsOperator } from "./browser.ts";

const HOSTILE = `<img src=x onerror="globalThis.isTaken = true">`;

test("a normal daemon has neither inbox nor clock, and loads no script for them", async (t) => {
  if (!hasBrowser(t)) return;
  const daemon = await startTestDaemon(t);
  const { page } = await openPage(t, daemon.url);
  const requested: string[] = [];
  page.on("request", (request) => requested.push(new URL(request.url()).pathname));
  await signInAsOperator(page, daemon);
  await page.goto(`${daemon.url}/dashboard/inbox`);
  await page.getByRole("heading", { name: "No page exists at this address." }).waitFor();

  assert.equal(await page.getByRole("link", { name: "Inbox" }).count(), 0);
  assert.equal(await page.getByRole("region", { name: "Clock" }).count(), 0);
  assert.deepEqual(
    requested.filter((path) => /\/dev[-/]/.test(path)),
    [],
  );
});

interface Visit {
  readonly dev: DevClient;
  readonly page: Page;
}

test("the dashboard of postbackd dev", async (t) => {
  if (!hasBrowser(t)) return;
  const dev = await startDevProgram(t);
  const steps = {
    "a received message is shown as text": showsText,
    "a webhook appears with its verdict, its explanation and its task": showsWebhook,
    "a new task has an inbox or a URL as target, and starts by the virtual clock": postsTask,
    "an inbox sends the responses of the form, refuses invalid ones, and is emptied": setsResponses,
    "the clock is advanced by buttons that list the events, and ends no session": advancesClock,
  };
  for (const [name, step] of Object.entries(steps)) {
    await t.test(name, async (part) => step({ dev, page: await visitDev(part, dev) }));
  }
});

async function showsText({ dev, page }: Visit): Promise<void> {
  await fetch(`${dev.ready.url}/inbox/hostile?q=${encodeURIComponent(HOSTILE)}`, {
    method: "POST",
    headers: { "x-evil": HOSTILE },
    body: JSON.stringify({ [HOSTILE]: HOSTILE }),
  });
  await goTo(page, "Inbox");
  await page.getByRole("link", { name: "hostile" }).click();
  await page.getByText("#1").click();
  await page.getByText("The message has no X-Signature.").waitFor();

  await page.getByText(`x-evil: ${HOSTILE}`).waitFor();
  await page.getByRole("button", { name: "Raw" }).click();
  assert.equal(await page.evaluate("globalThis.isTaken"), undefined);
  assert.deepEqual(await accessProblems(page), []);
}

async function showsWebhook({ dev, page }: Visit): Promise<void> {
  await page.goto(`${dev.ready.url}/dashboard/inbox/${dev.ready.account}`);
  await page.getByText("No messages").waitFor();
  const [id = ""] = await dev.post({ postback_url: dev.ready.inbox_url });
  await page.getByText("postback, attempt 1, answered 200").click();
  await page.getByText("The signature is valid.").waitFor();

  await page.getByRole("link", { name: `Task ${id}` }).click();
  await page.getByRole("heading", { level: 1 }).filter({ hasText: id }).waitFor();
}

async function postsTask({ dev, page }: Visit): Promise<void> {
  await goTo(page, "Tasks");
  await page.getByRole("button", { name: "New task…" }).click();
  const dialog = page.getByRole("dialog", { name: "New task" });
  await dialog.getByLabel("Account", { exact: true }).fill(dev.ready.account);
  const target = (of: string) => dialog.getByRole("group", { name: `Target of the ${of}` });
  await target("postback").getByRole("button", { name: "Inbox" }).click();
  assert.equal(await dialog.getByLabel("Postback inbox").inputValue(), "dev");
  await dialog.getByLabel("Postback inbox").fill("orders");
  await target("pingback").getByRole("button", { name: "Inbox" }).click();
  await target("pingback").getByRole("button", { name: "URL" }).click();
  assert.equal(await dialog.getByLabel("Pingback URL").inputValue(), "");
  await dialog.getByLabel("Pingback URL").fill(`${dev.ready.url}/inbox/pings/$id`);
  await dialog.getByLabel("Priority").selectOption("7");
  const { now = "" } = await dev.ask("GET /dev/clock");
  const startAt = new Date(Math.ceil(Date.parse(now) / 60_000 + 5) * 60_000);
  const local = await page.evaluate((at) => {
    const date = new Date(at);
    date.setMinutes(date.getMinutes() - date.getTimezoneOffset());
    return date.toISOString().slice(0, 16);
  }, startAt.getTime());
  await dialog.getByLabel("Start").fill(local);
  assert.deepEqual(await accessProblems(page), []);
  await dialog.getByRole("button", { name: "Post the task" }).click();
  await page.getByRole("heading", { name: "queued" }).waitFor();

  const id = /[-\da-f]{36}$/.exec(new URL(page.url()).pathname)?.[0] ?? assert.fail(page.url());
  const { next } = await dev.ask("GET /dev/clock");
  assert.partialDeepStrictEqual(next, [{ at: startAt.toISOString(), what: "task_start" }]);
  await dev.ask("POST /dev/clock/advance", { to: startAt.toISOString() });
  const messages = await dev.look("orders");
  assert.partialDeepStrictEqual(messages, [{ task_id: id, kind: "postback" }]);
  assert.partialDeepStrictEqual(JSON.parse(messages[0]?.body ?? ""), {
    tasks: [{ data: { priority: 7, postback_url: `${dev.ready.url}/inbox/orders` } }],
  });
  const pings = await dev.look("pings");
  assert.partialDeepStrictEqual(pings, [{ url: `/inbox/pings/${id}`, kind: "pingback" }]);
}

async function setsResponses({ dev, page }: Visit): Promise<void> {
  await page.goto(`${dev.ready.url}/dashboard/inbox/shop`);
  await page.getByLabel("Next, one by one").fill("never");
  await page.getByRole("button", { name: "Set" }).click();
  await page.getByText("“never” is not a response").waitFor();
  await page.getByLabel("Next, one by one").fill("500, 503 after 0");
  await page.getByLabel("Then").fill("404");
  await page.getByRole("button", { name: "Set" }).click();
  await page.getByRole("status").filter({ hasText: "Responses of the inbox" }).waitFor();
  const statuses = [];
  for (let sent = 0; sent < 4; sent++)
    statuses.push((await fetch(`${dev.ready.url}/inbox/shop`)).status);

  assert.deepEqual(statuses, [500, 503, 404, 404]);
  await page.getByText(/#\d/).nth(3).waitFor();
  await page.getByRole("button", { name: "Empty it" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Empty it" }).click();
  await page.getByText("No messages").waitFor();
}

async function advancesClock({ dev, page }: Visit): Promise<void> {
  const clock = page.getByRole("region", { name: "Clock" });
  await dev.ask(`PUT /dev/inbox/${dev.ready.account}/answers`, { then: 500 });
  await dev.post({ postback_url: dev.ready.inbox_url });
  await clock.getByRole("button", { name: "+5 m" }).click();
  await clock.getByText("attempt 2 of the postback: 500, scheduled").waitFor();
  const before = await dev.ask("GET /dev/clock");
  await clock.getByRole("button", { name: "Until idle" }).click();
  await clock.getByText("attempt 4 of the postback: 500, given up").waitFor();
  const after = await dev.ask("GET /dev/clock");

  assert.ok(Date.parse(after.now ?? "") > Date.parse(before.now ?? ""));
  assert.deepEqual(await accessProblems(page), []);
  for (let quarter = 0; quarter < 3; quarter++) {
    await clock.getByRole("button", { name: "+15 m" }).click();
    await clock.getByText("Nothing happened.").waitFor();
    await clock.getByRole("button", { name: "Close" }).click();
  }
  // This read fails if the session has ended.
  await page.waitForResponse((response) => response.url().endsWith("/stats/overview"));
  await page.reload();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

/** Opens the dashboard of `postbackd dev` by its address. */
async function visitDev(t: TestContext, dev: DevClient): Promise<Page> {
  const { page } = await openPage(t, dev.ready.url);
  await page.goto(`${dev.ready.url}/dashboard/`);
  await page.getByRole("region", { name: "Clock" }).waitFor();
  return page;
}
