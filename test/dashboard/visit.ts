import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { Page } from "playwright-core";

import { startTestDaemon, type TestDaemon, type TestDaemonOptions } from "../helpers/daemon.ts";
import { createLink } from "../http/session-requests.ts";
import { hasBrowser, type TestPage } from "./browser.ts";

/** One test of several that share a daemon. */
export type Step = (t: TestContext, daemon: TestDaemon) => Promise<void>;

/** Does steps at one daemon, each a test of its own, in their order. Without a browser all are skipped. */
export async function takeSteps(
  t: TestContext,
  steps: Readonly<Record<string, Step>>,
  options: TestDaemonOptions = {},
): Promise<void> {
  if (!hasBrowser(t)) return;
  const daemon = await startTestDaemon(t, options);
  for (const [name, step] of Object.entries(steps)) {
    await t.test(name, (part) => step(part, daemon));
  }
}

/** Signs the operator in by a link. */
export async function signInAsOperator(
  page: Page,
  { url, file }: Pick<TestDaemon, "url" | "file">,
  now = Date.now(),
): Promise<void> {
  await page.goto(`${url}/dashboard/#link=${await createLink(file, now + 60_000)}`);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

/** Goes to a screen by the navigation, without loading the page again. */
export async function goTo(page: Page, name: string): Promise<void> {
  const screens = page.getByRole("navigation", { name: "Screens" });
  await screens.getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

/** What the page complained of so far has to be like this, and is no fault. */
export function forgive({ complaints }: TestPage, expected: RegExp): void {
  for (const complaint of complaints.splice(0)) assert.match(complaint, expected);
}

/** What the browser says of a request that is refused because the session is over. */
export const REFUSED = /status of 401/;

/** Marks the page; the mark is gone once it is loaded again. */
export async function mark(page: Page): Promise<() => Promise<void>> {
  await page.evaluate("globalThis.isMarked = true");
  return async () => assert.equal(await page.evaluate("globalThis.isMarked"), true, "reloaded");
}
