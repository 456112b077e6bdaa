import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import type { Page } from "playwright-core";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { type TestDaemon, startTestDaemon } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { forgive, goTo, hasBrowser, mark, openPage, signIn, takeSteps } from "./browser.ts";

const EVENTS = "/v1/events";
const TAGS = "tbody bdi.clipped[title^=tag-]";

test("the live page", (t) =>
  takeSteps(t, {
    "new tasks wait behind a button, and the shown rows stay": newTasksWait,
    "the stream is closed while the tab is hidden, and continues afterwards": pausesWhenHidden,
    "without a stream the page polls every ten seconds until it is live again": pollsWithoutStream,
    "a silent stream is closed, and the page polls": closesSilentStream,
  }));

async function openTasks(t: TestContext, daemon: TestDaemon) {
  const opened = await openPage(t, daemon.url);
  await signIn(opened.page, daemon.account);
  await goTo(opened.page, "Tasks");
  await opened.page.getByText("Live", { exact: true }).waitFor();
  // Read before the next post, so that its task waits behind the button.
  await opened.page.locator(TAGS).first().waitFor();
  return opened;
}

async function tagsShown(page: Page): Promise<readonly string[]> {
  return page.locator(TAGS).allTextContents();
}

async function newTasksWait(t: TestContext, daemon: TestDaemon): Promise<void> {
  await daemon.post([{ tag: "tag-1" }, { tag: "tag-2" }]);
  const { page } = await openTasks(t, daemon);
  await page.getByText("tag-1").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const row = page.getByRole("row").filter({ hasText: "tag-1" });
  const before = await row.boundingBox();

  await daemon.post([{ tag: "tag-3" }]);
  await page.getByRole("button", { name: "1 new" }).waitFor();
  await daemon.post([{ tag: "tag-4" }, { tag: "tag-5" }]);
  await page.getByRole("button", { name: "3 new" }).waitFor();
  assert.deepEqual(await tagsShown(page), ["tag-2", "tag-1"]);
  assert.equal(await row.getAttribute("aria-current"), "true");
  assert.equal((await row.boundingBox())?.y, before?.y);

  await page.keyboard.press("n");
  await page.getByText("tag-5").waitFor();
  assert.deepEqual(await tagsShown(page), ["tag-5", "tag-4", "tag-3", "tag-2", "tag-1"]);
  assert.equal(await page.getByRole("button", { name: /new$/ }).count(), 0);
}

async function pausesWhenHidden(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openTasks(t, daemon);
  const closed = page.waitForEvent("requestfailed", (each) => each.url().endsWith(EVENTS));
  await setVisibility(page, "hidden");
  await page.getByText("Paused", { exact: true }).waitFor();
  await closed;
  // A read from before may be in progress until now.
  const requests: string[] = [];
  page.on("request", (request) => requests.push(new URL(request.url()).pathname));
  await daemon.post([{ tag: "tag-hidden" }]);
  // Any request that the change causes is sent before this one returns.
  await page.evaluate("fetch('/livez').then((response) => response.text())");
  assert.deepEqual(requests, ["/livez"]);

  const resumed = page.waitForRequest((each) => each.url().endsWith(EVENTS));
  await setVisibility(page, "visible");
  assert.match((await (await resumed).allHeaders())["last-event-id"] ?? "", /^[\da-f]{12}\.\d+$/);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByRole("button", { name: "1 new" }).waitFor();
}

/** Acts as a browser that switches tabs. */
async function setVisibility(page: Page, state: "hidden" | "visible"): Promise<void> {
  await page.evaluate(
    `Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
     document.dispatchEvent(new Event("visibilitychange"));`,
  );
}

async function pollsWithoutStream(t: TestContext, daemon: TestDaemon): Promise<void> {
  const opened = await openPage(t, daemon.url);
  const { page } = opened;
  await page.clock.install();
  await page.route(`**${EVENTS}`, (route) => route.abort());
  await signIn(page, daemon.account);
  await goTo(page, "Tasks");
  await page.getByText("Not live: updated every 10 s").waitFor();
  await page.getByText("tag-1", { exact: true }).waitFor();
  await page.clock.pauseAt(Date.now() + MINUTE_MS);
  // Requests caused by the jump are sent before this one returns, and the clock is paused.
  const question = "fetch('/livez').then((response) => response.text())";
  await page.evaluate(question);
  const requests: string[] = [];
  page.on("request", (request) => requests.push(new URL(request.url()).pathname));
  await daemon.post([{ tag: "tag-polled" }]);
  await page.evaluate(question);
  assert.deepEqual(requests, ["/livez"]);
  await page.clock.runFor(10_000);
  await page.clock.resume();
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(requests.filter((path) => path === EVENTS).length, 1);

  await page.unroute(`**${EVENTS}`);
  await page.clock.runFor(10_000);
  await page.getByText("Live", { exact: true }).waitFor();
  forgive(opened, /ERR_FAILED/);
}

async function closesSilentStream(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await page.clock.install();
  // As from a proxy that buffers the response.
  const asked = Promise.withResolvers<void>();
  await page.route(`**${EVENTS}`, () => asked.resolve());
  await signIn(page, daemon.account);
  await asked.promise;
  await page.clock.runFor(MINUTE_MS);
  await page.getByText("Not live: updated every 10 s").waitFor();
  await page.unroute(`**${EVENTS}`);
  await page.clock.runFor(10_000);
  await page.getByText("Live", { exact: true }).waitFor();
}

test("a page recovers when the daemon restarts", async (t) => {
  if (!hasBrowser(t)) return;
  const port = await findFreePort();
  const first = await startTestDaemon(t, { port });
  const { folder, account } = first;
  await first.post([{ tag: "tag-before" }]);
  const opened = await openTasks(t, first);
  const { page } = opened;
  const isSame = await mark(page);
  await first.daemon.stop();
  await page.getByText("Not live: updated every 10 s").waitFor();
  await page.getByText("tag-before").waitFor();

  const second = await startTestDaemon(t, { folder, account, port });
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByRole("alert").waitFor({ state: "detached" });
  await second.post([{ tag: "tag-after" }]);
  await page.getByRole("button", { name: "1 new" }).click();
  await page.getByText("tag-after").waitFor();
  await isSame();
  forgive(opened, /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET/);
  await page.close();
});

const COUNT = 130;

test("the list of tasks", (t) =>
  takeSteps(t, {
    "Escape restores the search and then leaves the field": keepsSearch,
    "Back from a task restores the older page, its rows, scroll position and selection": keepsPlace,
    "opening the list again starts at the top with the newest tasks": startsAtTop,
  }));

/** Opens the list with a search. The first step creates the tasks. */
async function openList(t: TestContext, daemon: TestDaemon, query = ""): Promise<Page> {
  const tasks = Array.from({ length: COUNT }, (_, i) => ({ tag: `order-${i}` }));
  const { tasks: known } = (await (await daemon.call("/v1/tasks?limit=1")).json()) as {
    readonly tasks: readonly unknown[];
  };
  if (known.length === 0) {
    await daemon.post(tasks.slice(0, 100));
    await daemon.post(tasks.slice(100));
    await daemon.daemon.idle();
  }
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  await page.goto(`/dashboard/tasks${query}`);
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
  await page.getByRole("row").nth(1).waitFor();
  return page;
}

async function keepsSearch(t: TestContext, daemon: TestDaemon): Promise<void> {
  const page = await openList(t, daemon, "?q=tag:order-17");
  const field = page.getByLabel("Search tasks");

  await field.fill("tag:order-1");
  await page.keyboard.press("Escape");
  assert.equal(await field.inputValue(), "tag:order-17");
  await page.keyboard.press("Escape");

  assert.equal(await field.inputValue(), "tag:order-17");
  assert.equal(await page.evaluate("document.activeElement === document.body"), true);
  assert.equal(await page.getByRole("row").count(), 2);
}

interface Place {
  readonly url: string;
  readonly tags: readonly string[];
  readonly scrollY: number;
  readonly selected: readonly number[];
  readonly current: number;
}

async function placeOf(page: Page): Promise<Place> {
  const rows = page.locator(".task-table tbody tr");
  const boxes = await rows.getByRole("checkbox").all();
  const isChecked = await Promise.all(boxes.map((box) => box.isChecked()));
  const current = await rows.evaluateAll((all) =>
    all.findIndex((row) => row.getAttribute("aria-current") === "true"),
  );
  return {
    url: page.url(),
    tags: await rows.locator(".of-tag").allTextContents(),
    scrollY: Number(await page.evaluate("Math.round(globalThis.scrollY)")),
    selected: isChecked.flatMap((is, index) => (is ? [index] : [])),
    current,
  };
}

/** Selects two rows far down and makes a third current. */
async function leaveMarks(page: Page): Promise<Place> {
  const rows = page.locator(".task-table tbody tr");
  for (const index of [30, 32]) await rows.nth(index).getByRole("checkbox").check();
  await rows.nth(35).scrollIntoViewIfNeeded();
  await rows.nth(35).locator(".of-tag").click();
  const place = await placeOf(page);
  assert.deepEqual([place.selected, place.current], [[30, 32], 35]);
  assert.ok(place.scrollY > 500, String(place.scrollY));
  return place;
}

async function openTask(page: Page, index: number): Promise<void> {
  await page.locator(".task-table tbody tr").nth(index).getByRole("link").click();
  await page.getByRole("region", { name: "State" }).waitFor();
}

/** Returns to the list by the step, and waits until the list is read and shown. */
async function returnBy(page: Page, step: () => Promise<unknown>): Promise<void> {
  const read = page.waitForResponse((answer) => answer.url().includes("/v1/tasks/search"));
  await step();
  // Chromium reports no end of a 304.
  const answer = await read;
  if (answer.status() !== 304) await answer.finished();
  await page.locator(".task-table").waitFor();
  await page.evaluate(TWO_FRAMES);
}

const TWO_FRAMES =
  "new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(() => next())))";

async function keepsPlace(t: TestContext, daemon: TestDaemon): Promise<void> {
  const page = await openList(t, daemon, "?q=state:completed");
  const [newest] = (await placeOf(page)).tags;
  await returnBy(page, () => page.getByRole("button", { name: "Older tasks" }).click());
  assert.notEqual((await placeOf(page)).tags[0], newest);
  const before = await leaveMarks(page);

  await openTask(page, 34);
  assert.equal(await page.evaluate("globalThis.scrollY"), 0);
  await returnBy(page, () => page.goBack());

  assert.deepEqual(await placeOf(page), { ...before, current: 34 });
}

async function startsAtTop(t: TestContext, daemon: TestDaemon): Promise<void> {
  const page = await openList(t, daemon);
  await leaveMarks(page);
  await goTo(page, "Overview");
  await daemon.post([{ tag: "came-later" }]);

  await goTo(page, "Tasks");
  await page.getByText("came-later").waitFor();

  const { scrollY, selected, current } = await placeOf(page);
  assert.deepEqual({ scrollY, selected, current }, { scrollY: 0, selected: [], current: -1 });
}
