import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import type { TestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { naughtyStrings } from "../http/corpora.ts";
import { askAsWorker, createTestWorker, type ClaimedTask } from "../http/worker-requests.ts";
import {
  type TestPage,
  forgive,
  goTo,
  openPage,
  signIn,
  signInAsOperator,
  takeSteps,
} from "./browser.ts";

const SCRIPT = `<script>alert(1)</script>`;
const IMAGE = `"><img src=x onerror=alert(document.domain)>`;
const LINK = "javascript:alert(1)";
const TEXTS = [
  ...[SCRIPT, IMAGE, LINK, `</title></style></textarea>${SCRIPT}`, "{{constructor.constructor}}"],
  ...["<svg/onload=alert(1)>", "__proto__", "\u202e\u2066gnp.exe", "‮‏".repeat(20), "a".repeat(255)],
  ...["<iframe src=//evil.test></iframe>", "<a href=javascript:alert(1)>x</a>", "‍".repeat(50)],
];

const TOML = `
[types.echo]
runner = "echo"
[types.work]
runner = "worker"
[webhooks]
retry_after = []
[limits]
access_requests_per_hour = 0
`;

test("hostile text", (t) =>
  takeSteps(
    t,
    {
      "in a tag is shown as text in the list": listsTags,
      "in input, result and tag of a task is shown as text": showsInputs,
      "in an error is shown as text": showsErrors,
      "in a webhook's URL and a receiver's response is neither a link nor a request": showsUrls,
      "in the search of the URL has no effect": searchesFor,
      "in access requests is shown as text": showsAccessRequests,
    },
    { toml: TOML },
  ));

// Elements that no page of the dashboard has.
const FOREIGN =
  "iframe, object, embed, img, video, audio, marquee, math, base, meta[http-equiv], body script, " +
  "body style, body link, [onerror], [onload], [onclick], [onfocus], [style*=expression], " +
  "a:not([href^='/dashboard'], [href='/docs'], [href^='#']), svg *:not(path, circle, rect, line, polyline, g, text, title)";

/** Opens a page that fails the test if it opens a dialog, a window or a download. */
async function openGuarded(t: TestContext, daemon: TestDaemon): Promise<TestPage> {
  const opened = await openPage(t, daemon.url);
  const { page, complaints } = opened;
  page.on("dialog", (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("popup", (popup) => complaints.push(`a new window: ${popup.url()}`));
  page.on("download", (download) => complaints.push(`a download: ${download.url()}`));
  return opened;
}

/** Asserts that the page has no foreign elements. */
async function assertOurs(page: Page): Promise<void> {
  const foreign = await page.locator(FOREIGN).evaluateAll((found) => found.map(String));
  assert.deepEqual(foreign, [], page.url());
  assert.equal(await page.evaluate("Object.keys(Object.prototype).length"), 0);
}

async function listsTags(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { tasks } = await daemon.post(TEXTS.map((tag) => ({ type: "echo", tag })));
  const tags = TEXTS.filter((_, i) => tasks[i]?.status_code === 20100).toReversed();
  assert(tags.includes(SCRIPT) && tags.includes(IMAGE));
  const { page } = await openGuarded(t, daemon);
  await signIn(page, daemon.account);
  await goTo(page, "Tasks");

  assert.deepEqual(
    (await tagCells(page)).slice(-TEXTS.length).filter((tag) => tag !== NO_TAG),
    tags,
  );
  await assertOurs(page);
}

async function tagCells(page: Page): Promise<readonly string[]> {
  await page.getByRole("row").nth(1).waitFor();
  const heads = await page.getByRole("columnheader").allTextContents();
  const column = heads.indexOf("Tag") + 1;
  assert(column > 0);
  return page.locator(`tbody td:nth-child(${column})`).allTextContents();
}

// The tag of a refused task.
const NO_TAG = "–";

async function showsInputs(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openGuarded(t, daemon);
  await signIn(page, daemon.account);
  const all = naughtyStrings();
  const posted = await daemon.post([
    { type: "echo", tag: "all", input: all.slice(0, 300) },
    { type: "echo", tag: "all", input: all.slice(300) },
    ...TEXTS.map((text) => ({ type: "echo", tag: text, input: { [text]: [text] } })),
  ]);
  const shown = [all.slice(0, 30), all.slice(300, 330), ...TEXTS.map((text) => [text])];
  for (const [i, { id, status_code: code }] of posted.tasks.entries()) {
    assert.equal(code, 20100);
    await page.goto(`/dashboard/tasks/${id}`);
    for (const name of ["Input", "Result"]) {
      const region = page.getByRole("region", { name, exact: true });
      await region.waitFor();
      const text = (await region.textContent()) ?? "";
      for (const each of shown[i] ?? []) assert(text.includes(JSON.stringify(each)), each);
    }
    await assertOurs(page);
  }
}

async function showsErrors(t: TestContext, daemon: TestDaemon): Promise<void> {
  const token = await createTestWorker(daemon.file, ["work"], `${IMAGE} worker`);
  const called = { url: daemon.url, token };
  await daemon.post(TEXTS.map(() => ({ type: "work" })));
  const claimed = await askAsWorker(called, "claim", { types: ["work"], max: TEXTS.length });
  const { tasks } = JSON.parse(claimed.response.body.toString()) as { tasks: ClaimedTask[] };
  const failed = tasks.map(({ id, lease_id }, i) => ({
    id,
    lease_id,
    retry: false,
    message: TEXTS[i],
    detail: { [String(TEXTS[i])]: TEXTS[i] },
  }));
  await askAsWorker(called, "fail", { tasks: failed });
  const { page } = await openGuarded(t, daemon);
  await signIn(page, daemon.account);
  assert(failed.length > 0);
  for (const { id, message } of failed.slice(0, 3)) {
    await page.goto(`/dashboard/tasks/${id}`);
    const region = page.getByRole("region", { name: "Error" });
    await region.waitFor();
    const text = (await region.textContent()) ?? "";
    assert(text.includes(JSON.stringify(message)), text);
    const verdict = page.getByRole("region", { name: "State" });
    assert(((await verdict.textContent()) ?? "").includes(String(message)));
    await assertOurs(page);
  }
}

async function showsUrls(t: TestContext, daemon: TestDaemon): Promise<void> {
  const receiver = await startReceiver(t, {
    reply: {
      kind: "status",
      status: 500,
      body: `${SCRIPT}${IMAGE}\u0000\u001b[31m`,
      headers: { "Content-Type": "text/html", "X-Evil": SCRIPT },
    },
  });
  const urls = [
    "/<script>alert(1)</script>",
    `/?a=${IMAGE}`,
    "/#javascript:alert(1)",
    "/%00%0d%0a",
  ];
  const hosts = ["http://evil.test@127.0.0.1/", "http://xn--80ak6aa92e.com/", `${LINK}//`];
  const posted = await daemon.post(
    [...urls.map((path) => receiver.url(path)), ...hosts].map((url) => ({
      type: "echo",
      postback_url: url,
      tag: "url",
    })),
  );
  const taken = posted.tasks.filter(({ status_code: code }) => code === 20100);
  assert(taken.length >= 3, String(taken.length));
  await receiver.waitFor(2);
  const { page } = await openGuarded(t, daemon);
  await signIn(page, daemon.account);
  await page.goto("/dashboard/tasks?q=tag:url");
  await page.getByText("given up").first().waitFor();
  await assertOurs(page);
  for (const { id } of taken) {
    await page.goto(`/dashboard/tasks/${id}`);
    const region = page.getByRole("region", { name: "The postback" });
    await region.getByText("given up").first().waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    const timeline = await daemon.call(`/v1/tasks/timeline/${id}`);
    const { deliveries } = (await timeline.json()) as { deliveries: readonly { url: string }[] };
    assert((await region.textContent())?.includes(deliveries[0]?.url ?? "-"));
    await assertOurs(page);
  }
  await page.goto(`/dashboard/hosts`);
  await page.getByRole("row").filter({ hasText: "127.0.0.1" }).waitFor();
  await assertOurs(page);
}

async function searchesFor(t: TestContext, daemon: TestDaemon): Promise<void> {
  const opened = await openGuarded(t, daemon);
  const { page } = opened;
  await signIn(page, daemon.account);
  for (const text of TEXTS) {
    const query = new URLSearchParams({ q: `tag:${JSON.stringify(text)} type:${text}` });
    await page.goto(`/dashboard/tasks?${query.toString()}`);
    const field = page.getByLabel("Search tasks");
    assert.equal(await field.inputValue(), query.get("q"));
    const nothing = page.getByText(/No task matches|Nothing found/);
    await page.getByRole("alert").or(nothing).first().waitFor();
    await assertOurs(page);
  }
  for (const path of [`tasks/${encodeURIComponent(SCRIPT)}`, encodeURIComponent(IMAGE)]) {
    await page.goto(`/dashboard/${path}`);
    await page.getByText(/No page exists|No task has/).waitFor();
    await assertOurs(page);
  }
  forgive(opened, /status of 404/);
}

async function showsAccessRequests(t: TestContext, daemon: TestDaemon): Promise<void> {
  for (const [i, text] of TEXTS.entries()) {
    const response = await fetch(`${daemon.url}/v1/access_requests`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        email: `a${i}@example.com`,
        name: text,
        company: text,
        message: text,
      }),
    });
    assert.equal(response.status, 200, await response.text());
  }
  const opened = await openGuarded(t, daemon);
  const { page } = opened;
  await signInAsOperator(page, daemon);
  await goTo(page, "Access requests");
  for (const text of TEXTS) await page.getByText(text, { exact: true }).nth(2).waitFor();
  await page.getByRole("button", { name: "Approve a0@example.com" }).click();
  await page.getByRole("dialog", { name: "Make the account" }).waitFor();
  await assertOurs(page);
  for (const path of [
    `?account=${encodeURIComponent(SCRIPT)}`,
    "accounts?q=%3Cimg%3E",
    "runners",
  ]) {
    await page.goto(`/dashboard/${path}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await assertOurs(page);
  }
  forgive(opened, /status of 404/);
}
