import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Locator, Page } from "playwright-core";

import { createTestAccount, type TestDaemon } from "../helpers/daemon.ts";
import {
  askAsWorker,
  createTestWorker,
  tasksOf,
  type ClaimedTask,
} from "../http/worker-requests.ts";
import {
  type TestPage,
  forgive,
  goTo,
  mark,
  openPage,
  signIn,
  signInAsOperator,
  takeSteps,
} from "./browser.ts";

const TOML = `
[types.resize]
runner = "worker"
[types.copy]
runner = "echo"
[[marketplaces]]
code = "us"
name = "United States"
`;

const DIGITS = "9007199254740993.10";

test("a new task", (t) =>
  takeSteps(
    t,
    {
      "is posted with every field and opens its screen, which follows its state": leadsToTask,
      "with invalid JSON is not posted, and the form shows the place": showsFault,
      "that is refused shows the status message at the field": showsRefusal,
      "is posted once by two concurrent clicks": postsOnce,
      "is posted once if the response is lost and it is posted again": repeatsSafely,
      "is posted by keyboard alone": isPostedByKeyboard,
      "of the operator is posted for the named account": namesAccount,
      "posted again has the changed fields, and the first task is unchanged": isChanged,
    },
    { toml: TOML },
  ));

async function openForm(t: TestContext, daemon: TestDaemon): Promise<TestPage & Form> {
  const opened = await openPage(t, daemon.url);
  await signIn(opened.page, daemon.account);
  await goTo(opened.page, "Tasks");
  await opened.page.getByRole("button", { name: "New task…" }).click();
  return { ...opened, ...(await formOf(opened.page, "New task")) };
}

interface Form {
  readonly dialog: Locator;
  readonly send: Locator;
}

async function formOf(page: Page, name: string): Promise<Form> {
  const dialog = page.getByRole("dialog", { name });
  await dialog.getByLabel("Input").waitFor();
  return { dialog, send: dialog.getByRole("button", { name: "Post the task" }) };
}

async function countTagged(daemon: TestDaemon, tag: string): Promise<number> {
  const answer = await daemon.call(`/v1/tasks?tag=${tag}`);
  return ((await answer.json()) as { tasks_count: number }).tasks_count;
}

/** The id of the shown task. */
async function shownTask(page: Page): Promise<string> {
  await page.waitForURL(/\/dashboard\/tasks\/[-\da-f]{36}/);
  return /tasks\/([-\da-f]{36})/.exec(page.url())?.[1] ?? assert.fail(page.url());
}

async function isFocused(element: Locator): Promise<boolean> {
  return (await element.and(element.page().locator(":focus")).count()) === 1;
}

async function leadsToTask(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page, dialog, send } = await openForm(t, daemon);
  const isSame = await mark(page);
  assert.deepEqual(await dialog.getByLabel("Type").locator("option").allTextContents(), [
    "copy",
    "resize",
  ]);
  await dialog.getByLabel("Type").selectOption("resize");
  await dialog.getByLabel("Input").fill(`{"width": ${DIGITS}}`);
  await dialog.getByLabel("Postback URL").fill("http://127.0.0.1:1/hook");
  await dialog.getByLabel("Tag").fill("order-17");
  await dialog.getByLabel("Priority").selectOption("9");
  await dialog.getByLabel("Marketplace").selectOption("us");
  await send.click();

  const id = await shownTask(page);
  await page.getByRole("heading", { name: "queued" }).waitFor();
  const text = await (await daemon.call(`/v1/tasks/task_get/${id}?collect=false`)).text();
  assert(text.includes(`"input":{"width":${DIGITS}}`), text);
  const { data } = await daemon.get(id);
  assert.deepEqual(
    { ...data, input: null },
    {
      ...{ type: "resize", tag: "order-17", marketplace: "us", priority: 9 },
      ...{ postback_url: "http://127.0.0.1:1/hook", input: null },
    },
  );

  const token = await createTestWorker(daemon.file, ["resize"]);
  const called = { url: daemon.url, token };
  const claim = { types: ["resize"], max: 1 };
  const [claimed] = tasksOf<ClaimedTask>(await askAsWorker(called, "claim", claim));
  await page.getByRole("heading", { name: "running" }).waitFor();
  const done = { id, lease_id: claimed?.lease_id, result: 1 };
  await askAsWorker(called, "complete", { tasks: [done] });
  await page.getByRole("heading", { name: "completed" }).waitFor();
  await isSame();
}

async function showsFault(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page, dialog, send } = await openForm(t, daemon);
  const input = dialog.getByLabel("Input");
  const posts: string[] = [];
  page.on("request", (request) => {
    if (request.method() === "POST") posts.push(request.url());
  });
  await dialog.getByLabel("Tag").fill("wrong-json");
  await input.fill('{\n  "width": 640,\n}');

  await dialog.getByText("Line 3, column 1").waitFor();
  assert.equal(await input.getAttribute("aria-invalid"), "true");
  await send.click();
  assert.deepEqual(posts, []);

  await input.fill('{\n  "width": 640\n}');
  await dialog.getByText("Line 3").waitFor({ state: "detached" });
  await send.click();
  await shownTask(page);
  assert.equal(await countTagged(daemon, "wrong-json"), 1);
}

async function showsRefusal(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page, dialog, send } = await openForm(t, daemon);
  const field = dialog.getByLabel("Postback URL");
  await field.fill("http://10.0.0.7/hook");
  await dialog.getByLabel("Tag").fill("refused");
  await send.click();

  const shown = dialog.getByText("Invalid Field: 'postback_url'.");
  await shown.waitFor();
  assert.equal(await field.getAttribute("aria-describedby"), await shown.getAttribute("id"));
  const tagged = await daemon.call("/v1/tasks?tag=refused");
  const [refused] = ((await tagged.json()) as { tasks: { status_message: string }[] }).tasks;
  assert.equal(await shown.textContent(), refused?.status_message);
  assert(await isFocused(field));

  await field.fill("http://127.0.0.1:1/hook");
  await shown.waitFor({ state: "detached" });
  await send.click();
  const { state, data } = await daemon.get(await shownTask(page));
  assert.deepEqual([state === "failed", data["tag"]], [false, "refused"]);
}

async function postsOnce(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page, dialog } = await openForm(t, daemon);
  await dialog.getByLabel("Tag").fill("twice");
  const button = "document.querySelector('dialog [type=submit]')";
  await page.evaluate(`${button}.click(), ${button}.click()`);

  await shownTask(page);
  assert.equal(await countTagged(daemon, "twice"), 1);
}

async function repeatsSafely(t: TestContext, daemon: TestDaemon): Promise<void> {
  const opened = await openForm(t, daemon);
  const { page, dialog, send } = opened;
  await dialog.getByLabel("Tag").fill("lost");
  await page.route(
    "**/v1/tasks/task_post",
    async (route) => {
      await route.fetch();
      await route.abort();
    },
    { times: 1 },
  );
  await send.click();
  await dialog.getByText(/daemon does not/).waitFor();
  assert.equal(await countTagged(daemon, "lost"), 1);
  forgive(opened, /ERR_FAILED/);

  await send.click();
  const id = await shownTask(page);

  assert.equal((await daemon.get(id)).data["tag"], "lost");
  assert.equal(await countTagged(daemon, "lost"), 1);
}

async function isPostedByKeyboard(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  await goTo(page, "Tasks");
  const button = page.getByRole("button", { name: "New task…" });
  await button.focus();
  await page.keyboard.press("Enter");
  await formOf(page, "New task");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert(await isFocused(button));

  await page.keyboard.press("p");
  await formOf(page, "New task");
  // The type has the focus.
  await page.keyboard.press("r");
  await page.keyboard.press("Tab");
  await page.keyboard.type('["p"');
  await page.keyboard.press("Enter");
  await page.keyboard.type("]");
  for (let i = 0; i < 3; i++) await page.keyboard.press("Tab");
  await page.keyboard.type("keys");
  await page.keyboard.press("Enter");

  const { type, data } = await daemon.get(await shownTask(page));
  assert.deepEqual([type, data["tag"], data["input"]], ["resize", "keys", ["p"]]);
}

async function namesAccount(t: TestContext, daemon: TestDaemon): Promise<void> {
  await createTestAccount(daemon.file, "grace");
  const opened = await openPage(t, daemon.url);
  const { page } = opened;
  await signInAsOperator(page, daemon);
  await goTo(page, "Tasks");
  await page.getByRole("button", { name: "New task…" }).click();
  const { dialog, send } = await formOf(page, "New task");
  await dialog.getByLabel("Account").fill("nobody");
  await send.click();
  await dialog.getByText(/No account/).waitFor();
  forgive(opened, /status of 404/);

  await dialog.getByLabel("Account").fill("grace");
  await send.click();

  await shownTask(page);
  await page.getByRole("link", { name: "grace" }).waitFor();
}

const TASK = {
  ...{ type: "copy", tag: "again", priority: 3, marketplace: "us", input: { n: [1] } },
  ...{ postback_url: "http://127.0.0.1:1/post", pingback_url: "http://127.0.0.1:1/?id=$id" },
};

async function isChanged(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  const start_at = new Date(Date.now() + 3_600_000).toISOString();
  const [{ id } = assert.fail()] = (await daemon.post([{ ...TASK, start_at }])).tasks;
  await page.goto(`/dashboard/tasks/${id}`);
  await page.getByRole("button", { name: "Post again…" }).click();
  const { dialog, send } = await formOf(page, "Post again");
  await dialog.getByLabel("Input").fill("[2]");
  await dialog.getByLabel("Pingback URL").fill("");
  await dialog.getByLabel("Tag").fill("changed");
  await send.click();

  await page.waitForURL((url) => !url.pathname.endsWith(id));
  const { data } = await daemon.get(await shownTask(page));
  const { pingback_url: _, ...others } = TASK;
  assert.deepEqual(data, { ...others, tag: "changed", input: [2] });
  assert.equal((await daemon.get(id)).data["tag"], "again");
}
