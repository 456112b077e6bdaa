import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import type { TestDaemon } from "../helpers/daemon.ts";
import { openPage, signIn } from "./browser.ts";
import { goTo, takeSteps } from "./visit.ts";

const COUNT = 130;

test("the list of tasks", (t) =>
  takeSteps(t, {
    "Escape gives the search back its words, and leaves them": keepsSearch,
    "Back from a task leads to the same rows, at the same height, with the same ones selected":
      keepsPlace,
    "the key back to the list, too, and to an older page": keepsPlaceByKey,
    "new tasks wait behind a button on the way back": letsNewOnesWait,
    "a list that is gone to anew begins at its top, with the newest": beginsAnew,
  }));

/** The list as it is found by that search; the first step of all makes the tasks. */
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

/** Where one is in the list, and what is selected. */
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

/** Selects two rows far down and goes to a third. */
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

/** Does what leads to the list, and waits until the list was read again and shows it. */
async function returnBy(page: Page, step: () => Promise<unknown>): Promise<void> {
  const read = page.waitForResponse((answer) => answer.url().includes("/v1/tasks/search"));
  await step();
  // Nothing of an answer of 304 comes after its head, and Chromium tells of no end.
  const answer = await read;
  if (answer.status() !== 304) await answer.finished();
  await page.locator(".task-table").waitFor();
  await page.evaluate(TWO_FRAMES);
}

const TWO_FRAMES =
  "new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(() => next())))";

async function keepsPlace(t: TestContext, daemon: TestDaemon): Promise<void> {
  const page = await openList(t, daemon, "?q=state:completed");
  const before = await leaveMarks(page);

  await openTask(page, 34);
  assert.equal(await page.evaluate("globalThis.scrollY"), 0);
  await returnBy(page, () => page.goBack());

  assert.deepEqual(await placeOf(page), { ...before, current: 34 });
}

async function keepsPlaceByKey(t: TestContext, daemon: TestDaemon): Promise<void> {
  const page = await openList(t, daemon);
  const [newest] = (await placeOf(page)).tags;
  await returnBy(page, () => page.getByRole("button", { name: "Older tasks" }).click());
  assert.notEqual((await placeOf(page)).tags[0], newest);
  const before = await leaveMarks(page);

  await openTask(page, 35);
  await returnBy(page, () => page.keyboard.press("u"));

  assert.deepEqual(await placeOf(page), before);
}

async function letsNewOnesWait(t: TestContext, daemon: TestDaemon): Promise<void> {
  const page = await openList(t, daemon);
  const before = await leaveMarks(page);
  await openTask(page, 35);
  await daemon.post([{ tag: "came-meanwhile" }]);

  await page.goBack();
  const isNew = page.getByRole("button", { name: "1 new" });
  await isNew.waitFor();
  const { tags, selected, current } = await placeOf(page);
  assert.deepEqual([tags, selected, current], [before.tags, before.selected, before.current]);

  await isNew.click();
  await page.getByText("came-meanwhile").waitFor();
}

async function beginsAnew(t: TestContext, daemon: TestDaemon): Promise<void> {
  const page = await openList(t, daemon);
  await leaveMarks(page);
  await goTo(page, "Overview");
  await daemon.post([{ tag: "came-later" }]);

  await goTo(page, "Tasks");
  await page.getByText("came-later").waitFor();

  const { scrollY, selected, current } = await placeOf(page);
  assert.deepEqual({ scrollY, selected, current }, { scrollY: 0, selected: [], current: -1 });
}
