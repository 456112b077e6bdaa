import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { TestDaemon } from "../helpers/daemon.ts";
import { runProgram } from "../helpers/program.ts";
import { createLink } from "../http/session-requests.ts";
import {
  REFUSED,
  type TestPage,
  assertEnded,
  forgive,
  mark,
  openPage,
  signIn,
  takeSteps,
} from "./browser.ts";

test("signing in and out", (t) =>
  takeSteps(t, {
    "an account signs in by the form, its key is not stored, and the reference is linked":
      signsInByForm,
    "a wrong key is refused, and the form keeps the login": refusesWrongKey,
    "the operator signs in once by the link of the command": signsInByLink,
    "a link pasted into an open page signs in and stays out of the history": signsInByPastedLink,
    "signing out in one tab signs out the other": endsEverywhere,
    "an account has no access to the operator's screens": hidesOperatorScreens,
    "an account disabled by the command is signed out without a reload": endsWhenDisabled,
  }));

async function signsInByForm(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page, context } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  await page.reload();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  assert.equal(await page.title(), "Overview · postbackd");

  const [cookie, ...others] = await context.cookies();
  assert.deepEqual(others, []);
  assert.equal(cookie?.name, `postbackd-${new URL(daemon.url).port}`);
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/"]);
  const hours = (cookie.expires - Date.now() / 1000) / 3600;
  assert(hours > 11.9 && hours <= 12, String(hours));
  const kept: unknown = await page.evaluate(
    "JSON.stringify([document.cookie, localStorage, sessionStorage, location.href])",
  );
  assert(!String(kept).includes(daemon.account.key) && !String(kept).includes(cookie.value));
  await page.locator("header a[href='/docs']").click();
  await page.waitForURL("**/docs");
}

async function refusesWrongKey(t: TestContext, daemon: TestDaemon): Promise<void> {
  const opened = await openPage(t, daemon.url);
  const { page } = opened;
  await page.goto("/dashboard/tasks");
  await page.getByLabel("Login").fill(daemon.account.login);
  await page.getByLabel("API key").fill(`pbd_live_${"0".repeat(40)}`);
  await page.getByLabel("API key").press("Enter");
  await page.getByRole("alert").waitFor();
  assert.equal(await page.getByLabel("Login").inputValue(), daemon.account.login);
  forgive(opened, REFUSED);
  await page.getByLabel("API key").fill(daemon.account.key);
  await page.getByLabel("API key").press("Enter");
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
}

async function signsInByLink(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { stdout } = await runProgram(t, ["admin", "link", "--json", "--db", daemon.file]);
  const { url } = (JSON.parse(stdout) as { link: { url: string } }).link;
  assert(url.startsWith(`${daemon.url}/dashboard/#link=`), url);

  const first = await openPage(t, daemon.url);
  await first.page.goto(url);
  await first.page.getByRole("heading", { name: "Overview" }).waitFor();
  await first.page.getByText("all accounts", { exact: true }).first().waitFor();
  assert.equal(first.page.url(), `${daemon.url}/dashboard/`);
  assert.deepEqual(await linksInHistory(first), []);

  const second = await openPage(t, daemon.url);
  await second.page.goto(url);
  await second.page
    .getByRole("alert")
    .filter({ hasText: "This sign-in link does not work" })
    .waitFor();
  await second.page.getByLabel("API key").waitFor();
  assert.equal(second.page.url(), `${daemon.url}/dashboard/`);
  forgive(second, REFUSED);
}

async function linksInHistory({ page, context }: TestPage): Promise<readonly object[]> {
  const { entries } = await (await context.newCDPSession(page)).send("Page.getNavigationHistory");
  return entries.filter(({ url }) => url.includes("link"));
}

async function signsInByPastedLink(t: TestContext, daemon: TestDaemon): Promise<void> {
  const opened = await openPage(t, daemon.url);
  const { page } = opened;
  await page.goto("/dashboard/tasks");
  await page.getByLabel("API key").waitFor();
  const isSame = await mark(page);
  await page.goto(`${daemon.url}/dashboard/tasks#link=${"0".repeat(40)}`);
  await page.getByRole("alert").waitFor();
  assert.equal(page.url(), `${daemon.url}/dashboard/tasks`);
  forgive(opened, REFUSED);

  const link = await createLink(daemon.file, Date.now() + 60_000);
  await page.goto(`${daemon.url}/dashboard/tasks#link=${link}`);
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
  await page.getByText("all accounts", { exact: true }).first().waitFor();
  assert.equal(page.url(), `${daemon.url}/dashboard/tasks`);

  await page.goto(`${daemon.url}/dashboard/tasks#link=${link}`);
  await page.getByRole("status").getByText("This sign-in link does not work").waitFor();
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
  forgive(opened, REFUSED);
  assert.deepEqual(await linksInHistory(opened), []);
  await isSame();
}

async function endsEverywhere(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page, context } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  const other = await context.newPage();
  await other.goto("/dashboard/tasks");
  await other.getByText("Live", { exact: true }).waitFor();
  const isSame = await mark(other);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  await assertEnded(other);
  await isSame();
  assert.deepEqual(await context.cookies(), []);
}

async function hidesOperatorScreens(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  const links = await page.getByRole("navigation", { name: "Screens" }).getByRole("link").count();
  assert.equal(links, 4);
  for (const path of ["accounts", "system"]) {
    await page.goto(`/dashboard/${path}`);
    await page.getByText("No page exists at this address.").waitFor();
  }
}

async function endsWhenDisabled(t: TestContext, daemon: TestDaemon): Promise<void> {
  const opened = await openPage(t, daemon.url);
  await signIn(opened.page, daemon.account);
  await opened.page.getByText("Live", { exact: true }).waitFor();
  const isSame = await mark(opened.page);
  const disable = ["admin", "account", "disable", daemon.account.login];
  const { code, stderr } = await runProgram(t, [...disable, "--db", daemon.file]);
  assert.equal(code, 0, stderr);
  await assertEnded(opened.page);
  await isSame();
  forgive(opened, REFUSED);
}
