import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import { until } from "../../scripts/kit/until.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { signInOperator } from "../http/session-requests.ts";
import { forgive, goTo, mark, openPage, signIn, signInAsOperator, takeSteps } from "./browser.ts";

const HOSTILE = `<img src=x onerror=alert(1)>`;

const TOML = '[types.echo]\nrunner = "echo"\n[webhooks]\nallow = ["127.0.0.1", "127.0.0.9"]\n';

test("a pause of the operator", (t) =>
  takeSteps(
    t,
    {
      "lasts from the dialog to the resume, on every screen": pausesAndResumes,
      "needs a second confirmation if it covers all webhooks": pausesAll,
      "is shown at its webhooks, without a countdown and without a button to send": showsPaused,
      "is resumed by keyboard alone": resumesByKeys,
      "is in the audit log, which has filters and pages": isInAudit,
    },
    { toml: TOML },
  ));

test("the operator's script", (t) =>
  takeSteps(t, {
    "is loaded by an operator and not by an account": loadsForOperators,
    "that fails to load leaves the other screens usable": canBeMissing,
  }));

const banner = (page: Page) => page.getByRole("region", { name: "Paused webhooks" });

const DIALOG = { name: "Pause webhooks" };

async function pausesAndResumes(t: TestContext, daemon: TestDaemon): Promise<void> {
  const receiver = await startReceiver(t);
  const opened = await openPage(t, daemon.url);
  const { page } = opened;
  await signInAsOperator(page, daemon);
  await goTo(page, "Pauses");
  await page.getByText("Nothing is paused.").waitFor();
  const isSame = await mark(page);

  await page.getByRole("button", { name: "Pause webhooks…" }).click();
  const dialog = page.getByRole("dialog", DIALOG);
  await dialog.getByLabel("Host").fill("a b");
  await dialog.getByRole("button", { name: "Pause them" }).click();
  await dialog.getByRole("alert").filter({ hasText: "It must be a host name" }).waitFor();
  forgive(opened, /status of 400/);
  await dialog.getByLabel("Host").fill("127.0.0.1");
  await dialog.getByLabel("Reason").fill(HOSTILE);
  await dialog.getByText("This pauses webhooks to 127.0.0.1.").waitFor();
  await dialog.getByRole("button", { name: "Pause them", exact: true }).click();
  // Nothing was ever sent there.
  await dialog.getByRole("alert").filter({ hasText: "127.0.0.1" }).waitFor();
  await dialog.getByRole("button", { name: "Pause them anyway" }).click();
  await page.getByRole("status").filter({ hasText: "Paused: webhooks to 127.0.0.1." }).waitFor();
  await banner(page).getByText(`because: ${HOSTILE}`).waitFor();
  for (const screen of ["Overview", "Tasks", "Hosts", "Accounts", "System"]) {
    await goTo(page, screen);
    await banner(page).getByText("Paused: webhooks to 127.0.0.1").waitFor();
  }
  await daemon.daemon.idle();
  const [task] = (await daemon.post([{ type: "echo", postback_url: receiver.url("/a") }])).tasks;
  await daemon.daemon.idle();

  await seesPaused(t, daemon, task?.id ?? "");
  await banner(page).getByRole("link", { name: "Pauses" }).click();
  const row = page.getByRole("row").filter({ hasText: "webhooks to 127.0.0.1" });
  await row.getByText("1", { exact: true }).waitFor();
  assert.equal(receiver.requests.length, 0);
  await row.getByRole("button", { name: "Resume webhooks to 127.0.0.1" }).click();
  const question = page.getByRole("dialog", { name: "Resume webhooks to 127.0.0.1?" });
  await question.getByText("1 waiting webhook will be sent").waitFor();
  await question.getByRole("button", { name: "Resume them" }).click();
  await page.getByText("Nothing is paused.").waitFor();
  await banner(page).waitFor({ state: "detached" });
  assert.equal((await receiver.next()).url, "/a");
  await isSame();
}

/** The account sees its paused webhook without the reason and without other pauses. */
async function seesPaused(t: TestContext, daemon: TestDaemon, id: string): Promise<void> {
  const { page, context } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  await page.goto(`/dashboard/tasks/${id}`);
  await page.getByText("the operator has paused webhooks to 127.0.0.1").waitFor();
  assert.equal(await banner(page).count(), 0);
  assert.equal(await page.getByText("onerror").count(), 0);
  await context.close();
}

async function pausesAll(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  await page.goto("/dashboard/pauses?account=tester");
  await page.getByRole("button", { name: "Pause webhooks…" }).click();
  const dialog = page.getByRole("dialog", DIALOG);
  await dialog.getByText("This pauses webhooks of tester.").waitFor();
  await dialog.getByLabel("Account").fill("");
  await dialog.getByText("This pauses all webhooks.").waitFor();
  await dialog.getByRole("button", { name: "Pause them", exact: true }).click();
  await dialog.getByRole("alert").waitFor();
  assert.deepEqual(await pausedOf(daemon), []);
  await dialog.getByRole("button", { name: "Pause them anyway" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual(await pausedOf(daemon), [null]);
  await (await signInOperator(daemon)).post("/delivery_pauses/resume", {});
}

async function showsPaused(t: TestContext, daemon: TestDaemon): Promise<void> {
  const reply = () => ({ kind: "status", status: 503 }) as const;
  const url = (await startReceiver(t, { host: "127.0.0.9", reply })).url("/fails");
  const [task] = (await daemon.post([{ type: "echo", tag: "fails", postback_url: url }])).tasks;
  await daemon.daemon.idle();
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  await page.goto(`/dashboard/tasks/${task?.id}`);
  await page.getByRole("button", { name: "Send now" }).waitFor();
  const operator = await signInOperator(daemon);
  await operator.post("/delivery_pauses", { host: "127.0.0.9" });

  await page.reload();
  const panel = page.getByRole("region", { name: "The postback" });
  await panel.getByText("paused", { exact: true }).first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Send now" }).count(), 0);
  assert.doesNotMatch((await panel.textContent()) ?? "", /retrying|in \d+:\d\d|due now/);
  await page.goto("/dashboard/tasks?q=tag:fails");
  const row = page.getByRole("row").filter({ hasText: "127.0.0.9" });
  await row.getByText("paused", { exact: true }).waitFor();
  assert.doesNotMatch((await row.textContent()) ?? "", /retrying|in \d+:\d\d|due now/);
  await goTo(page, "Hosts");
  await row.getByText("paused", { exact: true }).waitFor();
  // The daemon computes the overview again after a second.
  const isShown = async () => {
    const overview = await daemon.call("/v1/stats/overview");
    return (await overview.text()).includes("paused");
  };
  await until(isShown, { msMax: 5000, fault: () => "the overview has no pause" });
  await goTo(page, "Overview");
  await page.getByRole("listitem").filter({ hasText: "127.0.0.9" }).getByText("paused").waitFor();
  await operator.post("/delivery_pauses/resume", { host: "127.0.0.9" });
}

async function pausedOf(daemon: TestDaemon) {
  const operator = await signInOperator(daemon);
  const { pauses } = (await operator.get("/delivery_pauses")).fields;
  return pauses.map(({ host }) => host);
}

async function resumesByKeys(t: TestContext, daemon: TestDaemon): Promise<void> {
  const operator = await signInOperator(daemon);
  const hosts = ["a", "b", "c", "d"].map((name) => `${name}.example.com`);
  for (const host of hosts) await operator.post("/delivery_pauses", { host });
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  await banner(page).getByText("; and 1 more").waitFor();
  await goTo(page, "Pauses");
  await page.getByRole("link", { name: "webhooks to b.example.com" }).waitFor();

  for (const key of ["j", "j", "j", "k", "r"]) await page.keyboard.press(key);
  await page.getByRole("dialog", { name: "Resume webhooks to b.example.com?" }).waitFor();
  for (const key of ["Tab", "Enter"]) await page.keyboard.press(key);
  await page.getByRole("status").filter({ hasText: "Resumed" }).waitFor();

  assert.deepEqual(
    await pausedOf(daemon),
    ["a", "c", "d"].map((name) => `${name}.example.com`),
  );
}

async function isInAudit(t: TestContext, daemon: TestDaemon): Promise<void> {
  const operator = await signInOperator(daemon);
  await operator.post("/delivery_pauses", { host: "audit.example.com", reason: HOSTILE });
  for (let i = 0; i < 60; i++) await operator.post("/accounts", { login: `account-${i}` });
  const { page } = await openPage(t, daemon.url);
  await signInAsOperator(page, daemon);
  await goTo(page, "Audit");
  const rows = page.getByRole("group", { name: "Entries" }).getByRole("row");
  await rows.filter({ hasText: "session.opened" }).first().waitFor();

  await page.getByLabel("Action").selectOption("account.created");
  await rows.filter({ hasText: "account-59" }).waitFor();
  // The head and a page.
  assert.equal(await rows.count(), 51);
  await page.getByRole("button", { name: "Next page" }).click();
  await rows.filter({ hasText: "account-0" }).waitFor();
  await page.getByLabel("Action").selectOption("delivery.paused");
  await rows.filter({ hasText: `host=audit.example.com reason=${HOSTILE}` }).waitFor();
  assert.equal(new URL(page.url()).search, "?action=delivery.paused");
  await page.getByRole("button", { name: "24 h" }).click();
  await rows.filter({ hasText: `host=audit.example.com reason=${HOSTILE}` }).waitFor();
  await page.getByLabel("Action").selectOption("task.erased");
  await page.getByText("No matching entries in this period.").waitFor();
  await page.getByLabel("Action").selectOption("");
  await page.getByLabel("Account").fill("account-7");
  await rows.filter({ hasText: "account-7" }).waitFor();
  // The head and the one entry.
  await rows.nth(2).waitFor({ state: "detached" });
  assert.equal(await rows.count(), 2);
}

async function loadsForOperators(t: TestContext, daemon: TestDaemon): Promise<void> {
  for (const isOperator of [false, true]) {
    const { page } = await openPage(t, daemon.url);
    const scripts: string[] = [];
    page.on("request", (request) => {
      if (request.resourceType() === "script") scripts.push(new URL(request.url()).pathname);
    });
    if (isOperator) await signInAsOperator(page, daemon);
    else await signIn(page, daemon.account);
    // An operator's script has this screen.
    await page.goto("/dashboard/system");
    await page
      .getByText(isOperator ? "Up for" : "No page exists at this address.")
      .first()
      .waitFor();
    const ofOperator = scripts.filter((path) => path.includes("/screens-"));
    assert.equal(ofOperator.length > 0, isOperator, scripts.join(" "));
  }
}

async function canBeMissing(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page, complaints } = await openPage(t, daemon.url);
  await page.route("**/assets/screens-*", (route) => route.abort());
  await signInAsOperator(page, daemon);
  await goTo(page, "Tasks");
  await page.getByRole("link", { name: "Nodes", exact: true }).click();
  await page.getByRole("alert").filter({ hasText: "Reload the page." }).waitFor();
  await page.unroute("**/assets/screens-*");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("answers you").waitFor();
  for (const complaint of complaints.splice(0)) assert.match(complaint, /ERR_FAILED/);
}
