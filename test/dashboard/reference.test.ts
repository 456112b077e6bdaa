import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { accessProblems, hasBrowser, openPage } from "./browser.ts";

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
