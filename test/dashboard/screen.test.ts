import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import type { Page } from "playwright-core";

import { until } from "../../scripts/kit/until.ts";
import { type TestDaemon, startTestDaemon } from "../helpers/daemon.ts";
import {
  type TestPage,
  accessProblems,
  forgive,
  hasBrowser,
  openPage,
  signInAsOperator,
  takeScreenshot,
} from "./browser.ts";
import { openShop } from "./shop.ts";

const THEMES = ["light", "dark"] as const;
const WIDTHS = [1280, 360] as const;
const PICTURE_WIDTHS = [1440, 1280, 1024, 390] as const;
const TABLE_WIDTHS = [1024, 1100, 1280, 1440] as const;

type Screens = Readonly<Record<string, readonly [path: string, landmark: string]>>;

// The path of each screen, and a text that appears after its reads.
const FULL = (taskId: string): Screens => ({
  overview: ["", "Throughput per minute"],
  tasks: ["tasks", "50 on this page"],
  task: [`tasks/${taskId}`, "Fields as posted"],
  hosts: ["hosts", "api.partner.example"],
  keys: ["keys?account=tester", "billing server"],
  accounts: ["accounts", "globex"],
  access: ["access", "Ada Lovelace"],
  pauses: ["pauses", "moves to another machine"],
  runners: ["runners", "transcoder-1"],
  nodes: ["nodes", "Daemons of this database"],
  audit: ["audit", "reason=moves to another machine"],
  system: ["system", "Up for"],
});

const EMPTY: Screens = {
  overview: ["", "No task yet"],
  tasks: ["tasks", "No task has been posted yet."],
  task: ["tasks/none", "No task has this id."],
  hosts: ["hosts", "Nothing was delivered in that time."],
  keys: ["keys?account=tester", "1 of 20 active"],
  "keys-of-all": ["keys", "Keys and secret belong to an account."],
  accounts: ["accounts?q=nobody", "No login contains"],
  access: ["access", "No request waits for a decision."],
  pauses: ["pauses", "Nothing is paused."],
  runners: ["runners", "No worker exists, and no type needs one."],
  nodes: ["nodes", "answers you"],
  audit: ["audit?action=task.erased", "No matching entries in this period."],
  system: ["system", "Up for"],
  nowhere: ["nowhere", "No page exists at this address."],
};

// The screen, the buttons to click, and the name of the opened dialog.
const DIALOGS: readonly (readonly [screen: string, buttons: readonly string[], dialog: string])[] =
  [
    ["keys", ["Make a key…"], "Make a key"],
    ["keys", ["Make a key…", "Make the key"], "Your new key"],
    ["keys", ["Revoke pbd_live_"], "Revoke pbd_live_"],
    ["accounts", ["Make an account…"], "Make an account"],
    ["accounts", ["Rotate the webhook secret of globex"], "Rotate the webhook secret of globex?"],
    ["accounts", ["Finish the rotation of acme"], "Finish the rotation of acme?"],
    ["accounts", ["Disable globex"], "Disable globex?"],
    ["accounts", ["Enable initech"], "Enable initech?"],
    ["access", ["Approve someone@example.com"], "Make the account"],
    ["access", ["Deny someone@example.com"], "Deny this request?"],
    ["pauses", ["Pause webhooks"], "Pause webhooks"],
    ["pauses", ["Resume webhooks to old.billing"], "Resume webhooks to old.billing.example?"],
    ["tasks", ["New task…"], "New task"],
    ["task", ["Post again…"], "Post again"],
    ["hosts", ["Redeliver failed", "Count them"], "Redeliver failed deliveries"],
  ];

test("every screen with data is accessible and fits a phone", async (t) => {
  if (!hasBrowser(t)) return;
  const { daemon, failedId } = await openShop(t);
  const screens = FULL(failedId);
  await t.test("the screens", (part) => checkScreens(part, daemon, screens));
  await t.test("their dialogs", (part) => checkDialogs(part, daemon, screens));
  await t.test("their tables", (part) => checkTables(part, daemon, screens));
  await t.test("their pictures", { skip: pictureSkip() }, (part) =>
    takePictures(part, daemon, screens),
  );
});

test("every empty screen is accessible and fits a phone", async (t) => {
  if (!hasBrowser(t)) return;
  const daemon = await startTestDaemon(t);
  await t.test("the screens", (part) => checkScreens(part, daemon, EMPTY));
  await t.test("the page to sign in at", async (part) => {
    const { page } = await openPage(part, daemon.url);
    await page.goto("/dashboard/");
    await page.getByLabel("API key").waitFor();
    await check(page, "sign-in");
  });
});

async function openScreens(t: TestContext, daemon: TestDaemon): Promise<TestPage> {
  const opened = await openPage(t, daemon.url);
  await signInAsOperator(opened.page, daemon);
  return opened;
}

async function show(page: Page, screens: Screens, name: string): Promise<void> {
  const [path, landmark] = screens[name] ?? assert.fail(name);
  await page.goto(`/dashboard/${path}`);
  await page.getByText(landmark).first().waitFor();
}

async function checkScreens(t: TestContext, daemon: TestDaemon, screens: Screens): Promise<void> {
  const opened = await openScreens(t, daemon);
  const { page } = opened;
  for (const name of Object.keys(screens)) {
    await t.test(name, async () => {
      await show(page, screens, name);
      if (name === "task") await openAll(page);
      await check(page, name);
    });
  }
  forgive(opened, /status of 404/);
}

async function openAll(page: Page): Promise<void> {
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
}

/** Checks the page, or a part of it, in each theme and width. */
async function check(page: Page, name: string, part = "html"): Promise<void> {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    for (const theme of THEMES) {
      await page.emulateMedia({ colorScheme: theme });
      assert.deepEqual(await accessProblems(page, part), [], `${name}, ${theme}, ${width} px`);
    }
    const over = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
    assert.equal(over, 0, `${name} is wider than ${width} px`);
  }
}

/** Checks that tables with large numbers cut no cell, and can show all columns. */
async function checkTables(t: TestContext, daemon: TestDaemon, screens: Screens): Promise<void> {
  const { page } = await openScreens(t, daemon);
  await page.route(/\/v1\/(operator\/accounts|stats\/hosts)/, async (route) => {
    const answer = await route.fetch();
    const large = (await answer.text()).replaceAll(/:(\d{1,3})(?=[,}])/g, ":1$1234567");
    await route.fulfill({ response: answer, body: large });
  });
  for (const name of ["accounts", "hosts", "tasks", "audit", "runners", "pauses"]) {
    await t.test(name, async () => {
      await show(page, screens, name);
      for (const width of TABLE_WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        const areWhole = async () => (await page.evaluate(ARE_TABLES_WHOLE)) === true;
        await until(areWhole, { msMax: 5000, fault: () => `${name} is cut at ${width} px` });
      }
      await page.setViewportSize({ width: 1024, height: 900 });
      const more = page.getByRole("button", { name: "Show all columns" });
      if (name === "accounts" || name === "hosts") {
        await more.click();
        await more.waitFor({ state: "detached" });
        assert.equal(await page.evaluate(ARE_TABLES_WHOLE), false);
      }
    });
  }
}

const ARE_TABLES_WHOLE = `[...document.querySelectorAll(".table-scroll")].every((frame) => {
  const { right } = frame.getBoundingClientRect();
  const ends = [...frame.querySelectorAll("th, td")].map((cell) => cell.getBoundingClientRect().right);
  return Math.max(...ends) <= right + 1;
})`;

async function checkDialogs(t: TestContext, daemon: TestDaemon, screens: Screens): Promise<void> {
  const { page } = await openScreens(t, daemon);
  for (const [screen, buttons, title] of DIALOGS) {
    await t.test(title, async () => {
      await page.setViewportSize({ width: 1280, height: 900 });
      await show(page, screens, screen);
      for (const name of buttons) await page.getByRole("button", { name }).first().click();
      const dialog = page.getByRole("dialog", { name: title });
      await dialog.waitFor();
      await check(page, title, "dialog[open]");
      const box = await dialog.boundingBox();
      assert(box !== null && box.x >= 0 && box.x + box.width <= 360, "the dialog fits");
      // A new key keeps the page until it is stored.
      const stored = page.getByLabel("I stored it");
      if ((await stored.count()) > 0) await stored.check();
    });
  }
}

function pictureSkip(): string | false {
  return process.env["POSTBACKD_SCREENSHOTS"] === undefined
    ? "POSTBACKD_SCREENSHOTS names no folder for them"
    : false;
}

async function takePictures(t: TestContext, daemon: TestDaemon, screens: Screens): Promise<void> {
  const { page } = await openScreens(t, daemon);
  for (const name of Object.keys(screens)) {
    await show(page, screens, name);
    for (const theme of THEMES) {
      await page.emulateMedia({ colorScheme: theme });
      for (const width of PICTURE_WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        await takeScreenshot(page, `${name}-${theme}-${width}`);
      }
    }
  }
}

const PHONE = { width: 360, height: 740 };

test("the reference is accessible in light and dark and on a phone", async (t) => {
  if (!hasBrowser(t)) return;
  const { url } = await startTestDaemon(t, { toml: "dashboard = false\n" });
  const grounds: unknown[] = [];

  for (const options of [{}, { theme: "dark" as const }, { size: PHONE }]) {
    const { page } = await openPage(t, url, options);
    await page.goto("/");
    assert.equal(new URL(page.url()).pathname, "/docs");
    assert.equal(await page.title(), "API reference · postbackd");
    grounds.push(await page.evaluate("getComputedStyle(document.body).backgroundColor"));
    const widest = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
    assert.equal(widest, 0, "it scrolls sideways");
    const article = page.locator("#getTask");
    await article.locator("summary").first().click();
    await article.getByText("Example: queued").waitFor();
    assert.deepEqual(await accessProblems(page, "#getTask"), []);
    assert.deepEqual(await accessProblems(page, "nav"), []);
    await article.scrollIntoViewIfNeeded();
  }
  const [light, dark, phone] = grounds;
  assert.notEqual(light, dark);
  assert.equal(phone, light);
});
