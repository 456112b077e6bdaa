import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import type { TestDaemon } from "../helpers/daemon.ts";
import { openPage, signIn } from "./browser.ts";
import { goTo, takeSteps } from "./visit.ts";

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
